/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mesh of workers: from "data=2,pipe=3" to coordinates and back,
 *
 *     worker = (data * |pipe| + pipe) * |tensor| + tensor
 *
 * so that the workers that exchange most, shards, and then the stages of one replica, have
 * consecutive numbers and lie close together on most clusters.
 */
#include "split/mesh.h"

#include "base/err.h"

const fast_option fast__mesh_options[] = {
    FAST_OPT_INT(fast_mesh, data, "0", 0, 65536,
                 "replicas of the model; 0: as many as the workers allow"),
    FAST_OPT_INT(fast_mesh, pipe, "1", 1, 1024, "stages of each replica"),
    FAST_OPT_INT(fast_mesh, tensor, "1", 1, 1024, "shards of the tensors of each stage"),
    FAST_OPT_END,
};

fast_err fast__mesh_parse(const char *spec, int64_t workers, fast_mesh *out)
{
    fast_mesh mesh = { 0 };

    FAST_ASSERT(spec != NULL && workers >= 1);
    fast__options_default(fast__mesh_options, &mesh);
    FAST_TRY(fast__options_parse("mesh", fast__mesh_options, &mesh, spec));
    if (mesh.data == 0)
        mesh.data = workers > mesh.pipe * mesh.tensor ? workers / (mesh.pipe * mesh.tensor) : 1;
    if (workers > 1 && workers != fast__mesh_size(&mesh))
        return fast__fail(FAST_EINVAL,
                          "mesh=%.100s is of %lld workers, and workers=%lld; leave out workers",
                          spec, (long long)fast__mesh_size(&mesh), (long long)workers);
    *out = mesh;
    return FAST_OK;
}

int64_t fast__mesh_size(const fast_mesh *mesh)
{
    FAST_ASSERT(mesh->data >= 1 && mesh->pipe >= 1 && mesh->tensor >= 1);
    return mesh->data * mesh->pipe * mesh->tensor;
}

fast_mesh_place fast__mesh_place(const fast_mesh *mesh, int64_t worker)
{
    FAST_ASSERT(worker >= 0 && worker < fast__mesh_size(mesh));
    return (fast_mesh_place){ .data = worker / (mesh->pipe * mesh->tensor),
                              .pipe = worker / mesh->tensor % mesh->pipe,
                              .tensor = worker % mesh->tensor };
}

int64_t fast__mesh_worker(const fast_mesh *mesh, fast_mesh_place place)
{
    FAST_ASSERT(place.data >= 0 && place.data < mesh->data);
    FAST_ASSERT(place.pipe >= 0 && place.pipe < mesh->pipe);
    FAST_ASSERT(place.tensor >= 0 && place.tensor < mesh->tensor);
    return (place.data * mesh->pipe + place.pipe) * mesh->tensor + place.tensor;
}
