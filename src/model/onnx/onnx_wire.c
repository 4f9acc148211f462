/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reader and writer of protobuf's wire format, in place of a library: ONNX needs five kinds of
 * messages, and a reader that never allocates and never recurses is shorter than the code that
 * would guard a general one.
 *
 *     reader   spans into the file; a message is descended into by opening its span
 *     writer   a buffer that doubles; inner messages are built first, since their length comes
 * first
 *
 * Every length is compared with the bytes that are left before it is used; a varint has at most 10
 * bytes. Unknown fields are skipped, as the format intends: newer files stay readable.
 *
 * Cost: one pass over the bytes that are looked at. The numbers of tensors are not copied by the
 * reader at all.
 */
#include "model/onnx/onnx_wire.h"

#include "base/memory.h"

#include <string.h>

/* Start at the first byte. An empty message has no address, to which nothing may be added. */
fast_proto fast__proto_open(fast_span message)
{
    return (fast_proto){ .at = message.data,
                         .end = message.size > 0 ? message.data + message.size : message.data };
}

/* Read a varint: seven bits a byte, the least significant first, bit 7 set in all but the last.
 * Returns false if the bytes end before it does, or if it has more than 64 bits: the tenth byte is
 * the last that is looked at. */
static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;

    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Read a little-endian number of 4 or 8 bytes; false if fewer bytes are left. The bytes are put
 * together one by one, so that neither alignment nor the machine's byte order matters. */
static bool read_fixed(const uint8_t **at, const uint8_t *end, size_t size, uint64_t *out)
{
    uint64_t value = 0;

    if ((size_t)(end - *at) < size)
        return false;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)(*at)[i] << (8 * i);
    *at += size;
    *out = value;
    return true;
}

/* Read key and value of the next field. A length is compared with the bytes that are left before
 * the span is formed, so that every span lies inside the message. Field number 0 and the wire
 * types 3, 4, 6 and 7 do not occur in valid files: they end the message as malformed, and so does
 * a field that is cut off. */
bool fast__proto_next(fast_proto *wire, fast_proto_field *out)
{
    uint64_t key = 0;
    uint64_t size = 0;
    bool good = false;

    if (wire->bad || wire->at == wire->end)
        return false;
    *out = (fast_proto_field){ 0 };
    if (read_varint(&wire->at, wire->end, &key) && key >> 3 > 0 && key >> 3 < 1U << 29) {
        out->number = (uint32_t)(key >> 3);
        out->type = (int)(key & 7);
        switch (out->type) {
        case FAST_PROTO_VARINT:
            good = read_varint(&wire->at, wire->end, &out->value);
            break;
        case FAST_PROTO_8:
            good = read_fixed(&wire->at, wire->end, 8, &out->value);
            break;
        case FAST_PROTO_4:
            good = read_fixed(&wire->at, wire->end, 4, &out->value);
            break;
        case FAST_PROTO_BYTES:
            good = read_varint(&wire->at, wire->end, &size) &&
                   size <= (uint64_t)(wire->end - wire->at);
            if (good) {
                out->bytes = (fast_span){ wire->at, (size_t)size };
                wire->at += size;
            }
            break;
        default: /* groups are not used since 2008 */
            break;
        }
    }
    wire->bad = !good;
    return good;
}

/* Numbers of a repeated field come one a field, or packed: many in one field of bytes. Both forms
 * are read, because writers may choose. `*at` is the position in a packed field, or 1 after the
 * only number of the other form. */
bool fast__proto_number(fast_proto *wire, const fast_proto_field *field, int type, size_t *at,
                        uint64_t *out)
{
    const uint8_t *next = NULL;
    const uint8_t *end = NULL;
    bool good = false;

    if (field->type == type) { /* not packed: one number */
        *out = field->value;
        return (*at)++ == 0;
    }
    if (field->type != FAST_PROTO_BYTES) {
        wire->bad = true;
        return false;
    }
    if (*at == field->bytes.size)
        return false;
    next = field->bytes.data + *at;
    end = field->bytes.data + field->bytes.size;
    good = type == FAST_PROTO_VARINT ? read_varint(&next, end, out)
                                     : read_fixed(&next, end, type == FAST_PROTO_8 ? 8 : 4, out);
    wire->bad = wire->bad || !good;
    *at = (size_t)(next - field->bytes.data);
    return good;
}

/* The lower 32 bits as a float. */
float fast__proto_float(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float value = 0;

    memcpy(&value, &low, sizeof value);
    return value;
}

/* The 64 bits as a double. */
double fast__proto_double(uint64_t bits)
{
    double value = 0;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Compare length and bytes; an empty span equals an empty text. */
bool fast__span_is(fast_span span, const char *text)
{
    return span.size == strlen(text) && (span.size == 0 || memcmp(span.data, text, span.size) == 0);
}

/* Names of a file are not trusted: control characters would reach the terminal with a message. */
const char *fast__span_text(fast_span span, char text[FAST_SPAN_TEXT_MAX])
{
    size_t size = span.size < 60 ? span.size : 60;

    for (size_t i = 0; i < size; i++)
        text[i] = (char)(span.data[i] >= ' ' && span.data[i] <= '~' ? span.data[i] : '?');
    text[size] = '\0';
    return text;
}

/* Append bytes, doubling the capacity until they fit, so that n bytes cost O(n) copies. After a
 * failure nothing more is appended: the caller looks at `err` once, at the end. */
static void append(fast_proto_out *out, const void *data, size_t size)
{
    if (out->err)
        return;
    if (size > out->capacity - out->size) {
        size_t capacity = out->capacity ? out->capacity : 256;
        uint8_t *grown = NULL;
        while (capacity - out->size < size)
            capacity *= 2;
        out->err = fast__alloc("an ONNX file", (int64_t)capacity, 1, &grown);
        if (out->err)
            return;
        if (out->size > 0)
            memcpy(grown, out->data, out->size);
        fast__free(out->data);
        out->data = grown;
        out->capacity = capacity;
    }
    if (size > 0)
        memcpy(out->data + out->size, data, size);
    out->size += size;
}

/* Append a varint; negative numbers are ten bytes long, as protobuf has it. */
static void append_varint(fast_proto_out *out, uint64_t value)
{
    uint8_t bytes[10];
    size_t size = 0;

    do {
        bytes[size] = (uint8_t)(value & 127);
        value >>= 7;
        bytes[size++] |= value ? 128 : 0;
    } while (value);
    append(out, bytes, size);
}

/* A varint field: whole numbers, enumerations, truth values. */
void fast__proto_put_int(fast_proto_out *out, uint32_t number, int64_t value)
{
    append_varint(out, (uint64_t)number << 3 | FAST_PROTO_VARINT);
    append_varint(out, (uint64_t)value);
}

/* A field of four bytes, little-endian on every machine. */
void fast__proto_put_float(fast_proto_out *out, uint32_t number, float value)
{
    uint32_t bits = 0;
    uint8_t bytes[4];

    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    append_varint(out, (uint64_t)number << 3 | FAST_PROTO_4);
    append(out, bytes, sizeof bytes);
}

/* A field of bytes: its length, then its contents. */
void fast__proto_put_bytes(fast_proto_out *out, uint32_t number, const void *data, size_t size)
{
    append_varint(out, (uint64_t)number << 3 | FAST_PROTO_BYTES);
    append_varint(out, size);
    append(out, data, size);
}

/* A text is bytes without the terminating zero. */
void fast__proto_put_text(fast_proto_out *out, uint32_t number, const char *text)
{
    fast__proto_put_bytes(out, number, text, strlen(text));
}

/* Fields that were encoded on their own are part of the message as they are. */
void fast__proto_put_fields(fast_proto_out *out, const fast_proto_out *fields)
{
    if (fields->err && !out->err)
        out->err = fields->err;
    append(out, fields->data, fields->size);
}

/* A message inside a message is a field of bytes. Its length must be known first, which is why it
 * is built in a buffer of its own. */
void fast__proto_put_message(fast_proto_out *out, uint32_t number, fast_proto_out *message)
{
    if (message->err && !out->err)
        out->err = message->err;
    fast__proto_put_bytes(out, number, message->data, message->size);
    fast__proto_fini(message);
}

/* Free the bytes; the failure stays, so that it can still be reported. */
void fast__proto_fini(fast_proto_out *out)
{
    fast__free(out->data);
    *out = (fast_proto_out){ .err = out->err };
}
