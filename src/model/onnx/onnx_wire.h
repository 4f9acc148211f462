/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Protobuf's wire format, as much as ONNX needs. A message is a sequence of fields:
 *
 *     key     varint: field number * 8 + wire type
 *     value   type 0: varint; 1: 8 bytes; 5: 4 bytes; 2: varint length, then that many bytes
 *
 * A varint has 7 bits a byte, least significant first, with bit 7 set in all but the last. Numbers
 * are little-endian. The reader copies and allocates nothing: spans point into the file. It
 * descends only where its caller does, so that nesting costs no stack.
 */

/* Bytes of the file. */
typedef struct fast_span {
    const uint8_t *data; /* first byte; NULL if absent */
    size_t size;         /* number of bytes */
} fast_span;

/* Wire types. */
enum { FAST_PROTO_VARINT = 0, FAST_PROTO_8 = 1, FAST_PROTO_BYTES = 2, FAST_PROTO_4 = 5 };

/* A message that is being read. */
typedef struct fast_proto {
    const uint8_t *at;  /* next byte */
    const uint8_t *end; /* past the last byte */
    bool bad;           /* the message is malformed */
} fast_proto;

/* One field. */
typedef struct fast_proto_field {
    uint32_t number; /* field number */
    int type;        /* wire type */
    uint64_t value;  /* of types 0, 1 and 5 */
    fast_span bytes; /* of type 2 */
} fast_proto_field;

/* Start reading a message. */
fast_proto fast__proto_open(fast_span message);

/* Read the next field. Returns false at the end, and if the message is malformed (then sets
 * `bad`). */
bool fast__proto_next(fast_proto *wire, fast_proto_field *out);

/* Read the next number of a repeated scalar field, packed or not: `type` is the wire type of one
 * number. `field` is the field's occurrence; *at_out starts at 0. Returns false at its end. */
bool fast__proto_number(fast_proto *wire, const fast_proto_field *field, int type, size_t *at,
                        uint64_t *out);

/* Convert the bits of a number. */
float fast__proto_float(uint64_t bits);
double fast__proto_double(uint64_t bits);

/* Tell whether a span has this text. */
bool fast__span_is(fast_span span, const char *text);

/* Write the printable characters of a span to `text`, others as '?', cut to 60. Returns `text`. */
enum { FAST_SPAN_TEXT_MAX = 64 };
const char *fast__span_text(fast_span span, char text[FAST_SPAN_TEXT_MAX]);

/* A message that is being written: it grows by doubling. Zero-initialise; fini in any case. */
typedef struct fast_proto_out {
    uint8_t *data;   /* bytes so far */
    size_t size;     /* number of bytes */
    size_t capacity; /* allocated bytes */
    fast_err err;    /* first failure (FAST_ENOMEM); later calls do nothing */
} fast_proto_out;

/* Append a field: a whole number, a 32-bit float, a text, bytes, a message. */
void fast__proto_put_int(fast_proto_out *out, uint32_t number, int64_t value);
void fast__proto_put_float(fast_proto_out *out, uint32_t number, float value);
void fast__proto_put_text(fast_proto_out *out, uint32_t number, const char *text);
void fast__proto_put_bytes(fast_proto_out *out, uint32_t number, const void *data, size_t size);
/* Append fields that are already encoded. */
void fast__proto_put_fields(fast_proto_out *out, const fast_proto_out *fields);
/* Append a message as a field and empty it; its failure becomes the failure of `out`. */
void fast__proto_put_message(fast_proto_out *out, uint32_t number, fast_proto_out *message);
void fast__proto_fini(fast_proto_out *out);
