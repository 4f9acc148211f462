/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * serve.h - the dashboard's server, `fast ui`, and an exporter for Prometheus. The rules of fast.h
 * hold. Both listen on 127.0.0.1 unless told otherwise; docs/serve.md describes the requests and
 * who may send them.
 */

#include "fast/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A server over a store of runs. */
typedef struct fast_server fast_server;

/* Options of runs under a title, for forms. */
typedef struct fast_option_group {
    const char *title; /* "How to learn" */
    const char *names; /* "|batch|lr|"; NULL in the last one: all others */
} fast_option_group;

/* Options of a server; zero means default. */
typedef struct fast_server_options {
    size_t size;                     /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *store;               /* its path; NULL: the user's, as fast_store_path() says */
    int64_t port;                    /* 0: a free one */
    const char *program;             /* the program `fast` that trains; NULL: starts no runs */
    bool open_metrics;               /* /metrics needs no token */
    const fast_option_group *groups; /* of the options of a run; borrowed; may be NULL */
    bool free_port;                  /* take a free port if `port` is taken */
    const char *host;                /* IPv4 address to listen on; NULL: 127.0.0.1 */
    const char *origin;              /* address that browsers open, behind a proxy or by name:
                                        "https://fast.example.org"; NULL: the host's */
    const char *cert;                /* path of a PEM certificate, for https; NULL: http */
    const char *key;                 /* path of its private key */
    bool insecure;                   /* allow a host of the network without TLS */
    bool read_only;                  /* start, stop, tag and delete nothing */
    bool new_token;                  /* replace the token of the store */
} fast_server_options;

/* Listen, and open the store, which is created if it does not exist. FAST_EIO: the port is taken,
 * or the store or a file of PEM cannot be opened. FAST_EINVAL: a host of the network without TLS,
 * or an origin that is no address. FAST_ENOTSUP: this build has no libmicrohttpd or no SQLite. */
FAST_API FAST_MUST_CHECK fast_err fast_server_open(const fast_server_options *options,
                                                   fast_server **out);

/* Return the address to open, with the token, which is stored in a file beside the store and stays
 * the same. Lent until close. */
FAST_API const char *fast_server_url(const fast_server *server);

/* Return the port that it listens on. */
FAST_API int64_t fast_server_port(const fast_server *server);

/* Return true if this build has the dashboard's pages, which npm makes. */
FAST_API bool fast_server_has_pages(void);

/* Answer requests until fast_server_stop() is called. Runs that it started outlive it. */
FAST_API FAST_MUST_CHECK fast_err fast_server_run(fast_server *server);
FAST_API void fast_server_stop(fast_server *server);  /* [any thread, and signal handlers] */
FAST_API void fast_server_close(fast_server *server); /* NULL is allowed */

/* Serves the measures of one run as OpenMetrics text at /metrics, on a thread of its own. */
typedef struct fast_exporter fast_exporter;

/* Listen on 127.0.0.1, for any local program; port 0: a free one. Reads the run's options here
 * only. FAST_EIO: the port is taken. FAST_ENOTSUP as above. */
FAST_API FAST_MUST_CHECK fast_err fast_exporter_open(const fast_run *run, int64_t port,
                                                     fast_exporter **out);
FAST_API int64_t fast_exporter_port(const fast_exporter *exporter);
/* Publish new measures: call it from the callback of fast_run_watch(), and at the end. */
FAST_API void fast_exporter_update(fast_exporter *exporter, const fast_result *result);
FAST_API void fast_exporter_close(fast_exporter *exporter); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
