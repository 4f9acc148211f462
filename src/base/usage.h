/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * How much of the machine this process and all processes have used so far, from /proc. Only for
 * people who look at a run: no result depends on it.
 */
typedef struct fast_usage {
    double cpu_s;         /* of this process, all threads; NAN: unknown, as the next */
    double machine_cpu_s; /* of all processors while they were not idle */
    int64_t memory;       /* bytes of this process that are resident; -1: unknown, as the next 2 */
    int64_t received;     /* bytes by all network interfaces but loopback */
    int64_t sent;         /* bytes by all network interfaces but loopback */
} fast_usage;

/* Read the counters. Three small files, about 50 microseconds; one that cannot be read leaves its
 * values unknown. [any thread] */
void fast__usage_read(fast_usage *out);

/* Parse the texts of /proc/self/stat, /proc/self/statm, /proc/stat and /proc/net/dev into their
 * values, `ticks` a second. Anything else leaves them unknown. */
void fast__usage_process(const char *text, double ticks, fast_usage *out);
void fast__usage_memory(const char *text, int64_t page_size, fast_usage *out);
void fast__usage_machine(const char *text, double ticks, fast_usage *out);
void fast__usage_network(const char *text, fast_usage *out);
