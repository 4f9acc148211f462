/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of builds without libmicrohttpd: every call says what is missing. This file is
 * compiled instead of the others of this folder.
 */
#include "fast/serve.h"

#include "base/err.h"

/* Nothing here looks at its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* The one error of a build without a server. Its text names the libraries and the switches, so that
 * a user knows how to get one. */
static fast_err missing(void)
{
    return fast__fail(FAST_ENOTSUP, "no server in this build: libmicrohttpd was missing; install "
                                    "libmicrohttpd-dev and configure again");
}

fast_err fast_server_open(const fast_server_options *options, fast_server **out)
{
    return missing();
}

const char *fast_server_url(const fast_server *server)
{
    return "";
}

int64_t fast_server_port(const fast_server *server)
{
    return 0;
}

bool fast_server_has_pages(void)
{
    return false;
}

fast_err fast_server_run(fast_server *server)
{
    return missing();
}

void fast_server_stop(fast_server *server)
{
}

void fast_server_close(fast_server *server)
{
}

fast_err fast_exporter_open(const fast_run *run, int64_t port, fast_exporter **out)
{
    return missing();
}

int64_t fast_exporter_port(const fast_exporter *exporter)
{
    return 0;
}

void fast_exporter_update(fast_exporter *exporter, const fast_result *result)
{
}

void fast_exporter_close(fast_exporter *exporter)
{
}
