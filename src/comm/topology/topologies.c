/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topologies by name. Sizes and degrees of n ranks:
 *
 *   name          links of a rank             gap of mixing   from
 *   ring          2                           O(1/n^2)        D-PSGD (Lian et al. 2017)
 *   line          2, ends 1                   O(1/n^2)
 *   tree          arity + 1                   O(1/n)          reductions
 *   star          n - 1 at rank 0, else 1     O(1/n)          a server
 *   full          n - 1                       1               allreduce
 *   hypercube     log2 n                      O(1/log n)      one dimension a step: 1
 *   torus         4                           O(1/n)
 *   halton        about log2 n, directed      O(1/log n)      MALT (Li et al. 2015)
 *   random        any degree                  O(1)            expanders, drawn from the seed
 *   exponential   log2 n, directed            O(1/log n)      SGP (Assran et al. 2019)
 *   grid          side - 1, along one axis a step     1       Moshpit SGD (Ryabinin et al. 2021)
 *   pairs         1, another at each step                     gossip in rounds of a tournament
 *
 * exponential:one=yes,renumber=N is GossipGraD's dissemination (Daily et al. 2018): a value reaches
 * all ranks in ceil(log2 n) steps, and partners rotate, since ranks are renumbered after each pass.
 *
 * The gap of mixing is 1 - |lambda_2| (topology_check.c): the larger, the fewer steps an average
 * takes to spread. A kind is one function make_NAME() and one line in the registry; it only lists
 * links or offsets, and topology.c computes the weights.
 */
#include "comm/topology.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "comm/collective.h"

#include <math.h>
#include <string.h>

/* The options of all kinds: each kind's table shows its own. */
typedef struct topology_config {
    int64_t arity;    /* tree: children */
    int64_t axes;     /* grid: dimensions */
    int64_t rows;     /* torus; 0: as square as the size allows */
    int64_t degree;   /* halton, random: links of a rank; 0: log2 of the size */
    bool one;         /* hypercube, exponential: one link a step */
    int64_t renumber; /* exponential: random numberings of the ranks, in turn; 0: none */
    int order;        /* pairs: 0 rotate, 1 random */
    const char *path; /* file */
} topology_config;

enum {
    FILE_MAX = 1 << 26, /* bytes of a topology file at most */
    AXES_MAX = 16       /* dimensions of a grid */
};

/* Circulants. */

/* ring: each rank with the next and the one before. */
static fast_err make_ring(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(size >= 1);
    const int64_t count = size > 2 ? 2 : size - 1;
    const int64_t offsets[2] = { 1, size - 1 };

    (void)config;
    (void)seed;
    return fast__topology_circulant(size, 1, &count, offsets, out);
}

/* full: each rank with every other. */
static fast_err make_full(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(size >= 1);
    const int64_t count = size - 1;
    int64_t *offsets = NULL;
    fast_err err;

    (void)config;
    (void)seed;
    FAST_TRY(fast__alloc("a topology's offsets", count, sizeof *offsets, &offsets));
    for (int64_t i = 0; i < count; i++)
        offsets[i] = i + 1;
    err = fast__topology_circulant(size, 1, &count, offsets, out);
    fast__free(offsets);
    return err;
}

/* Return the greatest common divisor. */
static int64_t common_divisor(int64_t a, int64_t b)
{
    FAST_ASSERT(a >= 0 && b >= 0);
    while (b) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Van der Corput's sequence 1/2, 1/4, 3/4, 1/8, ... times the size: links that halve every gap.
 * With a power of two of ranks the first ones are all even, and odd ranks would never hear of even
 * ones: then a link to the next rank is added. */
static fast_err make_halton(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(size >= 1);
    const topology_config *c = config;
    const int64_t want = c->degree ? c->degree : fast__log2_ceil(size);
    int64_t *offsets = NULL;
    int64_t count = 0;
    int64_t divisor = size;
    fast_err err;

    (void)seed;
    if (want > size - 1)
        return fast__fail(FAST_EINVAL, "%lld ranks have no %lld different links each; lower degree",
                          (long long)size, (long long)want);
    FAST_TRY(fast__alloc("a topology's offsets", want + 1, sizeof *offsets, &offsets));
    for (uint64_t i = 1; count < want; i++) {
        int64_t offset = 0;
        bool known = false;

        /* floor(size * sum of bit_k 2^-(k+1)), exactly: the bits are mirrored first. */
        uint64_t mirrored = 0;
        for (int k = 0; k < 32; k++)
            mirrored |= (i >> k & 1) << (31 - k);
        offset = (int64_t)((mirrored * (uint64_t)size) >> 32);
        for (int64_t k = 0; k < count && !known; k++)
            known = offsets[k] == offset;
        if (offset > 0 && !known)
            offsets[count++] = offset;
    }
    for (int64_t k = 0; k < count; k++)
        divisor = common_divisor(divisor, offsets[k]);
    if (divisor > 1)
        offsets[count++] = 1;
    err = fast__topology_circulant(size, 1, &count, offsets, out);
    fast__free(offsets);
    return err;
}

/* exponential: each rank sends to the ranks 1, 2, 4, ... after it; with `one` to one of them a
 * step, whose product over a pass averages exactly if the size is a power of two. */
static fast_err make_exponential(const void *config, int64_t size, uint64_t seed,
                                 fast_topology **out)
{
    const topology_config *c = config;
    const int64_t count = fast__log2_ceil(size);
    int64_t offsets[64];
    int64_t ones[64];
    fast_topology *topology = NULL;
    fast_err err;

    FAST_ASSERT(count < 64);
    if (c->renumber > 0 && !c->one)
        return fast__fail(FAST_EINVAL, "exponential: ranks are renumbered after a pass of single "
                                       "links; give one=yes with renumber");
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = (int64_t)1 << i;
        ones[i] = 1;
    }
    if (!c->one || count == 0)
        return fast__topology_circulant(size, 1, &count, offsets, out);
    FAST_TRY(fast__topology_circulant(size, count, ones, offsets, &topology));
    err = c->renumber > 0 ? fast__topology_renumber(topology, c->renumber, seed) : FAST_OK;
    if (err)
        fast_topology_free(topology);
    else
        *out = topology;
    return err;
}

/* Lists. */

/* Links of a graph while it is made. */
typedef struct link_list {
    fast_topology_link *links; /* with room for all that a kind needs */
    int64_t count;             /* so far */
    int64_t room;              /* of links */
} link_list;

/* Make room for links. */
static fast_err links_init(link_list *list, int64_t room)
{
    FAST_ASSERT(room >= 0);
    *list = (link_list){ .room = room };
    return fast__alloc("a topology's links", room, sizeof *list->links, &list->links);
}

/* Append a link whose weight follows from the degrees. */
static void link_up(link_list *list, int64_t from, int64_t to)
{
    FAST_ASSERT(list->count < list->room);
    list->links[list->count++] = (fast_topology_link){ from, to, -1 };
}

/* Make an undirected graph of one step and free the links. */
static fast_err links_done(link_list *list, int64_t size, fast_topology **out)
{
    FAST_ASSERT(list->count <= list->room);
    const int64_t starts[2] = { 0, list->count };
    const fast_err err = fast__topology_list(size, 1, starts, list->links, false, out);

    fast__free(list->links);
    return err;
}

/* Link each rank r > 0 to its parent (r - 1) / arity. */
static fast_err link_children(int64_t arity, int64_t size, fast_topology **out)
{
    FAST_ASSERT(arity >= 1 && size >= 1);
    link_list list;

    FAST_TRY(links_init(&list, size));
    for (int64_t r = 1; r < size; r++)
        link_up(&list, (r - 1) / arity, r);
    return links_done(&list, size, out);
}

/* line: a tree of one child each. */
static fast_err make_line(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    (void)config;
    (void)seed;
    return link_children(1, size, out);
}

/* tree: with 2 children, rank r is linked to 2 r + 1 and 2 r + 2. */
static fast_err make_tree(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    (void)seed;
    return link_children(((const topology_config *)config)->arity, size, out);
}

/* star: a tree whose root has all other ranks as children. */
static fast_err make_star(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    (void)config;
    (void)seed;
    return link_children(size, size, out);
}

/* hypercube: rank r with r ^ 2^d, for all dimensions d at once or, with `one`, one dimension a
 * step. */
static fast_err make_hypercube(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    const topology_config *c = config;
    const int64_t dimensions = fast__log2_ceil(size);
    int64_t starts[64] = { 0 };
    link_list list;
    fast_err err;

    (void)seed;
    FAST_ASSERT(dimensions < 63);
    if ((int64_t)1 << dimensions != size)
        return fast__fail(FAST_EINVAL,
                          "a hypercube has a power of two of ranks, not %lld; try exponential",
                          (long long)size);
    FAST_TRY(links_init(&list, size * dimensions / 2 + 1));
    for (int64_t d = 0; d < dimensions; d++) {
        for (int64_t r = 0; r < size; r++)
            if ((r >> d & 1) == 0)
                link_up(&list, r, r | (int64_t)1 << d);
        starts[d + 1] = list.count;
    }
    if (!c->one || dimensions == 0)
        return links_done(&list, size, out);
    err = fast__topology_list(size, dimensions, starts, list.links, false, out);
    fast__free(list.links);
    return err;
}

/* torus: a grid whose rows and columns are rings. */
static fast_err make_torus(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(config && size >= 1);
    const topology_config *c = config;
    int64_t rows = c->rows;
    int64_t columns;
    link_list list;

    (void)seed;
    if (rows == 0)
        for (int64_t r = 1; r * r <= size; r++)
            if (size % r == 0)
                rows = r;
    if (rows > size || size % rows != 0)
        return fast__fail(FAST_EINVAL, "%lld ranks do not make a torus of %lld rows",
                          (long long)size, (long long)rows);
    columns = size / rows;
    FAST_TRY(links_init(&list, 2 * size));
    /* Rows or columns of one or two have no second way around. */
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < columns; x++) {
            if (x + 1 < columns || columns > 2)
                link_up(&list, y * columns + x, y * columns + (x + 1) % columns);
            if (y + 1 < rows || rows > 2)
                link_up(&list, y * columns + x, (y + 1) % rows * columns + x);
        }
    return links_done(&list, size, out);
}

/* Return the side of axis d of a grid: the sides are as equal as their product `size` allows, the
 * longer ones first. */
static int64_t grid_side(int64_t size, int64_t axes, int64_t d)
{
    FAST_ASSERT(axes >= 1 && d >= 0 && d < axes);
    int64_t side = size;

    for (int64_t left = axes; left > 0; left--, d--) {
        /* The least divisor of which `left` make at least the size that is left. */
        for (side = 1; size % side != 0 || pow((double)side, (double)left) < (double)size - 0.5;)
            side++;
        if (d == 0)
            break;
        size /= side;
    }
    return side;
}

/* grid: at each step a rank and all others along one axis, the axes in turn. The product over all
 * axes averages exactly; one axis is `full`. */
static fast_err make_grid(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    const int64_t axes = ((const topology_config *)config)->axes;
    int64_t starts[AXES_MAX + 1] = { 0 }, stride = 1, room = 0;
    link_list list;

    (void)seed;
    FAST_ASSERT(axes >= 1 && axes <= AXES_MAX);
    for (int64_t d = 0; d < axes; d++)
        room += size * (grid_side(size, axes, d) - 1) / 2;
    FAST_TRY(links_init(&list, room + 1));
    /* Rank r has the coordinate r / stride % side on an axis; each link is listed at its lower
     * end. */
    for (int64_t d = 0; d < axes; d++) {
        const int64_t side = grid_side(size, axes, d);

        for (int64_t r = 0; r < size; r++)
            for (int64_t q = r / stride % side + 1; q < side; q++)
                link_up(&list, r, r + (q - r / stride % side) * stride);
        stride *= side;
        starts[d + 1] = list.count;
    }
    const fast_err err = fast__topology_list(size, axes, starts, list.links, false, out);
    fast__free(list.links);
    return err;
}

/* True if the links have {a, b}. */
static bool is_linked(const int64_t *peers, int64_t degree, int64_t a, int64_t b)
{
    FAST_ASSERT(degree >= 0);
    for (int64_t i = 0; i < degree; i++)
        if (peers[a * degree + i] == b)
            return true;
    return false;
}

/* Replace one peer of a rank by another. */
static void relink(int64_t *peers, int64_t degree, int64_t a, int64_t old, int64_t fresh)
{
    FAST_ASSERT(old != fresh);
    int64_t i = 0;

    while (peers[a * degree + i] != old)
        i++;
    peers[a * degree + i] = fresh;
}

/* Swap the ends of random pairs of links, {a, b} {c, d} -> {a, d} {c, b}: degrees stay, doubled
 * links and links to oneself are not made, and after many swaps any such graph is as likely. */
static void swap_links(int64_t *peers, int64_t size, int64_t degree, fast_rng *rng)
{
    FAST_ASSERT(size > 0 && degree > 0);
    const int64_t swaps = 10 * size * degree;

    for (int64_t i = 0; i < swaps; i++) {
        const int64_t a = (int64_t)fast__rng_below(rng, (uint64_t)size);
        const int64_t c = (int64_t)fast__rng_below(rng, (uint64_t)size);
        const int64_t b = peers[a * degree + (int64_t)fast__rng_below(rng, (uint64_t)degree)];
        const int64_t d = peers[c * degree + (int64_t)fast__rng_below(rng, (uint64_t)degree)];

        if (a == c || a == d || b == c || b == d)
            continue;
        if (is_linked(peers, degree, a, d) || is_linked(peers, degree, c, b))
            continue;
        relink(peers, degree, a, b, d);
        relink(peers, degree, b, a, c);
        relink(peers, degree, c, d, b);
        relink(peers, degree, d, c, a);
    }
}

/* Draws until the graph is connected, which random ones of degree 3 or more nearly always are; the
 * regular circulant that it starts from is, so a last resort exists. */
static fast_err make_random(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(config && size >= 1);
    const topology_config *c = config;
    const int64_t degree = c->degree ? c->degree : (size > 4 ? 4 : size - 1);
    int64_t *peers = NULL;
    fast_topology *topology = NULL;
    fast_err err = FAST_OK;

    if (degree > size - 1 || size * degree % 2 != 0)
        return fast__fail(FAST_EINVAL,
                          "%lld ranks of degree %lld make no graph; the degree must be below the "
                          "number of ranks and their product even",
                          (long long)size, (long long)degree);
    FAST_TRY(fast__alloc("a topology's links", size * degree, sizeof *peers, &peers));
    for (uint64_t draw = 0; !topology && !err; draw++) {
        fast_rng rng;
        link_list list;

        for (int64_t r = 0; r < size; r++)
            for (int64_t i = 0; i < degree; i++) {
                const int64_t offset = i % 2 ? size - i / 2 - 1 : i / 2 + 1;

                /* An odd degree's last link leads to the opposite side of the circle. */
                peers[r * degree + i] =
                    (r + (i == degree - 1 && degree % 2 ? size / 2 : offset)) % size;
            }
        fast__rng_init(&rng, seed, FAST_PURPOSE_TOPOLOGY, 2, draw, 0);
        if (draw < 100 && degree > 1)
            swap_links(peers, size, degree, &rng);
        err = links_init(&list, size * degree / 2);
        for (int64_t k = 0; k < size * degree && !err; k++)
            if (k / degree < peers[k])
                link_up(&list, k / degree, peers[k]);
        if (!err)
            err = links_done(&list, size, &topology);
        if (!err && fast_topology_check(topology) != FAST_OK && draw < 100) {
            fast_topology_free(topology);
            topology = NULL;
        }
    }
    fast__free(peers);
    if (!err)
        *out = topology;
    return err;
}

/* pairs: each rank with another one at each step. */
static fast_err make_pairs(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(config && size >= 1);
    const topology_config *c = config;

    return fast__topology_pairs(size, c->order == 1, seed, out);
}

/* file: the links of a file. */
static fast_err make_file(const void *config, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(config && size >= 1);
    const topology_config *c = config;
    char *text = NULL;
    size_t bytes = 0;
    fast_err err;

    (void)seed;
    FAST_TRY(fast__file_read(c->path, FILE_MAX, &text, &bytes));
    err = fast__topology_parse(text, bytes, size, out);
    fast__free(text);
    return err == FAST_EINVAL ? fast__fail_in(err, c->path) : err;
}

/* The registry. */

static const fast_option tree_options[] = {
    FAST_OPT_INT(topology_config, arity, "2", 1, 1 << 20, "children of a rank"),
    FAST_OPT_END,
};
static const fast_option torus_options[] = {
    FAST_OPT_INT(topology_config, rows, "0", 0, 1 << 20, "rows; 0: as square as can be"),
    FAST_OPT_END,
};
static const fast_option grid_options[] = {
    FAST_OPT_INT(topology_config, axes, "2", 1, AXES_MAX,
                 "dimensions; a step mixes all ranks along one of them, in turn"),
    FAST_OPT_END,
};
static const fast_option degree_options[] = {
    FAST_OPT_INT(topology_config, degree, "0", 0, 1 << 20, "links of a rank; 0: by the size"),
    FAST_OPT_END,
};
static const fast_option one_options[] = {
    FAST_OPT_BOOL(topology_config, one, "no", "one link a step, in turn"),
    FAST_OPT_END,
};
static const fast_option exponential_options[] = {
    FAST_OPT_BOOL(topology_config, one, "no", "one link a step, in turn"),
    FAST_OPT_INT(topology_config, renumber, "0", 0, 1024,
                 "with one: random numberings of the ranks, in turn, another after each pass over "
                 "the links; 0: their own numbers"),
    FAST_OPT_END,
};
static const fast_option pairs_options[] = {
    FAST_OPT_CHOICE(topology_config, order, "rotate", "rotate|random",
                    "the pairs of a step: each other rank in turn, or at random"),
    FAST_OPT_END,
};

static const fast_topology_kind ring = { "ring", "each rank and its two neighbours", NULL,
                                         make_ring };
static const fast_topology_kind line = { "line", "a ring that is cut open", NULL, make_line };
static const fast_topology_kind tree = { "tree", "a parent and its children; rank 0 is the root",
                                         tree_options, make_tree };
static const fast_topology_kind star = { "star", "rank 0 and every other rank", NULL, make_star };
static const fast_topology_kind full = { "full", "every rank and every other", NULL, make_full };
static const fast_topology_kind hypercube = { "hypercube", "ranks whose numbers differ in one bit",
                                              one_options, make_hypercube };
static const fast_topology_kind torus = { "torus", "a grid whose rows and columns are rings",
                                          torus_options, make_torus };
static const fast_topology_kind grid = { "grid", "all ranks along one axis of a grid, in turn",
                                         grid_options, make_grid };
static const fast_topology_kind halton = { "halton",
                                           "directed links that halve every gap, as in MALT",
                                           degree_options, make_halton };
static const fast_topology_kind random_regular = { "random", "a random graph of equal degrees (4)",
                                                   degree_options, make_random };
static const fast_topology_kind exponential = { "exponential",
                                                "directed links to 1, 2, 4, 8, ... further on",
                                                exponential_options, make_exponential };
static const fast_topology_kind pairs = { "pairs",
                                          "each rank exchanges with one other at each step",
                                          pairs_options, make_pairs };
static const fast_topology_kind file = { "file", "a topology file: file:PATH", NULL, make_file };

/* Terminated by NULL; `file` is last, as it takes a path and no options. */
const fast_topology_kind *const fast__topologies[] = {
    &ring, &line,   &tree,           &star,        &full,  &hypercube, &torus,
    &grid, &halton, &random_regular, &exponential, &pairs, &file,      NULL,
};

/* The name of topology i, for lookups. */
static const char *name_at(const void *ctx, int64_t i)
{
    FAST_ASSERT(fast__topologies[i]);
    (void)ctx;
    return fast__topologies[i]->name;
}

/* The path of a file may contain any character, so it is not parsed as options. */
fast_err fast_topology_new(const char *spec, int64_t size, uint64_t seed, fast_topology **out)
{
    FAST_ASSERT(spec && out);
    const int64_t count = (int64_t)(sizeof fast__topologies / sizeof *fast__topologies) - 1;
    topology_config config = { .arity = 2 };
    const fast_topology_kind *kind;
    const char *rest = NULL;
    char name[32];
    int64_t i;

    if (size < 1 || size > FAST_TOPOLOGY_SIZE_MAX)
        return fast__fail(FAST_EINVAL, "a topology has 1 to %d ranks, not %lld",
                          FAST_TOPOLOGY_SIZE_MAX, (long long)size);
    FAST_TRY(fast__spec_split(spec, name, sizeof name, &rest));
    i = fast__name_find(name, name_at, NULL, count, NULL);
    if (i < 0)
        return fast__name_unknown("topology", name, name_at, NULL, count);
    kind = fast__topologies[i];
    if (kind == &file) {
        if (!rest || !*rest)
            return fast__fail(FAST_EINVAL, "file needs the path of a topology file: file:PATH");
        config.path = rest;
        return kind->make(&config, size, seed, out);
    }
    fast__options_default(kind->options, &config);
    FAST_TRY(fast__options_parse(kind->name, kind->options, &config, rest));
    return kind->make(&config, size, seed, out);
}
