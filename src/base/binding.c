/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding of threads to cores and NUMA nodes. hwloc knows the machine and which processors this
 * process may use; memory that a bound thread touches first is on its own node. Cost: reading the
 * topology takes a few milliseconds, once a run.
 */
#include "base/binding.h"

#include "base/memory.h"

#ifdef FAST_HAVE_HWLOC
#include <hwloc.h>
#endif

struct fast_binding {
#ifdef FAST_HAVE_HWLOC
    hwloc_topology_t topology; /* owned */
    hwloc_obj_type_t type;     /* of the places */
#endif
    int64_t places; /* number of cores or NUMA nodes */
};

#ifdef FAST_HAVE_HWLOC

/* Load the topology of the machine, or a synthetic one. */
static fast_err load(fast_binding *b, const char *synthetic)
{
    if (hwloc_topology_init(&b->topology) != 0)
        return fast__fail(FAST_ENOMEM, "hwloc has no memory for a topology");
    if (synthetic && hwloc_topology_set_synthetic(b->topology, synthetic) != 0) {
        hwloc_topology_destroy(b->topology);
        return fast__fail(FAST_EINVAL, "hwloc does not understand the machine \"%.60s\"",
                          synthetic);
    }
    if (hwloc_topology_load(b->topology) != 0) {
        hwloc_topology_destroy(b->topology);
        return fast__fail(FAST_EIO, "hwloc cannot read the machine's topology; use --bind none");
    }
    return FAST_OK;
}

fast_err fast__binding_new(fast_bind_mode mode, const char *synthetic, fast_binding **out)
{
    fast_binding *b = NULL;

    FAST_ASSERT(mode == FAST_BIND_CORE || mode == FAST_BIND_NUMA);
    FAST_TRY(fast__alloc("a binding", 1, sizeof *b, &b));
    const fast_err err = load(b, synthetic);
    if (err) {
        fast__free(b);
        return err;
    }
    b->type = mode == FAST_BIND_CORE ? HWLOC_OBJ_CORE : HWLOC_OBJ_NUMANODE;
    const int places = hwloc_get_nbobjs_by_type(b->topology, b->type);
    b->places = places > 0 ? places : 1;
    *out = b;
    return FAST_OK;
}

void fast__binding_free(fast_binding *b)
{
    if (!b)
        return;
    hwloc_topology_destroy(b->topology);
    fast__free(b);
}

int64_t fast__binding_places(const fast_binding *b)
{
    FAST_ASSERT(b->places > 0);
    return b->places;
}

/* Return the object of a place; NULL on a machine without such objects. */
static hwloc_obj_t object_of(const fast_binding *b, int64_t place)
{
    FAST_ASSERT(place >= 0 && place < b->places);
    return hwloc_get_obj_by_type(b->topology, b->type, (unsigned)place);
}

int64_t fast__binding_node(const fast_binding *b, int64_t place)
{
    const hwloc_obj_t object = object_of(b, place);
    const int first = object ? hwloc_bitmap_first(object->nodeset) : 0;

    return first > 0 ? first : 0;
}

bool fast__binding_apply(const fast_binding *b, int64_t place)
{
    const hwloc_obj_t object = object_of(b, place);

    return object && hwloc_set_cpubind(b->topology, object->cpuset, HWLOC_CPUBIND_THREAD) == 0;
}

#else

/* Never made: no other function is called. */
fast_err fast__binding_new(fast_bind_mode mode, const char *synthetic, fast_binding **out)
{
    (void)mode;
    (void)synthetic;
    (void)out;
    return fast__fail(FAST_ENOTSUP, "no hwloc in this build to bind workers with; install "
                                    "libhwloc-dev and configure again, or use --bind none");
}

void fast__binding_free(fast_binding *b)
{
    FAST_ASSERT(b == NULL);
}

int64_t fast__binding_places(const fast_binding *b)
{
    return b->places;
}

int64_t fast__binding_node(const fast_binding *b, int64_t place)
{
    FAST_ASSERT(place < b->places);
    return 0;
}

bool fast__binding_apply(const fast_binding *b, int64_t place)
{
    FAST_ASSERT(place < b->places);
    return false;
}
#endif

int64_t fast__binding_place(const fast_binding *b, int64_t i, int64_t n)
{
    FAST_ASSERT(i >= 0 && i < n);
    return i * fast__binding_places(b) / n;
}
