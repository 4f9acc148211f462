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
 * Cost: the codec's, a decoding at the sender, and three passes over the range. Memory: h at both
 * ends, with the codec's own state at the sender's, and two vectors of scratch for each range, for
 * any number of receivers.
 */
#include "codec/shadow.h"

#include "base/memory.h"
#include "tensor/view.h"

#include <string.h>

enum { WHOLE = 0, DIFFERENCE = 1, HEAD = 1 + 4, FIT = 4 };

struct fast_shadows {
    fast_coder *coder; /* of differences; without feedback */
    int64_t count;     /* elements of the range */
    fast_view state;   /* the coder's, for the receiver that it encoded for last */
    fast_view d;       /* [count]: the difference */
    fast_view c;       /* [count]: the difference as the receiver decodes it */
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
    fast_err err = fast__coder_new(&o, &s->coder);
    if (!err)
        s->state = fast__coder_state_view(s->coder);
    if (!err)
        err = fast__view_new(s->state.device, "a difference", o.count, &s->d);
    if (!err)
        err = fast__view_new(s->state.device, "a decoded difference", o.count, &s->c);
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
    fast__view_free(&s->d);
    fast__view_free(&s->c);
    fast__free(s);
}

void fast__shadow_fini(fast_shadow *shadow)
{
    if (!shadow)
        return;
    fast__view_free(&shadow->held);
    *shadow = (fast_shadow){ 0 };
}

size_t fast__shadows_bound(const fast_shadows *s)
{
    const size_t floats = (size_t)s->count * sizeof(float);
    const size_t coded = FIT + fast__coder_bound(s->coder);

    return HEAD + (coded > floats ? coded : floats);
}

/* Scale c to the multiple that is closest to d: c <- s c, s = <d, c> / <c, c>; return s. */
static float fit_to(fast_view d, fast_view c)
{
    /* The same sum where c has elements of d: the quotient is 1 to the bit. */
    const double cc = fast__view_dot(c, c);
    const float s = cc != 0 ? (float)(fast__view_dot(d, c) / cc) : 1;

    if (s != 1)
        fast__view_scale(s, c);
    return s;
}

int64_t fast__shadows_floats(const fast_shadows *s)
{
    return s->count + s->state.count;
}

fast_err fast__shadow_reserve(const fast_shadows *s, fast_shadow *shadow)
{
    if (!shadow->held.at)
        FAST_TRY(
            fast__view_new(s->state.device, "a shadow", fast__shadows_floats(s), &shadow->held));
    shadow->values = shadow->held.at;
    return FAST_OK;
}

static fast_view values_of(const fast_shadows *s, const fast_shadow *shadow)
{
    return fast__view_slice(shadow->held, 0, s->count);
}

/* Encode the difference as this receiver's next: the key and the codec's state are its own. */
static size_t encode(fast_shadows *s, fast_shadow *shadow, int64_t step, double progress,
                     uint8_t *out)
{
    const fast_view state = fast__view_slice(shadow->held, s->count, s->state.count);

    fast__coder_restart(s->coder, (int64_t)shadow->flow << 31 | (shadow->number & INT32_MAX));
    fast__view_copy(state, s->state);
    const size_t size = fast__coder_encode_view(s->coder, step, progress, s->d, out);
    fast__view_copy(s->state, state);
    return size;
}

static void put_head(uint8_t *out, uint8_t kind, uint32_t number)
{
    out[0] = kind;
    memcpy(out + 1, &number, sizeof number);
}

fast_err fast__shadow_send_view(fast_shadows *s, fast_shadow *shadow, int64_t step, double progress,
                                fast_view x, uint8_t *out, size_t *size_out)
{
    FAST_ASSERT(x.count == s->count);
    FAST_TRY(fast__shadow_reserve(s, shadow));
    const fast_view values = values_of(s, shadow);
    if (!shadow->whole) {
        put_head(out, WHOLE, ++shadow->number);
        fast__view_store(x, FAST_F32, 1, out + HEAD);
        fast__view_copy(x, values);
        shadow->whole = true;
        shadow->sent = 1;
        *size_out = HEAD + (size_t)s->count * sizeof(float);
        return FAST_OK;
    }
    fast__view_copy(x, s->d);
    fast__view_axpy(-1, values, s->d);
    put_head(out, DIFFERENCE, ++shadow->number);
    const size_t size = encode(s, shadow, step, progress, out + HEAD + FIT);
    const fast_err err =
        fast__coder_decode_view(s->coder, out + HEAD + FIT, size, FAST_DECODE_SET, 1, s->c);
    FAST_ASSERT(!err); /* it is its own encoding */
    const float fit = fit_to(s->d, s->c);
    const double square = fast__view_norm2(s->d);
    shadow->sent = square > 0 ? fast__view_dot(s->d, s->c) / square : 1;
    memcpy(out + HEAD, &fit, sizeof fit);
    fast__view_add(s->c, values);
    *size_out = HEAD + FIT + size;
    return FAST_OK;
}

fast_err fast__shadow_send(fast_shadows *s, fast_shadow *shadow, int64_t step, double progress,
                           const float *x, uint8_t *out, size_t *size_out)
{
    return fast__shadow_send_view(s, shadow, step, progress, fast__view_input(x, s->count), out,
                                  size_out);
}

/* Apply a difference without its head. */
static fast_err take_difference(fast_shadows *s, fast_shadow *shadow, const uint8_t *in,
                                size_t size)
{
    float fit;

    if (size < FIT)
        return fast__fail(FAST_EFORMAT, "a difference of %zu bytes is too short", size);
    memcpy(&fit, in, sizeof fit);
    FAST_TRY(fast__coder_decode_view(s->coder, in + FIT, size - FIT, FAST_DECODE_SET, 1, s->c));
    if (fit != 1)
        fast__view_scale(fit, s->c);
    fast__view_add(s->c, values_of(s, shadow));
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
        fast__view_load(FAST_F32, in + HEAD, 1, values_of(s, shadow));
        shadow->whole = true;
    } else {
        if (!shadow->whole || number != shadow->number + 1)
            return fast__fail(FAST_EFORMAT, "difference %lld arrived after message %lld",
                              (long long)number, (long long)shadow->number);
        FAST_TRY(take_difference(s, shadow, in + HEAD, size - HEAD));
    }
    shadow->number = number;
    return FAST_OK;
}
