/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "serve/guard.h"

#include <microhttpd.h>

/* The inside of a request, shared by http.c and reply.c. */

/* A connection of a client's. */
typedef struct http_peer {
    struct http_peer *next; /* of the server's list */
    struct http_peer *prev; /* in the server's list */
    int fd;                 /* its socket, which libmicrohttpd owns */
    int64_t since;          /* when it opened, or its last request ended; nanoseconds */
    bool busy;              /* a whole request is being answered */
    bool known;             /* a request of it had the token */
    bool ended;             /* it was shut down to make room, and will close */
} http_peer;

/* A server. Everything is used by the thread of fast__http_wait() only. */
struct fast_http {
    struct MHD_Daemon *daemon;   /* libmicrohttpd's server */
    fast_guard guard;            /* the token and the port */
    fast_http_open_fn *open;     /* requests without the token; or NULL */
    fast_http_fn *handler;       /* answers */
    void *ctx;                   /* of the handler */
    int64_t patience;            /* nanoseconds until a request is whole */
    int64_t ticked;              /* when connections were looked at last */
    bool closing;                /* answers end */
    http_peer *peers;            /* all connections */
    fast_http_request *requests; /* all requests */
};

/* A request, from its first line to the end of its answer. libmicrohttpd's callbacks make it, fill
 * it in and free it. */
struct fast_http_request {
    fast_http *http;                   /* its server */
    fast_http_request *next;           /* of the server's list */
    fast_http_request *prev;           /* in the server's list */
    struct MHD_Connection *connection; /* NULL before its headers are read */
    http_peer *peer;                   /* its connection; NULL before its headers are read */
    char method[8];                    /* "POST"; cut if it is longer */
    fast_uri uri;                      /* the target */
    bool malformed;                    /* the target could not be parsed */
    bool begun;                        /* the headers were looked at */
    bool handled;                      /* the handler was called */
    bool left;                         /* its client has gone */
    bool suspended;                    /* libmicrohttpd leaves it alone */
    fast_http_access access;           /* who asks */
    char *body;                        /* of body_size bytes, and a zero byte; or NULL */
    size_t body_size;                  /* announced */
    size_t body_used;                  /* received */
    struct MHD_Response *response;     /* to be sent; NULL before and after */
    int status;                        /* of the response */
    fast_http_stream *stream;          /* that the response is made of; or NULL */
    fast_page piece;                   /* of the stream, being sent */
    size_t piece_at;                   /* bytes of it that were sent */
    void (*gone)(void *ctx);           /* of fast__request_later(); or NULL */
    void *gone_ctx;                    /* argument of gone() */
};

/* Take a request out of the event loop: it has nothing to send, and must not be asked. */
void fast__request_suspend(fast_http_request *request);
/* Put a request back into the event loop; allowed for one that is in it. */
void fast__request_resume(fast_http_request *request);
