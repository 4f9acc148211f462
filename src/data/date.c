/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dates as numbers. The days since 1970 follow from counting March as the first month: the leap day
 * is then the last of its year, and the months before month m have (153 m + 2) / 5 days.
 *
 * A network learns a trend from the days, and a rhythm from the points (sin a, cos a) on circles
 * of a year, a week and a day: 31 December is beside 1 January.
 */
#include "data/date.h"

#include <math.h>

/* A position in a text. */
typedef struct date_text {
    const char *at;  /* next character */
    const char *end; /* first one after the text */
} date_text;

/* Read a number of `least` to `most` digits. */
static bool read_digits(date_text *t, int least, int most, int *out)
{
    int value = 0, count = 0;
    for (; t->at < t->end && count < most && *t->at >= '0' && *t->at <= '9'; t->at++, count++)
        value = value * 10 + (*t->at - '0');
    *out = value;
    return count >= least;
}

/* Skip one character if it is `c`. */
static bool skip(date_text *t, char c)
{
    const bool found = t->at < t->end && *t->at == c;
    t->at += found;
    return found;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar; false if the month has no such day. */
static bool count_days(int year, int month, int day, double *out)
{
    static const int lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month < 1 || month > 12 || day < 1 || day > lengths[month - 1])
        return false;
    if (month == 2 && day == 29 && !leap)
        return false;
    const int y = month > 2 ? year : year - 1;
    const int m = month > 2 ? month - 3 : month + 9;
    *out = 365.0 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
    return true;
}

/* Read the fraction of a second, which starts with a point. */
static double read_fraction(date_text *t)
{
    double value = 0, unit = 1;
    if (!skip(t, '.'))
        return 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        unit /= 10;
        value += unit * (*t->at - '0');
    }
    return value;
}

/* Read the time of day up to the end of the text, as a fraction of a day in UTC. */
static bool read_clock(date_text *t, double *out)
{
    int hour, minute, second = 0;
    double fraction = 0;
    if (!read_digits(t, 1, 2, &hour) || !skip(t, ':') || !read_digits(t, 2, 2, &minute))
        return false;
    if (skip(t, ':')) {
        if (!read_digits(t, 2, 2, &second))
            return false;
        fraction = read_fraction(t);
    }
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    double days = (hour * 3600 + minute * 60 + second + fraction) / 86400;
    const int sign = skip(t, '+') ? -1 : skip(t, '-') ? 1 : 0;
    if (sign != 0) {
        if (!read_digits(t, 2, 2, &hour) || hour > 14)
            return false;
        minute = 0;
        if ((skip(t, ':') || t->at < t->end) && (!read_digits(t, 2, 2, &minute) || minute > 59))
            return false;
        days += sign * (hour * 60 + minute) / 1440.0;
    } else {
        skip(t, 'Z');
    }
    *out = days;
    return t->at == t->end;
}

/* Read three numbers with the same mark between them, then the time of day if text is left. */
bool fast__date_parse(const char *text, int64_t size, fast_date_order order, double *days_out,
                      bool *clock_out)
{
    date_text t = { text, text + size };
    const bool first_year = order == FAST_DATE_YMD;
    int part[3];
    double days, clock = 0;
    if (!read_digits(&t, first_year ? 4 : 1, first_year ? 4 : 2, &part[0]) || t.at == t.end)
        return false;
    /* Points are written between day, month and year only. */
    const char mark = *t.at;
    if (mark != '-' && mark != '/' && (mark != '.' || order != FAST_DATE_DMY))
        return false;
    if (!skip(&t, mark) || !read_digits(&t, 1, 2, &part[1]) || !skip(&t, mark) ||
        !read_digits(&t, first_year ? 1 : 4, first_year ? 2 : 4, &part[2]))
        return false;
    const int year = part[first_year ? 0 : 2];
    const int month = part[order == FAST_DATE_MDY ? 0 : 1];
    const int day = part[first_year ? 2 : order == FAST_DATE_MDY ? 1 : 0];
    if (!count_days(year, month, day, &days))
        return false;
    const bool timed = t.at < t.end;
    if (timed && ((!skip(&t, 'T') && !skip(&t, ' ')) || !read_clock(&t, &clock)))
        return false;
    *days_out = days + clock;
    *clock_out = timed;
    return true;
}

/* Write the point of the circle of `period` days. */
static void put_circle(double days, double period, float *out)
{
    static const double circle = 6.283185307179586;
    const double angle = circle * (days / period - floor(days / period));
    out[0] = (float)sin(angle);
    out[1] = (float)cos(angle);
}

/* The trend first, then the circles from the slowest to the fastest. */
void fast__date_features(double days, bool clock, float *out)
{
    out[0] = (float)days;
    put_circle(days, 365.2425, out + 1);
    put_circle(days, 7, out + 3);
    if (clock)
        put_circle(days, 1, out + 5);
}
