/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shadows: values through codecs that are made for gradients. Sender and receiver both hold h, the
 * receiver's copy of x, and the difference to it is sent:
 *
 *     d = x - h,   c = decode(C(d)),   s = <d, c> / <c, c>,   send s and C(d),   h <- h + s c
 *
 * This includes error feedback: the loss of a message is in the next difference. The length s is
 * fitted, so that each message brings h closer to x whatever the codec is, by
 *
 *     |d|^2 - |d - s c|^2 = <d, c>^2 / |c|^2 >= 0
 *
 * also for unbiased codecs, whose decoded vectors are longer than d (QSGD, Alistarh et al. 2017)
 * and whose errors would otherwise grow from one difference to the next, and for bare signs. For
 * exact entries (top-k), s is 1. The idea is that of Mishchenko et al., "Distributed learning with
 * compressed gradient differences", 2019 (DIANA), and of Richtarik et al. 2021 (EF21), where the
 * length is a constant.
 *
 *     message  byte 0: 0 whole, 1 difference | number of the message, 4 bytes | whole: the floats;
 *              difference: s, 4 bytes, then a frame of the coder. Integers and floats are little
 *              endian and IEEE, as everywhere on the wire
 *
 * The first message is whole, and so is the first to a receiver that was restarted. A difference is
 * applied only right after the message before it: a receiver that missed one stays as it is.
 *
 * A chain may hold elements back within a budget of bytes, or of bits per second between two
 * messages to a receiver (budget). It compares a difference with x itself. A sender that has to
 * bring a receiver to x at once asks for all elements, which go as a whole message where that is
 * not longer: then h is x to the bit.
 *
 * Cost: the codec's, a decoding at the sender, and three passes over the range. Memory: h at both
 * ends, with the codec's own state at the sender's, and two vectors of scratch for each range, for
 * any number of receivers.
 */
#include "codec/shadow.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <string.h>

enum { WHOLE = 0, DIFFERENCE = 1, HEAD = 1 + 4, FIT = 4 };

struct fast_shadows {
    fast_coder *coder;         /* of differences; without feedback */
    const fast_device *device; /* of all vectors here */
    int64_t count;             /* elements of the range */
    int64_t state_count;       /* elements of the coder's state */
    float *state;              /* the coder's, for the receiver that it encoded for last */
    float *d;                  /* [count]: the difference */
    float *c;                  /* [count]: the difference as the receiver decodes it */
    double elapsed_s;          /* since the last message to the receiver; negative: no sender
                                  has told its time */
    bool whole;                /* the last message that was taken brought all values */
};

bool fast__shadow_needed(const fast_chain *chain)
{
    return (fast__chain_traits(chain) & (FAST_CODEC_RAW | FAST_CODEC_LOSSLESS)) == 0;
}

fast_err fast__shadow_check(const fast_chain *chain, const char *option)
{
    if (fast__shadow_needed(chain) && (fast__chain_traits(chain) & FAST_CODEC_ACCUMULATES))
        return fast__fail(
            FAST_EINVAL,
            "weights are sent as differences to what the receiver holds, which contain "
            "the residual that %s=%s would add once more; take topk",
            option, fast__chain_text(chain));
    return FAST_OK;
}

fast_err fast__shadows_new(const fast_coder_options *options, fast_shadows **out)
{
    fast_coder_options o = *options;
    fast_shadows *s = NULL;

    FAST_TRY(fast__shadow_check(options->chain, "codec"));
    o.feedback = 2;
    FAST_TRY(fast__alloc("shadows of a codec", 1, sizeof *s, &s));
    s->count = o.count;
    s->device = o.device ? o.device : &fast__host;
    s->elapsed_s = -1;
    fast_err err = fast__coder_new(&o, &s->coder);
    if (!err)
        s->state = fast__coder_state(s->coder, &s->state_count);
    if (!err)
        err = fast__vector_new(s->device, "a difference", o.count, &s->d);
    if (!err)
        err = fast__vector_new(s->device, "a decoded difference", o.count, &s->c);
    if (err)
        fast__shadows_free(s);
    else
        *out = s;
    return err;
}

void fast__shadows_free(fast_shadows *s)
{
    if (!s)
        return;
    fast__coder_free(s->coder);
    fast__vector_free(s->d);
    fast__vector_free(s->c);
    fast__free(s);
}

void fast__shadow_fini(fast_shadow *shadow)
{
    if (!shadow)
        return;
    fast__vector_free(shadow->values);
    *shadow = (fast_shadow){ 0 };
}

size_t fast__shadows_bound(const fast_shadows *s)
{
    const size_t floats = (size_t)s->count * sizeof(float);
    const size_t coded = FIT + fast__coder_bound(s->coder);

    return HEAD + (coded > floats ? coded : floats);
}

/* Scale c to the multiple that is closest to d: c <- s c, s = <d, c> / <c, c>; return s. */
static float fit_to(int64_t n, const float *d, float *c)
{
    /* The same sum where c has elements of d: the quotient is 1 to the bit. */
    const double cc = fast__vector_dot(n, c, c);
    const float s = cc != 0 ? (float)(fast__vector_dot(n, d, c) / cc) : 1;

    if (s != 1)
        fast__vector_scale(n, s, c);
    return s;
}

int64_t fast__shadows_floats(const fast_shadows *s)
{
    return s->count + s->state_count;
}

fast_err fast__shadow_reserve(const fast_shadows *s, fast_shadow *shadow)
{
    return shadow->values
               ? FAST_OK
               : fast__vector_new(s->device, "a shadow", fast__shadows_floats(s), &shadow->values);
}

/* Encode the difference as this receiver's next: the key and the codec's state are its own. */
static size_t encode(fast_shadows *s, fast_shadow *shadow, int64_t step, double progress,
                     uint8_t *out)
{
    float *state = shadow->values + s->count;

    fast__coder_restart(s->coder, (int64_t)shadow->flow << 31 | (shadow->number & INT32_MAX));
    fast__vector_copy(s->state_count, state, s->state);
    const size_t size = fast__coder_encode(s->coder, step, progress, s->d, out);
    fast__vector_copy(s->state_count, s->state, state);
    return size;
}

void fast__shadow_set_pace(fast_shadows *s, fast_shadow *shadow, bool all, double now_s)
{
    s->elapsed_s = now_s > shadow->now_s ? now_s - shadow->now_s : 0;
    shadow->now_s = now_s;
    shadow->all = all;
}

const float *fast__shadows_decoded(const fast_shadows *s)
{
    return s->whole ? NULL : s->c;
}

static void put_head(uint8_t *out, uint8_t kind, uint32_t number)
{
    out[0] = kind;
    memcpy(out + 1, &number, sizeof number);
}

/* Write a message of all values and return its bytes. */
static size_t send_whole(fast_shadows *s, fast_shadow *shadow, const float *x, uint8_t *out)
{
    put_head(out, WHOLE, shadow->number);
    fast__vector_copy(s->count, x, out + HEAD);
    fast__vector_copy(s->count, x, shadow->values);
    shadow->whole = shadow->complete = true;
    shadow->sent = 1;
    return HEAD + (size_t)s->count * sizeof(float);
}

fast_err fast__shadow_send(fast_shadows *s, fast_shadow *shadow, int64_t step, double progress,
                           const float *x, uint8_t *out, size_t *size_out)
{
    const int64_t n = s->count;
    const bool paced = s->elapsed_s >= 0;

    FAST_TRY(fast__shadow_reserve(s, shadow));
    float *values = shadow->values;
    shadow->number++;
    if (!shadow->whole) {
        *size_out = send_whole(s, shadow, x, out);
        return FAST_OK;
    }
    fast__vector_copy(n, x, s->d);
    fast__vector_axpy(n, -1, values, s->d);
    put_head(out, DIFFERENCE, shadow->number);
    if (paced)
        fast__coder_set_pace(s->coder, &(fast_coder_pace){ .all = shadow->all,
                                                           .timed = true,
                                                           .elapsed_s = s->elapsed_s,
                                                           .weights = x });
    const size_t size = encode(s, shadow, step, progress, out + HEAD + FIT);
    if (shadow->all && FIT + size >= (size_t)n * sizeof(float)) {
        *size_out = send_whole(s, shadow, x, out);
        return FAST_OK;
    }
    const fast_err err =
        fast__coder_decode(s->coder, out + HEAD + FIT, size, FAST_DECODE_SET, 1, s->c);
    FAST_ASSERT(!err); /* it is its own encoding */
    const float fit = fit_to(n, s->d, s->c);
    const double square = fast__vector_norm2(n, s->d);
    shadow->sent = square > 0 ? fast__vector_dot(n, s->d, s->c) / square : 1;
    shadow->complete = shadow->all || (paced && fast__vector_equal(n, s->d, s->c));
    memcpy(out + HEAD, &fit, sizeof fit);
    fast__vector_add(n, s->c, values);
    *size_out = HEAD + FIT + size;
    return FAST_OK;
}

/* Apply a difference without its head. */
static fast_err take_difference(fast_shadows *s, fast_shadow *shadow, const uint8_t *in,
                                size_t size)
{
    float fit;

    if (size < FIT)
        return fast__fail(FAST_EFORMAT, "a difference of %zu bytes is too short", size);
    memcpy(&fit, in, sizeof fit);
    FAST_TRY(fast__coder_decode(s->coder, in + FIT, size - FIT, FAST_DECODE_SET, 1, s->c));
    if (fit != 1)
        fast__vector_scale(s->count, fit, s->c);
    fast__vector_add(s->count, s->c, shadow->values);
    return FAST_OK;
}

fast_err fast__shadow_take(fast_shadows *s, fast_shadow *shadow, const uint8_t *in, size_t size)
{
    const size_t floats = (size_t)s->count * sizeof(float);
    uint32_t number;

    if (size < HEAD || in[0] > DIFFERENCE)
        return fast__fail(FAST_EFORMAT, "%zu bytes are not a message to a shadow", size);
    memcpy(&number, in + 1, sizeof number);
    if (in[0] == WHOLE) {
        if (size != HEAD + floats)
            return fast__fail(FAST_EFORMAT, "%zu bytes are not %lld whole values", size,
                              (long long)s->count);
        FAST_TRY(fast__shadow_reserve(s, shadow));
        fast__vector_copy(s->count, in + HEAD, shadow->values);
        shadow->whole = true;
    } else {
        if (!shadow->whole || number != shadow->number + 1)
            return fast__fail(FAST_EFORMAT, "difference %lld arrived after message %lld",
                              (long long)number, (long long)shadow->number);
        FAST_TRY(take_difference(s, shadow, in + HEAD, size - HEAD));
    }
    shadow->number = number;
    s->whole = in[0] == WHOLE;
    return FAST_OK;
}
