/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors and attributes of an ONNX file. The fields that are read:
 *
 *     TensorProto      1 dims, 2 data_type, 4 float_data, 5 int32_data, 7 int64_data, 9 raw_data,
 *                      10 double_data, 11 uint64_data, 13 external_data, 14 data_location
 *     AttributeProto   1 name, 2 f, 3 i, 4 s, 5 t, 7 floats, 8 ints
 *
 * A tensor's memory is allocated only after its bytes are known to be in the file: with raw_data
 * their number is that of the shape times the size of an element, in the other fields each number
 * has a byte or more. A shape of 2^31 x 2^31 with four bytes of data is thus refused and not
 * allocated.
 *
 * All numbers are doubles in memory, so that each operator is written once and not for each type;
 * fast__onnx_round() gives a result its type back. Whole numbers are exact up to 2^53, which no
 * shape and no index exceeds.
 */
#include "base/memory.h"
#include "model/onnx/onnx_file.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The limit of 2^40 leaves room for products with the sizes of elements and small factors. */
bool fast__onnx_count(int rank, const int64_t *shape, int64_t *out)
{
    int64_t count = 1;

    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || !fast__mul_size(count, shape[i], &count) || count > (int64_t)1 << 40)
            return false;
    *out = count;
    return true;
}

/* The caller has checked the budget; here only overflow is excluded. */
fast_err fast__onnx_tensor_new(int type, int rank, const int64_t *shape, fast_onnx_tensor *out)
{
    fast_onnx_tensor tensor = { .type = type, .rank = rank };

    FAST_ASSERT(rank >= 0);
    FAST_ASSERT(rank <= FAST_ONNX_RANK_MAX);
    if (!fast__onnx_count(rank, shape, &tensor.count))
        return fast__fail(FAST_EFORMAT, "a tensor is too large");
    for (int i = 0; i < rank; i++)
        tensor.shape[i] = shape[i];
    FAST_TRY(fast__alloc("an ONNX tensor", tensor.count, sizeof *tensor.values, &tensor.values));
    *out = tensor;
    return FAST_OK;
}

/* Free the numbers and leave a tensor that may be freed again. */
void fast__onnx_tensor_fini(fast_onnx_tensor *tensor)
{
    fast__free(tensor->values);
    *tensor = (fast_onnx_tensor){ 0 };
}

/* Wrap a whole number to `bits` bits, as C's unsigned arithmetic and two's complement do:
 *
 *     300 as 8 bits is 44;  200 as 8 bits with a sign is -56
 *
 * Numbers that are not finite become 0. */
static double wrap(double value, int bits, bool is_signed)
{
    const double range = ldexp(1, bits);
    double v = trunc(value);

    if (!isfinite(v))
        return 0;
    v -= floor(v / range) * range; /* into [0, range) */
    return is_signed && v >= range / 2 ? v - range : v;
}

/* Round to half precision: 11 significant bits, fewer below 2^-14, infinite above 65504. */
static double round_half(double value)
{
    int exponent = 0;

    if (!isfinite(value) || value == 0)
        return value;
    frexp(value, &exponent);
    exponent = exponent - 11 < -24 ? -24 : exponent - 11; /* of the last bit */
    value = ldexp(nearbyint(ldexp(value, -exponent)), exponent);
    return fabs(value) > 65504 ? copysign((double)INFINITY, value) : value;
}

/* Results of operators are rounded once, at the end, as if computed with more digits. */
double fast__onnx_round(int type, double value)
{
    switch (type) {
    case FAST_ONNX_FLOAT:
        return (double)(float)value;
    case FAST_ONNX_FLOAT16:
        return round_half(value);
    case FAST_ONNX_UINT8:
        return wrap(value, 8, false);
    case FAST_ONNX_INT8:
        return wrap(value, 8, true);
    case FAST_ONNX_UINT16:
        return wrap(value, 16, false);
    case FAST_ONNX_INT16:
        return wrap(value, 16, true);
    case FAST_ONNX_UINT32:
        return wrap(value, 32, false);
    case FAST_ONNX_INT32:
        return wrap(value, 32, true);
    case FAST_ONNX_BOOL:
        return value != 0;
    case FAST_ONNX_INT64:
    case FAST_ONNX_UINT64:
        return trunc(value);
    default:
        return value;
    }
}

/* A conversion of a number outside of the range would be undefined in C. */
int64_t fast__onnx_whole(double value)
{
    const double limit = 9007199254740992.0;

    return !(value > -limit) ? -(int64_t)limit : value > limit ? (int64_t)limit : (int64_t)value;
}

/* Bytes of an element in raw_data; 0 for types that are no numbers here: texts, complex numbers
 * and bfloat16. */
static size_t type_size(int type)
{
    static const size_t sizes[] = { 0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8 };

    return type >= 0 && type < (int)(sizeof sizes / sizeof sizes[0]) ? sizes[type] : 0;
}

/* Convert the bits of a half-precision number: 1 sign, 5 exponent, 10 fraction; exponent 0 holds
 * subnormal numbers, exponent 31 infinity and NaN. */
static double half(uint64_t bits)
{
    const int exponent = (int)(bits >> 10 & 31);
    const double fraction = (double)(bits & 1023);
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                                    : ldexp(1024 + fraction, exponent - 25);

    return bits >> 15 & 1 ? -value : value;
}

/* Convert the bits of one number, sign-extended where the type is signed. In raw_data and in the
 * fields of whole numbers the value is in the lower bits. */
static double number(int type, uint64_t bits)
{
    switch (type) {
    case FAST_ONNX_FLOAT:
        return (double)fast__proto_float(bits);
    case FAST_ONNX_DOUBLE:
        return fast__proto_double(bits);
    case FAST_ONNX_FLOAT16:
        return half(bits);
    case FAST_ONNX_INT8:
        return (double)(int8_t)bits;
    case FAST_ONNX_INT16:
        return (double)(int16_t)bits;
    case FAST_ONNX_INT32:
        return (double)(int32_t)bits;
    case FAST_ONNX_INT64:
        return (double)(int64_t)bits;
    default:
        return (double)bits;
    }
}

/* Decode raw_data: the numbers one after the other, little-endian. Their number of bytes must be
 * that of the shape, which bounds the allocation by the size of the file. */
static fast_err decode_raw(fast_span raw, fast_onnx_tensor *tensor)
{
    const size_t size = type_size(tensor->type);

    if (raw.size != size * (size_t)tensor->count)
        return fast__fail(FAST_EFORMAT, "a tensor of %lld numbers has %zu bytes of data",
                          (long long)tensor->count, raw.size);
    FAST_TRY(fast__alloc("an ONNX tensor", tensor->count, sizeof(double), &tensor->values));
    for (int64_t i = 0; i < tensor->count; i++) {
        uint64_t bits = 0;
        for (size_t b = 0; b < size; b++)
            bits |= (uint64_t)raw.data[(size_t)i * size + b] << (8 * b);
        tensor->values[i] = number(tensor->type, bits);
    }
    return FAST_OK;
}

/* Decode the repeated field of numbers that belongs to the tensor's type: small whole numbers,
 * truth values and halves are in int32_data, the others in a field of their own. */
static fast_err decode_fields(fast_span message, fast_onnx_tensor *tensor)
{
    const int type = tensor->type;
    const uint32_t wanted = type == FAST_ONNX_FLOAT                                ? 4
                            : type == FAST_ONNX_DOUBLE                             ? 10
                            : type == FAST_ONNX_INT64                              ? 7
                            : type == FAST_ONNX_UINT64 || type == FAST_ONNX_UINT32 ? 11
                                                                                   : 5;
    const int wire_type = wanted == 4    ? FAST_PROTO_4
                          : wanted == 10 ? FAST_PROTO_8
                                         : FAST_PROTO_VARINT;
    fast_proto wire = fast__proto_open(message);
    fast_proto_field field;
    int64_t i = 0;

    /* Each number has a byte or more, so a tensor that fits the file cannot be larger than it. */
    if ((uint64_t)tensor->count > message.size)
        return fast__fail(FAST_EFORMAT, "a tensor of %lld numbers has %zu bytes of data",
                          (long long)tensor->count, message.size);
    FAST_TRY(fast__alloc("an ONNX tensor", tensor->count, sizeof(double), &tensor->values));
    while (fast__proto_next(&wire, &field)) {
        size_t at = 0;
        uint64_t bits = 0;
        while (field.number == wanted && fast__proto_number(&wire, &field, wire_type, &at, &bits)) {
            if (i < tensor->count)
                tensor->values[i] = number(type, bits);
            i++;
        }
    }
    if (!wire.bad && i == tensor->count)
        return FAST_OK;
    fast__onnx_tensor_fini(tensor);
    return fast__fail(FAST_EFORMAT, "a tensor has %lld numbers instead of those of its shape",
                      (long long)i);
}

/* Read the shape and the type, then the numbers. Dimensions may be packed or not. Data in another
 * file are refused: its path comes from a file that is not trusted, and might lead anywhere. */
fast_err fast__onnx_tensor_decode(fast_span message, fast_onnx_tensor *out)
{
    fast_proto wire = fast__proto_open(message);
    fast_proto_field field;
    fast_onnx_tensor tensor = { 0 };
    fast_span raw = { NULL, 0 };
    bool external = false;

    while (fast__proto_next(&wire, &field)) {
        size_t at = 0;
        uint64_t bits = 0;
        while (field.number == 1 &&
               fast__proto_number(&wire, &field, FAST_PROTO_VARINT, &at, &bits)) {
            if (tensor.rank == FAST_ONNX_RANK_MAX)
                return fast__fail(FAST_ENOTSUP, "a tensor has more than %d dimensions",
                                  FAST_ONNX_RANK_MAX);
            tensor.shape[tensor.rank++] = (int64_t)bits;
        }
        if (field.number == 2) /* data_type */
            tensor.type = (int)(field.value & 0xff);
        if (field.number == 9 && field.type == FAST_PROTO_BYTES) /* raw_data */
            raw = field.bytes;
        external = external || field.number == 13 || (field.number == 14 && field.value == 1);
    }
    if (wire.bad)
        return fast__fail(FAST_EFORMAT, "a tensor is malformed");
    if (external)
        return fast__fail(FAST_ENOTSUP, "has tensors in other files, which are not read; save the "
                                        "model as one file");
    if (type_size(tensor.type) == 0)
        return fast__fail(FAST_ENOTSUP, "a tensor has elements of ONNX type %d, which is no number",
                          tensor.type);
    if (!fast__onnx_count(tensor.rank, tensor.shape, &tensor.count))
        return fast__fail(FAST_EFORMAT, "a tensor's shape is negative or too large");
    FAST_TRY(raw.data ? decode_raw(raw, &tensor) : decode_fields(message, &tensor));
    *out = tensor;
    return FAST_OK;
}

/* The node's number, name and operator come first, so that the message can be found in a viewer. */
fast_err fast__onnx_fail(fast_err err, const fast_onnx_node *node, const char *format, ...)
{
    char text[320];
    char name[FAST_SPAN_TEXT_MAX];
    char op[FAST_SPAN_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fast__fail(err, "node %d \"%s\" (%s): %s", node->index,
                      fast__span_text(node->name, name), fast__span_text(node->op, op), text);
}

/* Find an attribute of a node by name; its message is field 5. Attributes are looked up in the
 * node's bytes when they are asked for, which needs no memory. */
static fast_span find_attribute(const fast_onnx_node *node, const char *name)
{
    fast_proto wire = fast__proto_open(node->message);
    fast_proto_field field;

    while (fast__proto_next(&wire, &field)) {
        fast_proto inner = fast__proto_open(field.bytes);
        fast_proto_field part;
        if (field.number != 5 || field.type != FAST_PROTO_BYTES)
            continue;
        while (fast__proto_next(&inner, &part))
            if (part.number == 1 && part.type == FAST_PROTO_BYTES &&
                fast__span_is(part.bytes, name))
                return field.bytes;
    }
    return (fast_span){ NULL, 0 };
}

/* Read the first field `wanted` of an attribute: 2 a float, 3 a whole number, 4 a text, 5 a
 * tensor. Returns false if the attribute or the field is absent. */
static bool attribute_field(const fast_onnx_node *node, const char *name, uint32_t wanted,
                            fast_proto_field *out)
{
    const fast_span message = find_attribute(node, name);
    fast_proto wire = fast__proto_open(message);

    while (message.data && fast__proto_next(&wire, out))
        if (out->number == wanted)
            return true;
    return false;
}

/* An attribute may be there without a value; its name counts. */
bool fast__onnx_has(const fast_onnx_node *node, const char *name)
{
    return find_attribute(node, name).data != NULL;
}

/* The field `i` of the attribute. */
int64_t fast__onnx_int(const fast_onnx_node *node, const char *name, int64_t standard)
{
    fast_proto_field field;

    return attribute_field(node, name, 3, &field) ? (int64_t)field.value : standard;
}

/* The field `f` of the attribute. */
double fast__onnx_real(const fast_onnx_node *node, const char *name, double standard)
{
    fast_proto_field field;

    return attribute_field(node, name, 2, &field) ? (double)fast__proto_float(field.value)
                                                  : standard;
}

/* The field `s` of the attribute, compared. */
bool fast__onnx_text_is(const fast_onnx_node *node, const char *name, const char *text)
{
    fast_proto_field field;

    return attribute_field(node, name, 4, &field) && fast__span_is(field.bytes, text);
}

/* The field `t` of the attribute, not decoded. */
fast_span fast__onnx_tensor_attribute(const fast_onnx_node *node, const char *name)
{
    fast_proto_field field;

    if (attribute_field(node, name, 5, &field) && field.type == FAST_PROTO_BYTES)
        return field.bytes;
    return (fast_span){ NULL, 0 };
}

/* Read the numbers of a repeated field of an attribute, at most `max`; further ones are not
 * counted. Returns -1 if the attribute is absent, so that an empty list can be told from none. */
static int numbers(const fast_onnx_node *node, const char *name, uint32_t wanted, int type, int max,
                   uint64_t *out)
{
    const fast_span message = find_attribute(node, name);
    fast_proto wire = fast__proto_open(message);
    fast_proto_field field;
    int count = 0;

    if (!message.data)
        return -1;
    while (fast__proto_next(&wire, &field)) {
        size_t at = 0;
        uint64_t bits = 0;
        while (field.number == wanted && fast__proto_number(&wire, &field, type, &at, &bits))
            if (count < max)
                out[count++] = bits;
    }
    return count;
}

/* The field `ints` of the attribute. */
int fast__onnx_ints(const fast_onnx_node *node, const char *name, int max, int64_t *out)
{
    return numbers(node, name, 8, FAST_PROTO_VARINT, max, (uint64_t *)out);
}

/* The field `floats` of the attribute. */
int fast__onnx_reals(const fast_onnx_node *node, const char *name, int max, double *out)
{
    uint64_t bits[FAST_ONNX_IO_MAX];
    const int count =
        numbers(node, name, 7, FAST_PROTO_4, max < FAST_ONNX_IO_MAX ? max : FAST_ONNX_IO_MAX, bits);

    for (int i = 0; i < count; i++)
        out[i] = (double)fast__proto_float(bits[i]);
    return count;
}
