/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * fast.h - the rules, errors and options that all public headers share. Training and embedding are
 * in run.h; networks, data sets and operators of your own are in plugin.h.
 *
 * These rules hold for every public function; exceptions are stated where they occur.
 *
 *   Errors     A function that can fail returns fast_err: FAST_OK is 0, errors are negative.
 *              A failed call writes no out-parameter and leaves its handle as it was.
 *              fast_error_detail() says in one line why the last call on this thread failed.
 *   Ownership  Pointers are borrowed for the duration of the call. A `T **move` parameter
 *              takes the object and sets *move to NULL, also when the call fails.
 *              A `T **out` parameter gives the caller an object to close or free.
 *   Lifetime   A returned `const char *`, table or view lives as long as the handle that it
 *              came from; without a handle, as long as the program.
 *   Threads    One handle, one thread at a time. Functions marked [any thread] are exempt.
 *   Units      Sizes are bytes (size_t), counts are elements (int64_t), times are nanoseconds
 *              (int64_t) unless the name ends in another unit. Options are text, as typed.
 *   Sizes      A struct that the caller fills begins with `size_t size`: its bytes as the caller
 *              was compiled, or 0 for sizeof in this library. A size that the library does not
 *              know is refused with FAST_EINVAL, so set it where header and library may differ:
 *              in bindings and plug-ins. Rows of arrays (options, tensors, roles) and structs
 *              that the library fills have none.
 *   Output     The library never exits and never prints; it logs through fast_log_set().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAST_API        __attribute__((visibility("default")))
#define FAST_MUST_CHECK __attribute__((warn_unused_result))

#define FAST_VERSION_MAJOR 0
#define FAST_VERSION_MINOR 1
#define FAST_VERSION_PATCH 0

/* The version of the library that is running, as "0.1.0". [any thread] */
FAST_API const char *fast_version(void);

/* One table gives the codes, their texts and the bindings' exceptions. */
#define FAST_ERR_MAP(X)                           \
    X(ENOMEM, -1, "out of memory")                \
    X(EINVAL, -2, "invalid argument")             \
    X(ENOTSUP, -3, "not supported by this build") \
    X(ETIMEDOUT, -4, "timed out")                 \
    X(EPEER, -5, "a peer failed or left")         \
    X(ECANCELED, -6, "canceled")                  \
    X(EIO, -7, "input/output error")              \
    X(EFORMAT, -8, "malformed message or file")   \
    X(ENOENT, -9, "no such file")

typedef enum fast_err {
    FAST_OK = 0,
#define X(name, code, text) FAST_##name = code,
    FAST_ERR_MAP(X)
#undef X
} fast_err;

FAST_API const char *fast_err_name(fast_err err); /* "ETIMEDOUT"; [any thread] */
FAST_API const char *fast_err_text(fast_err err); /* "timed out"; [any thread] */
FAST_API const char *fast_error_detail(void);     /* one line: why the last call failed */

/* Levels below FAST_LOG_WARN are for diagnosis only. */
typedef enum fast_log_level { FAST_LOG_DEBUG, FAST_LOG_INFO, FAST_LOG_WARN } fast_log_level;

/* Called with one line, without a line feed; may be called from any thread, never two at once. */
typedef void fast_log_fn(void *ctx, fast_log_level level, const char *line);

/* Where log lines go; NULL (the default) drops them. Call it before anything else. */
FAST_API void fast_log_set(fast_log_fn *log, void *ctx);

/*
 * Options. Every part of FAST publishes one table of its options. Parsing, `--help`, the man page,
 * completion and docs/options.md are generated from that table. Values are text; a part with
 * options is written name:key=value,key=value.
 */
typedef enum fast_option_type {
    FAST_OPTION_BOOL,  /* yes or no */
    FAST_OPTION_INT,   /* a whole number; k, M, G multiply by powers of 1000, Ki, Mi, Gi of 1024 */
    FAST_OPTION_REAL,  /* a number */
    FAST_OPTION_TEXT,  /* any text */
    FAST_OPTION_CHOICE /* one of `choices`; the field is its index */
} fast_option_type;

/* One option of a part: a row of its table. */
typedef struct fast_option {
    const char *name;      /* lower_snake; a flag writes it with hyphens */
    const char *standard;  /* the default, as the user would write it */
    const char *help;      /* one line, no full stop */
    fast_option_type type; /* type of the field */
    size_t offset;         /* offset of the field in the part's configuration struct */
    size_t size;           /* TEXT: bytes of the field */
    double min;            /* INT, REAL: smallest valid value */
    double max;            /* INT, REAL: largest valid value; no limits if min == max */
    const char *choices;   /* CHOICE: "a|b|c"; TEXT: kind of part it names, "file", or NULL */
    const char *former;    /* name in the version before, which still works with a note; or NULL */
} fast_option;

/*
 * Options of a part that do not go together, as data: refusals before a run and the manual are both
 * made from one table, which ends with a row whose `when` is NULL.
 *
 * A term names an option of the part: `backup` holds where the option differs from its default,
 * `slack=0` where it has that value, `slack!=0` where it has another one. Terms joined by `&` must
 * all hold; of terms joined by `|` one is enough.
 */
typedef struct fast_exclusion {
    const char *when;     /* terms joined by `&` that make the row apply */
    const char *excludes; /* terms joined by `|` that must not hold in that case; NULL: see needs */
    const char *needs;    /* terms joined by `|` of which one must hold in that case; or NULL */
    const char *why;      /* the reason, a clause without a full stop */
} fast_exclusion;

/* A part that a user can choose by name. */
typedef struct fast_part {
    const char *name;                 /* as it is typed */
    const char *summary;              /* one line, no full stop */
    const fast_option *options;       /* ends with a row whose name is NULL; may be NULL */
    const fast_exclusion *exclusions; /* options of the table that do not go together; or NULL */
} fast_part;

/* List the parts of a kind: "train" (one part: the options of a run), "model", "data", "layer",
 * "optimizer", "schedule", "engine", "strategy", "system", "topology", "transport", "actors" (one
 * part: the options of fast_actors_run()). Any other kind sets *count_out to 0 and returns NULL.
 * [any thread] */
FAST_API const fast_part *fast_part_list(const char *kind, int64_t *count_out);

/* Quote a word so that a POSIX shell reads it back: it's -> 'it'\''s'; harmless words stay as they
 * are. Writes at most `size` bytes, the last one 0, and returns the length of the whole result, as
 * snprintf() does. `out` may be NULL if `size` is 0. [any thread] */
FAST_API size_t fast_text_quote(const char *word, char *out, size_t size);

/* Copy a text as valid UTF-8: each byte that belongs to no character becomes U+FFFD. Writes and
 * returns as fast_text_quote() does, but never a part of a character. [any thread] */
FAST_API size_t fast_text_utf8(const char *text, char *out, size_t size);

/* Return the name closest to `name` of `count` names, given by name_at(ctx, i), for "did you mean";
 * NULL if none is close. Hyphens equal underscores. [any thread] */
FAST_API const char *fast_text_nearest(const char *name,
                                       const char *(*name_at)(const void *ctx, int64_t i),
                                       const void *ctx, int64_t count);

#ifdef __cplusplus
}
#endif
