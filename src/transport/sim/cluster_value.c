/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that describe nodes and links, in files and in the options of presets:
 *
 *     latency    time: 50us              until the first byte arrives
 *     bandwidth  rate: 1.25GB/s, 10Gbit/s or bytes per second; 0: no limit
 *     stream     rate                    of one connection, below the bandwidth of its ends; 0: no
 *                                        limit
 *     overhead   time                    for which a message occupies each end beside its bytes
 *     eager      size: 64KiB, 70kB       larger messages pay a round trip before their bytes leave:
 *                                        the rendezvous of MPI; 0: no message does
 *     packet     size                    messages up to this size pass larger ones of other pairs
 *                                        at the ends, between their packets; 0: no message does
 *     jitter     fraction: 0.2 or 20%    the latency grows by up to this fraction, uniformly
 *     contention yes or no               one message at a time leaves and enters a node
 *     loss       probability: 0.01, 1%   a transmission is lost, and repeated after `retry`
 *     duplicate  probability             a message arrives twice
 *     reorder    probability             a message is delayed by up to twice the latency
 *     retry      time                    until a lost transmission is repeated; 0: 4 L + 1 ms
 *
 *     speed      rate: 20GFLOP/s, or operations per second of one core; 0: computing is free
 *     memory     rate: bytes per second; 0: moving bytes is free
 *     jitter     fraction                each charge takes up to this fraction longer
 *     cores      integer                 charges at a time; 0: no limit
 *     capacity   size                    memory that a worker may take; `fast plan` limits it, the
 *                                        simulator does not; 0: no limit
 */
#include "transport/sim/cluster.h"
#include "transport/sim/fault.h"

#include <stddef.h>
#include <string.h>

typedef enum value_kind {
    TIME,        /* nanoseconds, int64_t */
    RATE,        /* bytes per second, double */
    SIZE,        /* bytes, double */
    SPEED,       /* operations per second, double */
    FRACTION,    /* of another value, double */
    PROBABILITY, /* double */
    YES,         /* yes or no, bool */
    WHOLE        /* int64_t */
} value_kind;

typedef struct value_key {
    const char *name; /* of the key */
    value_kind kind;  /* of its value */
    size_t at;        /* offset of its field */
    double max;       /* largest value */
} value_key;

static const value_key link_keys[] = {
    { "latency", TIME, offsetof(fast_link_draft, latency_ns), 3.6e12 },
    { "bandwidth", RATE, offsetof(fast_link_draft, bandwidth), 1e18 },
    { "stream", RATE, offsetof(fast_link_draft, stream), 1e18 },
    { "overhead", TIME, offsetof(fast_link_draft, overhead_ns), 3.6e12 },
    { "eager", SIZE, offsetof(fast_link_draft, eager), 1e15 },
    { "packet", SIZE, offsetof(fast_link_draft, packet), 1e15 },
    { "jitter", FRACTION, offsetof(fast_link_draft, jitter), 1000 },
    { "contention", YES, offsetof(fast_link_draft, contention), 1 },
    { "loss", PROBABILITY, offsetof(fast_link_draft, loss), 0.99 },
    { "duplicate", PROBABILITY, offsetof(fast_link_draft, duplicate), 0.99 },
    { "reorder", PROBABILITY, offsetof(fast_link_draft, reorder), 0.99 },
    { "retry", TIME, offsetof(fast_link_draft, retry_ns), 3.6e12 },
};

static const value_key node_keys[] = {
    { "speed", SPEED, offsetof(fast_node_spec, speed), 1e24 },
    { "memory", RATE, offsetof(fast_node_spec, memory), 1e24 },
    { "jitter", FRACTION, offsetof(fast_node_spec, jitter), 1000 },
    { "cores", WHOLE, offsetof(fast_node_spec, cores), 65536 },
    { "capacity", SIZE, offsetof(fast_node_spec, capacity), 1e15 },
};

enum {
    LINK_KEYS = sizeof link_keys / sizeof link_keys[0],
    NODE_KEYS = sizeof node_keys / sizeof node_keys[0]
};

typedef struct value_unit {
    value_kind kind;  /* of the values that have it */
    const char *name; /* suffix */
    double factor;    /* to the unit of the field */
} value_unit;

static const value_unit units[] = {
    { RATE, "B/s", 1 },
    { RATE, "kB/s", 1e3 },
    { RATE, "MB/s", 1e6 },
    { RATE, "GB/s", 1e9 },
    { RATE, "kbit/s", 125 },
    { RATE, "Mbit/s", 125e3 },
    { RATE, "Gbit/s", 125e6 },
    { SPEED, "MFLOP/s", 1e6 },
    { SPEED, "GFLOP/s", 1e9 },
    { SPEED, "TFLOP/s", 1e12 },
    { FRACTION, "%", 0.01 },
    { PROBABILITY, "%", 0.01 },
    { SIZE, "B", 1 },
    { SIZE, "kB", 1e3 },
    { SIZE, "MB", 1e6 },
    { SIZE, "GB", 1e9 },
    { SIZE, "KiB", 1024 },
    { SIZE, "MiB", 1048576 },
    { SIZE, "GiB", 1073741824 },
};

/* Parse a number with an optional unit. */
static fast_err real_read(const value_key *key, const char *text, double *out)
{
    const size_t length = strspn(text, "0123456789.+-eE");
    char number[32];
    double value = 0, factor = 1;

    if (length == 0 || length >= sizeof number)
        return fast__fail(FAST_EINVAL, "%s is not a number: \"%.40s\"", key->name, text);
    memcpy(number, text, length);
    number[length] = 0;
    FAST_TRY(fast__parse_real(key->name, number, &value));
    if (text[length]) {
        const value_unit *found = NULL;
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
            if (units[i].kind == key->kind && strcmp(units[i].name, text + length) == 0)
                found = &units[i];
        if (!found)
            return fast__fail(FAST_EINVAL, "%s has no unit \"%.20s\"; write it like %s", key->name,
                              text + length,
                              key->kind == RATE    ? "1.25GB/s or 10Gbit/s"
                              : key->kind == SIZE  ? "64KiB or 70kB"
                              : key->kind == SPEED ? "20GFLOP/s"
                                                   : "0.2 or 20%");
        factor = found->factor;
    }
    *out = value * factor;
    return FAST_OK;
}

/* FAST_EINVAL if a value is out of range. */
static fast_err range_check(const value_key *key, const char *text, double value)
{
    if (value >= 0 && value <= key->max)
        return FAST_OK;
    return fast__fail(FAST_EINVAL, "%s is out of range: %.40s; it is at least 0 and at most %g",
                      key->name, text, key->max);
}

/* Parse the value of a key into its field. */
static fast_err value_set(const value_key *key, void *config, const char *text)
{
    char *field = (char *)config + key->at;
    int64_t whole = 0;
    double real = 0;

    switch (key->kind) {
    case YES:
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0 && strcmp(text, "true") != 0 &&
            strcmp(text, "false") != 0)
            return fast__fail(FAST_EINVAL, "%s is yes or no, not \"%.40s\"", key->name, text);
        *(bool *)field = text[0] == 'y' || text[0] == 't';
        return FAST_OK;
    case TIME:
    case WHOLE:
        if (strcmp(text, "0") != 0)
            FAST_TRY(key->kind == TIME ? fast__time_parse(key->name, text, &whole)
                                       : fast__parse_int(key->name, text, &whole));
        FAST_TRY(range_check(key, text, (double)whole));
        memcpy(field, &whole, sizeof whole);
        return FAST_OK;
    case RATE:
    case SIZE:
    case SPEED:
    case FRACTION:
    case PROBABILITY:
        FAST_TRY(real_read(key, text, &real));
        FAST_TRY(range_check(key, text, real));
        memcpy(field, &real, sizeof real);
        return FAST_OK;
    }
    return FAST_OK;
}

static const char *key_at(const void *ctx, int64_t i)
{
    return ((const value_key *)ctx)[i].name;
}

/* Find a key by name and set its field. */
static fast_err key_set(const char *kind, const value_key *keys, int64_t count, void *config,
                        const char *name, const char *text)
{
    const int64_t i = fast__name_find(name, key_at, keys, count, NULL);
    if (i < 0)
        return fast__name_unknown(kind, name, key_at, keys, count);
    return value_set(&keys[i], config, text);
}

fast_err fast__link_set(fast_link_draft *link, const char *key, const char *text)
{
    return key_set("key of links", link_keys, LINK_KEYS, link, key, text);
}

fast_err fast__node_set(fast_node_spec *node, const char *key, const char *text)
{
    return key_set("key of nodes", node_keys, NODE_KEYS, node, key, text);
}

/* Return a probability as a multiple of 2^-32. */
static uint32_t probability_of(double probability)
{
    FAST_ASSERT(probability >= 0 && probability < 1);
    return (uint32_t)(probability * 0x1p32);
}

fast_sim_link fast__link_make(const fast_link_draft *draft)
{
    const int64_t retry = 4 * draft->latency_ns + 1000000;

    return (fast_sim_link){ .latency_ns = draft->latency_ns,
                            .ns_per_byte = draft->bandwidth > 0 ? 1e9 / draft->bandwidth : 0,
                            .overhead_ns = draft->overhead_ns,
                            .stream_ns_per_byte = draft->stream > 0 ? 1e9 / draft->stream : 0,
                            .eager = (int64_t)draft->eager,
                            .packet = (int64_t)draft->packet,
                            .jitter_ns = (int64_t)((double)draft->latency_ns * draft->jitter + 0.5),
                            .retry_ns = draft->retry_ns ? draft->retry_ns : retry,
                            .reorder_ns = 2 * draft->latency_ns,
                            .loss = probability_of(draft->loss),
                            .duplicate = probability_of(draft->duplicate),
                            .reorder = probability_of(draft->reorder),
                            .contention = draft->contention };
}
