/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times with units: [+-]digits[.digits] and a unit, ns, us, ms, s, min or h. Nanoseconds are
 * integers and decimal fractions are not floating-point numbers, so the text is exact both ways: it
 * has the largest of s, ms, us and ns that does not exceed the time, and as many digits as needed,
 * and parses to the same nanosecond.
 */
#include "transport/sim/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Largest first: printing takes the first that fits. */
static const struct time_unit {
    const char *name; /* suffix of a time */
    int64_t size;     /* nanoseconds */
    bool printed;     /* used in texts; else only parsed */
} units[] = {
    { "h", 3600000000000, false }, { "min", 60000000000, false }, { "s", 1000000000, true },
    { "ms", 1000000, true },       { "us", 1000, true },          { "ns", 1, true },
};
enum { UNITS = sizeof units / sizeof units[0] };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Add digit * unit to *sum; false past FAST_FAULT_TIME_MAX. */
static bool add(int64_t *sum, int digit, int64_t unit)
{
    return !__builtin_add_overflow(*sum, digit * unit, sum) && *sum <= FAST_FAULT_TIME_MAX;
}

/* Parse the number before the unit to nanoseconds. Digits below a nanosecond must be zeros. */
static bool number_read(const char *c, const char *end, int64_t unit, int64_t *out)
{
    int64_t whole = 0;
    int64_t sum = 0;
    int digits = 0;
    for (; c < end && is_digit(*c); c++, digits++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, *c - '0', &whole))
            return false;
    if (__builtin_mul_overflow(whole, unit, &sum) || sum > FAST_FAULT_TIME_MAX)
        return false;
    if (c < end && *c == '.') {
        /* Each digit counts a tenth of the one before it; this works for min and h too as long as
         * the tenth is a whole number of nanoseconds. */
        int64_t worth = unit;
        for (c++; c < end && is_digit(*c); c++, digits++) {
            const int digit = *c - '0';
            if (digit != 0 && (worth % 10 != 0 || !add(&sum, digit, worth / 10)))
                return false;
            worth = worth % 10 == 0 ? worth / 10 : 0;
        }
    }
    *out = sum;
    return c == end && digits > 0;
}

fast_err fast__time_parse(const char *what, const char *text, int64_t *out)
{
    const char *c = text;
    const bool negative = *c == '-';
    if (*c == '-' || *c == '+')
        c++;
    const char *unit = c;
    while (is_digit(*unit) || *unit == '.')
        unit++;
    if (unit == c)
        return fast__fail(FAST_EINVAL, "%s is not a time: \"%.40s\"; write it like 1.5s or 200ms",
                          what, text);
    if (*unit == 0)
        return fast__fail(FAST_EINVAL, "%s has no unit: %.40s; write it like %.20ss or %.20sms",
                          what, text, text, text);
    for (int i = 0; i < UNITS; i++) {
        int64_t time = 0;
        if (strcmp(unit, units[i].name) != 0)
            continue;
        if (!number_read(c, unit, units[i].size, &time))
            return fast__fail(FAST_EINVAL,
                              "%s is not a whole number of nanoseconds up to a year: %.40s", what,
                              text);
        *out = negative ? -time : time;
        return FAST_OK;
    }
    return fast__fail(FAST_EINVAL, "%s has an unknown unit: %.40s; units are ns, us, ms, s, min, h",
                      what, text);
}

void fast__time_text(int64_t time, char text[FAST_TIME_TEXT])
{
    FAST_ASSERT(time >= -FAST_FAULT_TIME_MAX);
    FAST_ASSERT(time <= FAST_FAULT_TIME_MAX);
    const char *sign = time < 0 ? "-" : "";
    const int64_t size = time < 0 ? -time : time;
    if (size == 0) {
        snprintf(text, FAST_TIME_TEXT, "0s");
        return;
    }
    const struct time_unit *unit = units;
    while (!unit->printed || unit->size > size)
        unit++;
    /* At most nine digits follow the point: nanoseconds of a second. */
    char fraction[16] = "";
    int length = 0;
    int64_t worth = unit->size;
    for (int64_t rest = size % unit->size; rest > 0; rest %= worth) {
        worth /= 10;
        fraction[length++] = (char)('0' + rest / worth);
    }
    fraction[length] = 0;
    snprintf(text, FAST_TIME_TEXT, "%s%" PRId64 "%s%s%s", sign, size / unit->size,
             length > 0 ? "." : "", fraction, unit->name);
}
