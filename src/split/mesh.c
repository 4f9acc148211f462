/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mesh of workers: from "data=2,pipe=3" to coordinates and back,
 *
 *     worker = (data * |pipe| + pipe) * |tensor| + tensor
 *
 * so that the workers that exchange most, shards, and then the stages of one replica, have
 * consecutive numbers and lie close together on most clusters. Where stages have replicas of their
 * own, those of one stage have consecutive numbers: a worker sends to all replicas of the next one.
 *
 *     worker = replicas of the stages before + data
 */
#include "split/mesh.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

const fast_option fast__mesh_options[] = {
    FAST_OPT_INT(fast_mesh, data, "0", 0, 65536,
                 "replicas of the model; 0: as many as the workers allow"),
    FAST_OPT_INT(fast_mesh, pipe, "1", 1, 1024, "stages of each replica"),
    FAST_OPT_INT(fast_mesh, tensor, "1", 1, 1024, "shards of the tensors of each stage"),
    FAST_OPT_TEXT(fast_mesh, replicas, "", NULL,
                  "instead of data: replicas of each stage, like 3x1, which take micro-batches "
                  "round-robin"),
    FAST_OPT_END,
};

/* Refuse a dimension that is written twice: it could mean the product, or the last one. */
static fast_err check_once(const char *spec)
{
    for (const fast_option *o = fast__mesh_options; o->name; o++) {
        const size_t length = strlen(o->name);
        int count = 0;

        for (const char *at = spec; at; at = strchr(at, ',')) {
            at += *at == ',';
            count += strncmp(at, o->name, length) == 0 && at[length] == '=';
        }
        if (count > 1)
            return fast__fail(FAST_EINVAL, "mesh=%.100s has %s %d times; give each dimension once",
                              spec, o->name, count);
    }
    return FAST_OK;
}

fast_err fast__mesh_given(const char *spec, fast_mesh *mesh)
{
    FAST_ASSERT(spec != NULL && mesh != NULL);
    FAST_TRY(check_once(spec));
    return fast__options_parse("mesh", fast__mesh_options, mesh, spec);
}

/* Read the replicas of each stage: "3x1x2". */
static fast_err read_counts(const char *spec, fast_mesh *mesh)
{
    const char *at = mesh->replicas;
    int64_t stages = 0;

    for (;;) {
        char *end = NULL;
        const long long count = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;

        if (count < 1 || count > FAST_MESH_REPLICAS_MAX || (*end != 'x' && *end != '\0'))
            return fast__fail(FAST_EINVAL,
                              "mesh=%.100s: replicas=%s are numbers from 1 to %d with x between "
                              "them, like 3x1",
                              spec, mesh->replicas, FAST_MESH_REPLICAS_MAX);
        if (stages == FAST_MESH_STAGES_MAX)
            return fast__fail(FAST_EINVAL, "mesh=%.100s: replicas are of %d stages at most", spec,
                              FAST_MESH_STAGES_MAX);
        mesh->counts[stages++] = (int16_t)count;
        if (*end == '\0')
            break;
        at = end + 1;
    }
    if (stages != mesh->pipe)
        return fast__fail(FAST_EINVAL,
                          "mesh=%.100s: replicas=%s are of %lld stages, and pipe=%lld; list one "
                          "number for each stage",
                          spec, mesh->replicas, (long long)stages, (long long)mesh->pipe);
    return FAST_OK;
}

/* Replicas of each stage stand instead of those of all, and of stages that are whole. */
static fast_err check_counts(const char *spec, fast_mesh *mesh)
{
    if (!mesh->replicas[0] && strstr(spec, "replicas="))
        return fast__fail(
            FAST_EINVAL, "mesh=%.100s: replicas is empty; list one number a stage, like 3x1", spec);
    if (!mesh->replicas[0])
        return FAST_OK;
    FAST_TRY(read_counts(spec, mesh));
    if (mesh->data > 0)
        return fast__fail(FAST_EINVAL,
                          "mesh=%.100s: replicas=%s are all that the stages have; leave out data",
                          spec, mesh->replicas);
    if (mesh->tensor > 1)
        return fast__fail(FAST_EINVAL,
                          "mesh=%.100s: stages with replicas of their own are whole; leave out "
                          "tensor, or give data instead of replicas",
                          spec);
    mesh->data = 1;
    return FAST_OK;
}

fast_err fast__mesh_parse(const char *spec, int64_t workers, fast_mesh *out)
{
    fast_mesh mesh = { 0 };

    FAST_ASSERT(spec != NULL && workers >= 0);
    fast__options_default(fast__mesh_options, &mesh);
    FAST_TRY(fast__mesh_given(spec, &mesh));
    FAST_TRY(check_counts(spec, &mesh));
    if (mesh.data == 0)
        mesh.data = workers > mesh.pipe * mesh.tensor ? workers / (mesh.pipe * mesh.tensor) : 1;
    if (workers > 0 && workers != fast__mesh_size(&mesh))
        return fast__fail(FAST_EINVAL,
                          "mesh=%.100s is of %lld workers, and workers=%lld; leave out workers",
                          spec, (long long)fast__mesh_size(&mesh), (long long)workers);
    *out = mesh;
    return FAST_OK;
}

int64_t fast__mesh_size(const fast_mesh *mesh)
{
    int64_t workers = 0;

    FAST_ASSERT(mesh->data >= 1 && mesh->pipe >= 1 && mesh->tensor >= 1);
    if (mesh->counts[0] == 0)
        return mesh->data * mesh->pipe * mesh->tensor;
    for (int64_t s = 0; s < mesh->pipe; s++)
        workers += mesh->counts[s];
    return workers;
}

int64_t fast__mesh_replicas(const fast_mesh *mesh, int64_t stage)
{
    FAST_ASSERT(stage >= 0 && stage < mesh->pipe);
    return mesh->counts[0] > 0 ? mesh->counts[stage] : mesh->data;
}

fast_mesh_place fast__mesh_place(const fast_mesh *mesh, int64_t worker)
{
    fast_mesh_place at = { .data = worker };

    FAST_ASSERT(worker >= 0 && worker < fast__mesh_size(mesh));
    while (mesh->counts[0] > 0 && at.data >= mesh->counts[at.pipe])
        at.data -= mesh->counts[at.pipe++];
    if (mesh->counts[0] > 0)
        return at;
    return (fast_mesh_place){ .data = worker / (mesh->pipe * mesh->tensor),
                              .pipe = worker / mesh->tensor % mesh->pipe,
                              .tensor = worker % mesh->tensor };
}

int64_t fast__mesh_worker(const fast_mesh *mesh, fast_mesh_place place)
{
    int64_t worker = place.data;

    FAST_ASSERT(place.pipe >= 0 && place.pipe < mesh->pipe);
    FAST_ASSERT(place.data >= 0 && place.data < fast__mesh_replicas(mesh, place.pipe));
    FAST_ASSERT(place.tensor >= 0 && place.tensor < mesh->tensor);
    for (int64_t s = 0; mesh->counts[0] > 0 && s < place.pipe; s++)
        worker += mesh->counts[s];
    if (mesh->counts[0] > 0)
        return worker;
    return (place.data * mesh->pipe + place.pipe) * mesh->tensor + place.tensor;
}
