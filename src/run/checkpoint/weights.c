/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weights alone, as safetensors: one tensor a segment of the parameters and of the state
 * (batch-norm statistics), under the segment's name and with PyTorch's shapes. Loading wants every
 * segment, with its shape; it takes F32, and F64, F16 and BF16 of other programs, which are
 * converted. A checkpoint is such a file with more in it (checkpoint.c), so it loads too, unless it
 * holds the state of servers: check_foreign() does not know the names server/RANK.
 *
 * The file: an 8-byte length, a JSON header, then the floats (tensor/safetensors.h).
 *
 *     {"__metadata__": {"format": "pt", "fast_model": NAME, ...}, SEGMENT: {"dtype": "F32", ...}}
 *
 * With save_codec the parameters are compressed (compressed.c), which loading undoes first. Further
 * metadata describe the network, its inputs and its training (model_meta.h).
 *
 * FAST_EINVAL, and the run unchanged: a segment is missing or has another shape, a dtype that is no
 * float, or a value that is not finite; or the file has a tensor that is neither the model's nor in
 * the list of check_foreign().
 */
#include "base/memory.h"
#include "model/onnx/onnx.h"
#include "run/compressed.h"
#include "run/model_meta.h"
#include "run/representative.h"
#include "run/run.h"
#include "run/team.h"
#include "tensor/safetensors.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void fast__weights_add(fast_weights *weights, const fast_layout *layout, const float *vector,
                       const char *prefix)
{
    char(*names)[FAST_TENSOR_NAME_MAX] = weights->names + weights->count;
    fast_tensor *tensors = weights->tensors + weights->count;
    weights->count += layout->segment_count;
    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *segment = &layout->segments[i];
        snprintf(names[i], sizeof names[i], "%s%s", prefix, segment->name);
        tensors[i] = (fast_tensor){ .name = names[i],
                                    .dtype = FAST_F32,
                                    .rank = segment->rank,
                                    .count = segment->count,
                                    .data = vector + segment->offset };
        for (int d = 0; d < segment->rank; d++)
            tensors[i].shape[d] = segment->shape[d];
    }
}

/* "[20, 1, 5, 5]" */
static void shape_text(int rank, const int64_t *shape, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d ? ", " : "",
                                 (long long)shape[d]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* Compare one tensor of the file with a segment of the layout: it must exist with this shape. */
static fast_err check_segment(const char *path, const fast_tensors *tensors,
                              const fast_segment *segment, const char *prefix)
{
    char name[FAST_TENSOR_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", prefix, segment->name);
    const fast_tensor *tensor = fast__tensors_find(tensors, name);
    if (!tensor)
        return fast__fail(FAST_EINVAL, "%s has no tensor \"%s\", which the model needs", path,
                          name);
    bool same = tensor->rank == segment->rank;
    for (int d = 0; same && d < segment->rank; d++)
        same = tensor->shape[d] == segment->shape[d];
    if (!same) {
        char theirs[128];
        char ours[128];
        shape_text(tensor->rank, tensor->shape, theirs, sizeof theirs);
        shape_text(segment->rank, segment->shape, ours, sizeof ours);
        return fast__fail(FAST_EINVAL, "%s: \"%s\" is %s, and the model's is %s", path, name,
                          theirs, ours);
    }
    FAST_ASSERT(tensor->count == segment->count);
    if (tensor->dtype != FAST_F32 && tensor->dtype != FAST_F64 && tensor->dtype != FAST_F16 &&
        tensor->dtype != FAST_BF16)
        return fast__fail(FAST_EINVAL, "%s: \"%s\" is %s; weights are F32, F64, F16 or BF16", path,
                          name, fast__dtype_name(tensor->dtype));
    return FAST_OK;
}

fast_err fast__weights_check(const char *path, const fast_tensors *tensors,
                             const fast_layout *layout, const char *prefix)
{
    for (int64_t i = 0; i < layout->segment_count; i++)
        FAST_TRY(check_segment(path, tensors, &layout->segments[i], prefix));
    return FAST_OK;
}

/* Refuse a tensor with a value that is no finite float: such a model computes nothing but NaN. */
static fast_err check_tensor_finite(const char *path, const fast_tensor *tensor)
{
    enum { CHUNK = 1024 };
    const size_t size = fast__dtype_size(tensor->dtype);
    float values[CHUNK];

    for (int64_t done = 0; done < tensor->count; done += CHUNK) {
        const int64_t count = tensor->count - done < CHUNK ? tensor->count - done : CHUNK;

        fast__vector_convert(count, tensor->dtype, (const char *)tensor->data + (size_t)done * size,
                             FAST_F32, values, 1.0f);
        for (int64_t i = 0; i < count; i++)
            if (!isfinite(values[i]))
                return fast__fail(
                    FAST_EINVAL, "%s: \"%s\" has %g at element %lld; weights are finite numbers",
                    path, tensor->name, isinf(values[i]) ? (double)values[i] : (double)NAN,
                    (long long)(done + i));
    }
    return FAST_OK;
}

fast_err fast__weights_check_finite(const char *path, const fast_tensors *tensors,
                                    const fast_layout *layout)
{
    for (int64_t i = 0; i < layout->segment_count; i++)
        FAST_TRY(check_tensor_finite(path, fast__tensors_find(tensors, layout->segments[i].name)));
    return FAST_OK;
}

void fast__weights_copy(const fast_tensors *tensors, const fast_layout *layout, const char *prefix,
                        float *vector)
{
    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *segment = &layout->segments[i];
        char name[FAST_TENSOR_NAME_MAX];
        snprintf(name, sizeof name, "%s%s", prefix, segment->name);
        const fast_tensor *tensor = fast__tensors_find(tensors, name);
        FAST_ASSERT(tensor && tensor->count == segment->count);
        fast__vector_convert(tensor->count, tensor->dtype, tensor->data, FAST_F32,
                             vector + segment->offset, 1.0f);
    }
}

/* True if a layout has a segment of this name. */
static bool layout_has(const fast_layout *layout, const char *name)
{
    for (int64_t i = 0; i < layout->segment_count; i++)
        if (strcmp(layout->segments[i].name, name) == 0)
            return true;
    return false;
}

/* A tensor that the model has not is a sign of the wrong file, but for what checkpoints hold of
 * optimizers, workers, servers and the best model, and for PyTorch's batch counters. */
static fast_err check_foreign(const char *path, const fast_tensors *tensors, const fast_run *run)
{
    for (int64_t i = 0; i < fast__tensors_count(tensors); i++) {
        const char *name = fast__tensors_at(tensors, i)->name;
        const char *dot = strrchr(name, '.');
        if (strncmp(name, "optimizer/", 10) == 0 || strncmp(name, "worker/", 7) == 0 ||
            strncmp(name, "server/", 7) == 0 ||
            strncmp(name, FAST_BEST_PREFIX, strlen(FAST_BEST_PREFIX)) == 0 ||
            (dot && strcmp(dot, ".num_batches_tracked") == 0))
            continue;
        if (!layout_has(&run->learner->params, name) && !layout_has(&run->learner->state, name))
            return fast__fail(FAST_EINVAL, "%s has a tensor \"%s\", which the model has not", path,
                              name);
    }
    return FAST_OK;
}

/* Copy the tensors of a file that fits into the run's vectors. */
static fast_err load_checked(fast_run *run, const char *path, const fast_tensors *tensors)
{
    fast_learner *learner = run->learner;
    FAST_TRY(fast__weights_check(path, tensors, &learner->params, ""));
    FAST_TRY(fast__weights_check(path, tensors, &learner->state, ""));
    FAST_TRY(check_foreign(path, tensors, run));
    FAST_TRY(fast__weights_check_finite(path, tensors, &learner->params));
    FAST_TRY(fast__weights_check_finite(path, tensors, &learner->state));
    fast__weights_copy(tensors, &learner->params, "", learner->w);
    fast__weights_copy(tensors, &learner->state, "", learner->s);
    return FAST_OK;
}

fast_err fast__weights_load(fast_run *run, const char *path)
{
    fast_tensors *tensors = NULL;
    FAST_TRY(fast__tensors_open(path, &tensors));
    fast_err err = fast__decompress(path, tensors);
    if (!err)
        err = load_checked(run, path, tensors);
    fast__tensors_close(tensors);
    return err;
}

void fast__weights_slot_prefix(int slot, char prefix[FAST_SLOT_PREFIX_MAX])
{
    snprintf(prefix, FAST_SLOT_PREFIX_MAX, "optimizer/%d/", slot);
}

fast_err fast__weights_list(const fast_run *run, int slots, fast_weights *out)
{
    const fast_learner *learner = run->learner;
    const int64_t count =
        learner->params.segment_count * (1 + slots) + learner->state.segment_count;
    fast_weights weights = { NULL, NULL, 0 };
    FAST_TRY(fast__alloc("tensor names", count, sizeof *weights.names, &weights.names));
    const fast_err err = fast__alloc("tensors", count, sizeof *weights.tensors, &weights.tensors);
    if (err) {
        fast__weights_fini(&weights);
        return err;
    }
    fast__weights_add(&weights, &learner->params, learner->w, "");
    for (int slot = 0; slot < slots; slot++) {
        char prefix[FAST_SLOT_PREFIX_MAX];
        fast__weights_slot_prefix(slot, prefix);
        fast__weights_add(&weights, &learner->params, fast__optimizer_slot(run->optimizer, slot),
                          prefix);
    }
    fast__weights_add(&weights, &learner->state, learner->s, "");
    FAST_ASSERT(weights.count == count);
    *out = weights;
    return FAST_OK;
}

void fast__weights_fini(fast_weights *weights)
{
    fast__free(weights->tensors);
    fast__free(weights->names);
    *weights = (fast_weights){ NULL, NULL, 0 };
}

/* Save the network with its weights as an ONNX file. A model of the caller's has no graph. */
static fast_err save_onnx(const fast_run *run, const char *path)
{
    if (!run->graph)
        return fast__fail(FAST_ENOTSUP, "only FAST's own networks can be saved as ONNX, not %s",
                          run->config.model);
    return fast__onnx_save(run->graph, run->learner->w, run->learner->s, path);
}

/* Save tensors, compressed where the run asks for it. */
static fast_err save_tensors(const fast_run *run, fast_weights *weights, fast_model_meta *meta,
                             const char *path)
{
    const int64_t count = run->learner->params.segment_count;
    uint8_t **bytes = NULL;
    if (strcmp(run->config.save_codec, "none") != 0) {
        FAST_TRY(fast__compress(run->config.save_codec, weights, count, &bytes));
        fast__model_meta_put(meta, "fast_codec", run->config.save_codec);
    }
    const fast_err err = fast__tensors_save(path, weights->tensors, weights->count, meta->pairs);
    fast__compressed_free(bytes, count);
    return err;
}

fast_err fast__weights_save(const fast_run *run, const char *path)
{
    fast_model_meta meta;
    fast_weights weights;
    if (fast__onnx_path(path)) {
        FAST_TRY(fast__split_model_complete(run->team));
        return save_onnx(run, path);
    }
    FAST_TRY(fast__model_meta_init(run, &meta));
    fast_err err = fast__split_model_complete(run->team);
    if (!err)
        err = fast__weights_list(run, 0, &weights);
    if (!err) {
        err = save_tensors(run, &weights, &meta, path);
        fast__weights_fini(&weights);
    }
    fast__model_meta_fini(&meta);
    FAST_TRY(err);
    return fast__members_stand(run) ? fast__members_save(run, path) : FAST_OK;
}

fast_err fast_run_save(const fast_run *run, const char *path)
{
    FAST_ASSERT(run != NULL);
    return fast__weights_save(run, path);
}
