/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: dates are the days that the calendar counts, and nothing else is a date. Method: known
 * days, every day of four centuries in order, wrong texts, and the circles at known places.
 */
#include "data/date.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Days of a text, NAN if it is not a date. */
static double days_of(const char *text, fast_date_order order, bool *clock)
{
    double days;
    return fast__date_parse(text, (int64_t)strlen(text), order, &days, clock) ? days : NAN;
}

static void known_days(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fast_date_order order;
        double days;
        bool clock;
    } cases[] = {
        { "1970-01-01", FAST_DATE_YMD, 0, false },
        { "1969-12-31", FAST_DATE_YMD, -1, false },
        { "2000-02-29", FAST_DATE_YMD, 11016, false },
        { "2024/3/1", FAST_DATE_YMD, 19783, false },
        { "01.03.2024", FAST_DATE_DMY, 19783, false },
        { "1/3/2024", FAST_DATE_DMY, 19783, false },
        { "3-1-2024", FAST_DATE_MDY, 19783, false },
        { "1970-01-02 12:00", FAST_DATE_YMD, 1.5, true },
        { "1970-01-02T06:00:00", FAST_DATE_YMD, 1.25, true },
        { "1970-01-02T06:00:00.0Z", FAST_DATE_YMD, 1.25, true },
        { "1970-01-02T06:00:00+06:00", FAST_DATE_YMD, 1, true },
        { "1970-01-02T06:00-0600", FAST_DATE_YMD, 1.5, true },
        { "2.1.1970 18:00", FAST_DATE_DMY, 1.75, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool clock;
        const double days = days_of(cases[i].text, cases[i].order, &clock);
        if (!(fabs(days - cases[i].days) < 1e-9) || clock != cases[i].clock)
            fail_msg("%s is %g", cases[i].text, days);
    }
}

/* Days of a whole cycle of the calendar follow each other. */
static void days_follow_each_other(void **state)
{
    (void)state;
    double last = NAN;
    for (int year = 1800; year < 2201; year++) {
        for (int month = 1; month <= 12; month++) {
            for (int day = 1; day <= 31; day++) {
                char text[40];
                bool clock;
                snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                const double days = days_of(text, FAST_DATE_YMD, &clock);
                assert_true(isnan(days) || isnan(last) || days == last + 1);
                last = isnan(days) ? last : days;
            }
        }
    }
    assert_true(last == 84370); /* 31 December 2200 */
}

static void other_texts_are_no_dates(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "2024",
                                         "2024-01",
                                         "2024-13-01",
                                         "2024-02-30",
                                         "2023-02-29",
                                         "1900-02-29",
                                         "2024-01-01x",
                                         "2024-01/01",
                                         "24-01-01",
                                         "2024-1-1-",
                                         "2024-01-01 ",
                                         "2024-01-01T",
                                         "2024-01-01 24:00",
                                         "2024-01-01 1:2",
                                         "2024.01.01",
                                         "2024-00-01",
                                         "2024-01-00",
                                         "2024-01-01 10:00+x",
                                         "20240101",
                                         "-024-01-01",
                                         "2024-01-01 1",
                                         "2024-01-01 10:60",
                                         "2024-01-01 10:00:61",
                                         "1.2.3",
                                         "12:30",
                                         "x",
                                         "2024-01-01 10:00+15:00" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (int order = 0; order < FAST_DATE_ORDERS; order++) {
            bool clock;
            if (!isnan(days_of(texts[i], (fast_date_order)order, &clock)))
                fail_msg("\"%s\" is a date", texts[i]);
        }
    }
}

static void circles_close(void **state)
{
    (void)state;
    float a[FAST_DATE_CLOCK_WIDTH], b[FAST_DATE_CLOCK_WIDTH];
    fast__date_features(7000.25, true, a);
    fast__date_features(7007.25, true, b);
    assert_true(a[0] == 7000.25f && b[0] == 7007.25f);
    /* The same day of the week, the same time of day; another season. */
    assert_true(a[3] == b[3] && a[4] == b[4]);
    assert_true(fabsf(a[5] - 1) < 1e-6f && fabsf(a[6]) < 1e-6f);
    assert_true(a[1] != b[1]);
    for (int i = 1; i < FAST_DATE_CLOCK_WIDTH; i += 2)
        assert_true(fabsf(a[i] * a[i] + a[i + 1] * a[i + 1] - 1) < 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_days),
        cmocka_unit_test(days_follow_each_other),
        cmocka_unit_test(other_texts_are_no_dates),
        cmocka_unit_test(circles_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
