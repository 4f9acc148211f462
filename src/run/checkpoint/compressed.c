/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed files of weights: prune, share values, and code them, in the order of a chain of
 * codecs like kmeans:ratio=0.1,clusters=32+huffman (deep compression, Han, Mao and Dally 2016). The
 * file is that of weights.c, with the chain in its metadata (fast_codec) and each tensor of
 * parameters as bytes:
 *
 *     U8   rank (a byte), the dimensions (variable length, bits.h), the frame of the chain
 *          (coder.c)
 *
 * The state stays as it is. A reader replaces the bytes by the floats that they decode to, and
 * continues as with any other file. Each tensor is encoded by itself, by a new coder, so that the
 * bytes do not depend on other tensors.
 */
#include "run/compressed.h"
#include "base/memory.h"
#include "codec/bits.h"
#include "codec/codec.h"
#include "run/run.h"
#include "tensor/safetensors.h"

#include <string.h>

enum { HEAD_MAX = 1 + FAST_RANK_MAX * FAST_VARINT_MAX, COUNT_MAX = 1 << 28 };

/* Make the coder of one tensor; `segment` lasts as long. */
static fast_err open_coder(const fast_chain *chain, const fast_segment *segment, fast_coder **out)
{
    const fast_layout layout = { segment, 1, segment->count };

    return fast__coder_new(
        &(fast_coder_options){
            .chain = chain, .layout = &layout, .count = segment->count, .scope = 1, .feedback = 2 },
        out);
}

/* Encode a tensor to new memory, *move, which the tensor borrows. */
static fast_err encode_tensor(const fast_chain *chain, fast_tensor *tensor, uint8_t **move)
{
    fast_segment segment = { .count = tensor->count, .rank = tensor->rank };
    fast_coder *coder = NULL;
    uint8_t *bytes = NULL;

    FAST_ASSERT(tensor->dtype == FAST_F32 && tensor->rank <= FAST_RANK_MAX);
    memcpy(segment.shape, tensor->shape, (size_t)tensor->rank * sizeof *segment.shape);
    FAST_TRY(open_coder(chain, &segment, &coder));
    fast_err err = fast__alloc("compressed weights", (int64_t)(HEAD_MAX + fast__coder_bound(coder)),
                               1, &bytes);
    if (!err) {
        uint8_t *at = bytes;

        *at++ = (uint8_t)tensor->rank;
        for (int d = 0; d < tensor->rank; d++)
            at = fast__varint_put(at, (uint64_t)tensor->shape[d]);
        at += fast__coder_encode(coder, 0, 0, tensor->data, at);
        tensor->dtype = FAST_U8;
        tensor->rank = 1;
        tensor->count = tensor->shape[0] = at - bytes;
        tensor->data = bytes;
        *move = bytes;
    }
    fast__coder_free(coder);
    return err;
}

fast_err fast__compress(const char *spec, fast_weights *weights, int64_t count, uint8_t ***out)
{
    fast_chain *chain = NULL;
    uint8_t **bytes = NULL;

    FAST_ASSERT(count <= weights->count);
    FAST_TRY(fast__chain_open(spec, &chain));
    fast_err err = fast__alloc("compressed tensors", count, sizeof *bytes, &bytes);
    for (int64_t i = 0; i < count && !err; i++)
        err = encode_tensor(chain, &weights->tensors[i], &bytes[i]);
    fast__chain_close(chain);
    if (err)
        fast__compressed_free(bytes, count);
    else
        *out = bytes;
    return err;
}

void fast__compressed_free(uint8_t **bytes, int64_t count)
{
    for (int64_t i = 0; bytes && i < count; i++)
        fast__free(bytes[i]);
    fast__free(bytes);
}

/* Read the shape of a tensor; false if it makes no sense. */
static bool read_shape(const uint8_t **at, const uint8_t *end, fast_segment *out)
{
    if (*at == end || **at > FAST_RANK_MAX)
        return false;
    *out = (fast_segment){ .count = 1, .rank = *(*at)++ };
    for (int d = 0; d < out->rank; d++) {
        uint64_t size;

        if (!fast__varint_get(at, end, &size) || size < 1 ||
            size > COUNT_MAX / (uint64_t)out->count)
            return false;
        out->shape[d] = (int64_t)size;
        out->count *= (int64_t)size;
    }
    return true;
}

/* Replace tensor i of a file by the floats that its bytes decode to. */
static fast_err decode_tensor(const char *path, const fast_chain *chain, fast_tensors *tensors,
                              int64_t i)
{
    fast_tensor tensor = *fast__tensors_at(tensors, i);
    const uint8_t *at = tensor.data, *end = at + tensor.count;
    fast_segment segment;
    fast_coder *coder = NULL;
    float *x = NULL;

    if (!read_shape(&at, end, &segment))
        return fast__fail(FAST_EFORMAT, "%s: \"%s\" is no compressed tensor", path, tensor.name);
    FAST_TRY(open_coder(chain, &segment, &coder));
    fast_err err = fast__alloc("weights", segment.count, sizeof *x, &x);
    if (!err)
        err = fast__coder_decode(coder, at, (size_t)(end - at), FAST_DECODE_SET, 1, x);
    fast__coder_free(coder);
    tensor.dtype = FAST_F32;
    tensor.rank = segment.rank;
    tensor.count = segment.count;
    tensor.data = x;
    memcpy(tensor.shape, segment.shape, sizeof segment.shape);
    if (!err)
        err = fast__tensors_replace(tensors, i, &tensor);
    if (err)
        fast__free(x);
    return err;
}

fast_err fast__decompress(const char *path, fast_tensors *tensors)
{
    const char *spec = fast__tensors_meta(tensors, "fast_codec");
    fast_chain *chain = NULL;

    if (!spec)
        return FAST_OK;
    fast_err err = fast__chain_open(spec, &chain);
    for (int64_t i = 0; i < fast__tensors_count(tensors) && !err; i++)
        if (fast__tensors_at(tensors, i)->dtype == FAST_U8)
            err = decode_tensor(path, chain, tensors, i);
    fast__chain_close(chain);
    return err == FAST_EINVAL ? fast__fail_in(FAST_EFORMAT, path) : err;
}
