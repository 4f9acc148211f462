/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fit of a link to measured times, and its cluster file. With t0 the time of the smallest
 * message, the time of m bytes one way is
 *
 *     t(m) = t0 + m S + [m > E] R         t0 = L + o
 *
 *     o  from a burst: time of one of many small messages in a row
 *     G  from the shortest time of 4 KiB, which a connection sends at once even where its window is
 *        small: the bandwidth of the ends, at least that of a connection
 *     S  by least squares of relative errors over all sizes; `stream` where 1 / S < 0.7 / G
 *     E  the gap between two sizes where a jump by R fits best; R is a round trip, 2 L, so a jump
 *        counts if R > 1.2 t0 and the squared errors fall by half
 *
 * A ping that is slower than the others by a retransmission timeout was lost in one of two
 * directions: loss = slow / (2 pings).
 */
#include "lab/cluster_fit.h"

#include <math.h>

const int64_t fast__fit_sizes[FAST_FIT_SIZES] = {
    1,         4 << 10,   12 << 10,  32 << 10,  48 << 10,   96 << 10,
    128 << 10, 192 << 10, 384 << 10, 768 << 10, 1536 << 10,
};

enum {
    SMALL = 1,    /* size whose shortest time gives the bandwidth of the ends */
    FIRST = 3,    /* first size of the fit of S */
    PACKET = 1448 /* bytes of data in a packet of TCP over Ethernet */
};

/* Least squares of t(m) - t0 = m S + [i > jump] R, weighted by 1 / t^2; jump -1: without R. Returns
 * the sum of squared relative errors. */
static double fit_jump(const fast_pair_times *p, int jump, double *s_out, double *r_out)
{
    double mm = 0, mj = 0, jj = 0, my = 0, jy = 0, errors = 0;

    for (int i = FIRST; i < FAST_FIT_SIZES && !isnan(p->median_s[i]); i++) {
        const double t = p->median_s[i], w = 1 / (t * t), m = (double)fast__fit_sizes[i];
        const double y = t - p->median_s[0], j = jump >= 0 && i > jump;
        mm += w * m * m;
        mj += w * m * j;
        jj += w * j * j;
        my += w * m * y;
        jy += w * j * y;
    }
    const double det = mm * jj - mj * mj;
    *r_out = det > 1e-9 * mm * jj ? fmax(0, (mm * jy - mj * my) / det) : 0;
    *s_out = mm > 0 ? fmax(0, (my - mj * *r_out) / mm) : 0;
    for (int i = FIRST; i < FAST_FIT_SIZES && !isnan(p->median_s[i]); i++) {
        const double t = p->median_s[i], m = (double)fast__fit_sizes[i];
        const double e = (t - p->median_s[0] - m * *s_out - (i > jump && jump >= 0) * *r_out) / t;
        errors += e * e;
    }
    return errors;
}

fast_link_fit fast__link_fit(const fast_pair_times *p)
{
    const double t0 = p->median_s[0];
    fast_link_fit fit = { .overhead_s = isnan(p->burst_s) ? 0 : fmin(fmax(p->burst_s, 0), t0) };
    double s = 0, r = 0;
    double least = fit_jump(p, -1, &s, &r);

    const double plain = least;
    for (int jump = FIRST - 1; jump < FAST_FIT_SIZES - 1 && !isnan(p->median_s[jump + 1]); jump++) {
        double s_jump = 0, r_jump = 0;
        const double errors = fit_jump(p, jump, &s_jump, &r_jump);
        if (errors < least && errors < 0.5 * plain && r_jump > 1.2 * t0) {
            least = errors;
            s = s_jump;
            fit.round_s = r_jump;
            fit.eager = jump;
        }
    }
    const double ends = (p->least_s[SMALL] - p->least_s[0]) / (double)fast__fit_sizes[SMALL];
    const double connection = s > 0 ? 1 / s : 0;
    fit.latency_s = t0 - fit.overhead_s;
    fit.bandwidth = ends > 0 ? fmax(1 / ends, connection) : connection;
    fit.stream = connection > 0 && connection < 0.7 * fit.bandwidth ? connection : 0;
    if (fit.stream == 0 && connection > 0)
        fit.bandwidth = connection;
    return fit;
}

double fast__fit_seconds(const fast_link_fit *fit, double bytes)
{
    const double rate = fit->stream > 0 ? fit->stream : fit->bandwidth;
    return fit->latency_s + fit->overhead_s + (rate > 0 ? bytes / rate : 0);
}

void fast__cluster_fit_loss(fast_cluster_fit *fit)
{
    double pings = 0, slow = 0, delay = 0;

    for (int64_t i = 0; i < fit->pair_count; i++) {
        pings += (double)fit->pairs[i].pings;
        slow += (double)fit->pairs[i].slow;
        delay += (double)fit->pairs[i].slow * fit->pairs[i].retry_s;
    }
    fit->loss = pings > 0 ? fmin(slow / (2 * pings), 0.99) : 0;
    fit->retry_s = slow > 0 ? delay / slow : 0;
}

/* Return the median of n numbers: the one with n / 2 others before it. */
static double median(const double *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t k = 0; k < n; k++)
            before += values[k] < values[i] || (values[k] == values[i] && k < i);
        if (before == n / 2)
            return values[i];
    }
    return 0;
}

/* Write the nodes: the median speed, and each node that differs by more than a tenth. */
static void write_nodes(const fast_cluster_fit *fit, FILE *out)
{
    const double speed = median(fit->speed, fit->nodes), memory = median(fit->memory, fit->nodes);
    bool head = false;

    fprintf(out, "nodes:\n  count: %lld\n  speed: %.4gGFLOP/s\n  memory: %.4gGB/s\n",
            (long long)fit->nodes, speed * 1e-9, memory * 1e-9);
    for (int64_t i = 0; i < fit->nodes; i++) {
        if (fabs(fit->speed[i] - speed) <= 0.1 * speed)
            continue;
        fprintf(out, "%s    - {nodes: %lld, speed: %.4gGFLOP/s}\n", head ? "" : "  overrides:\n",
                (long long)i, fit->speed[i] * 1e-9);
        head = true;
    }
}

/* Write the pairs whose times differ from those of the first pair by half. */
static void write_pairs(const fast_cluster_fit *fit, FILE *out)
{
    const fast_pair_times *first = &fit->pairs[0];
    bool head = false;

    for (int64_t k = 1; k < fit->pair_count; k++) {
        const fast_pair_times *p = &fit->pairs[k];
        const double small = p->median_s[0] / first->median_s[0];
        const double large = p->median_s[FAST_FIT_LARGE] / first->median_s[FAST_FIT_LARGE];
        if (small > 0.667 && small < 1.5 && !(large < 0.667) && !(large > 1.5))
            continue;
        const double latency = fmax(0, p->median_s[0] - fit->link.overhead_s);
        const double took = p->median_s[FAST_FIT_LARGE] - p->median_s[0];
        const double rate =
            took > 0 ? (double)fast__fit_sizes[FAST_FIT_LARGE] / took : fit->link.bandwidth;
        for (int back = 0; back < 2; back++)
            fprintf(out,
                    "%s    - {from: %lld, to: %lld, latency: %.3fus, bandwidth: %.6gMB/s, "
                    "stream: 0}\n",
                    head || back ? "" : "  overrides:\n", (long long)(back ? p->to : p->from),
                    (long long)(back ? p->from : p->to), latency * 1e6, rate * 1e-6);
        head = true;
    }
}

void fast__cluster_fit_write(const fast_cluster_fit *fit, FILE *out)
{
    const fast_link_fit *link = &fit->link;
    const fast_pair_times *first = &fit->pairs[0];

    fprintf(out, "# %s\n# one way, by bytes of the message:\n", fit->title);
    for (int i = 0; i < FAST_FIT_SIZES && !isnan(first->median_s[i]); i++)
        fprintf(out, "#   %8lld  %10.4g ms\n", (long long)fast__fit_sizes[i],
                first->median_s[i] * 1e3);
    write_nodes(fit, out);
    fprintf(out, "links:\n  latency: %.3fus\n  bandwidth: %.6gMB/s\n", link->latency_s * 1e6,
            link->bandwidth * 1e-6);
    if (link->stream > 0)
        fprintf(out, "  stream: %.6gMB/s\n", link->stream * 1e-6);
    if (link->overhead_s >= 1e-9)
        fprintf(out, "  overhead: %.3fus\n", link->overhead_s * 1e6);
    if (fit->eager > 0)
        fprintf(out, "  eager: %.0f\n", fit->eager);
    if (fit->loss > 0)
        fprintf(out, "  loss: %.3g%%\n  retry: %.3fms\n", 100 * fit->loss, fit->retry_s * 1e3);
    fprintf(out, "  packet: %d\n  contention: yes\n", PACKET);
    write_pairs(fit, out);
}
