/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Dates in tables: 2024-03-31, 2024/3/31, 31.3.2024, 31/3/2024, 3/31/2024, each with or without a
 * time of day after a space or a T: 14:05, 14:05:59, 14:05:59.25, and with Z or an offset such as
 * +02:00.
 *
 * A text such as 3/4/2024 is a date in two orders: the reader of a column asks for each order and
 * takes the one that all its fields have.
 */

/* The order of year, month and day. */
typedef enum fast_date_order { FAST_DATE_YMD, FAST_DATE_DMY, FAST_DATE_MDY } fast_date_order;
enum { FAST_DATE_ORDERS = 3 };

/* Features of a date: days since 1970, the season and the day of the week as points on circles;
 * with a clock also the time of day. */
enum { FAST_DATE_WIDTH = 5, FAST_DATE_CLOCK_WIDTH = 7 };

/* Convert a text to days since 1970-01-01 UTC; *clock_out says whether it has a time of day. False
 * if the text is not a date in this order. */
bool fast__date_parse(const char *text, int64_t size, fast_date_order order, double *days_out,
                      bool *clock_out);

/* Write the features of a date: FAST_DATE_CLOCK_WIDTH with the clock, else FAST_DATE_WIDTH. */
void fast__date_features(double days, bool clock, float *out);
