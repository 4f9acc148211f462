/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "transport/transport.h"

/*
 * The conformance suite of transports. A case is a run of actors that check what they see: an
 * actor that sees something wrong returns an error, which the run passes on. So a case works in any
 * number of processes, each of which hosts some of the actors and sees their errors.
 */

/* The transport and actors of a case. */
typedef struct suite {
    const char *transport; /* name */
    bool check;            /* wrapped in `check` */
    bool alone;            /* this process hosts all actors */
    int64_t count;         /* of actors: SUITE_ACTORS, or 2 for the cases that can do with a pair */
} suite;

typedef struct suite_case {
    const char *name;                 /* of what it shows */
    fast_err (*run)(const suite *on); /* FAST_OK, or what went wrong in the detail */
    bool pair; /* it works with two actors too, which may have ways of their own */
} suite_case;

/* The lists of cases, each ended by a row without a name. */
extern const suite_case suite_messages[];
extern const suite_case suite_buffers[];
extern const suite_case suite_waits[];
extern const suite_case suite_members[];
extern const suite_case suite_compute[];

/* How many actors most cases have: they work with any number of ranks up to it. */
enum { SUITE_ACTORS = 4 };

/* Run `count` actors of the role "worker"; `option` is one more, or NULL. */
fast_err suite_run(const suite *on, fast_actor_fn *main, void *ctx, int64_t count,
                   const char *option, fast_actors_result *result_out);
/* The same with roles. */
fast_err suite_run_roles(const suite *on, const fast_role *roles, int64_t role_count,
                         const char *option, fast_actors_result *result_out);

/* FAST_EINVAL, with the condition and the line, if it does not hold. */
#define EXPECT(condition) suite_expect((condition), #condition, __FILE__, __LINE__)
fast_err suite_expect(bool holds, const char *condition, const char *file, int line);
/* The same for a call that must end with one code. */
#define EXPECT_ERR(call, code) suite_expect_err((call), (code), #call, __FILE__, __LINE__)
fast_err suite_expect_err(fast_err err, fast_err code, const char *call, const char *file,
                          int line);

/* Send a message of six words, of which the first is given; and one with a part of `size` bytes
 * that depend on `seed`. */
fast_err suite_send(fast_actor *actor, int64_t to, uint64_t tag, int64_t word);
fast_err suite_send_bytes(fast_actor *actor, int64_t to, uint64_t tag, int64_t word, size_t size);
/* Receive one within a minute, and free it: its first word must be this one. */
fast_err suite_receive(fast_actor *actor, int64_t from, uint64_t tag, int64_t word);
/* The part of suite_send_bytes() is as it was sent. */
fast_err suite_check_bytes(const fast_msg *msg, int64_t word, size_t size);
/* Wait until all actors are here, by messages to actor 0 and back. */
fast_err suite_barrier(fast_actor *actor);

/* A time that is late enough for anything to have happened. */
int64_t suite_late(fast_actor *actor);
