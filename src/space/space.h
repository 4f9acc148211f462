/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/coded.h"
#include "space/space_lock.h"
#include "fast/strategy.h"
#include "transport/transport.h"

/*
 * Inside a space. An owner's ranges live in a store: memory that near actors share and use directly
 * (space_store.c). For far actors the owner's service does the same on their behalf when their
 * messages arrive (space_owner.c); they send and collect in space_far.c. space_open.c makes and
 * leaves a space, space.c has its operations.
 *
 *     near   get/put/add ---------------------------------> store
 *     far    get/put/add --> message --> owner's service --> store
 */
enum {
    FAST_SPACE_WINDOW = 4,         /* updates on their way from one actor to one owner */
    FAST_SPACE_SPINS = 1024,       /* tries of a lock before its actor sleeps: tens of
                                      microseconds, which is what a sleep and a wake-up cost */
    FAST_SPACE_SLICE = 32768,      /* floats of a slice */
    FAST_SPACE_NAME_MAX = 96,      /* bytes of a name with its end */
    FAST_SPACE_TENSORS_MAX = 4096, /* of a space */
};

/* One tensor's range at one owner; shared. Written under the lock unless it says otherwise. */
typedef struct fast_space_range {
    _Alignas(64) fast_space_lock lock; /* of the floats; who reads them holds it */
    _Atomic int64_t version;           /* updates applied; read by everyone */
    _Atomic int64_t gets;              /* counted by readers */
    _Atomic int64_t waited;            /* likewise */
    int64_t at;                        /* of its floats in the store; set by the owner's open */
    _Atomic int64_t applied;           /* updates, with puts */
    _Atomic int64_t rejected;          /* by the function at the owner */
    _Atomic int64_t staleness_sum;     /* over the adds that were applied */
    _Atomic int64_t staleness_max;     /* likewise */
} fast_space_range;

/* What a store knows of one actor; shared. */
typedef struct fast_space_slot {
    _Alignas(64) _Atomic uint64_t wants[2]; /* the lock that its program, its service sleeps for */
    _Atomic uint32_t member;                /* 0: never came; 2 (life + 1): is in; + 1: has left */
    _Atomic uint32_t armed;                 /* 1: wake it at the next change */
    _Atomic int64_t clock;                  /* rounds that it has finished */
    _Atomic int64_t updates;                /* that it made here: who has few is behind */
} fast_space_slot;

/* The head of a store; shared. */
typedef struct fast_space_head {
    _Atomic int state;       /* 0: its owner is not here yet; then FAST_SPACE_OPEN, _CLOSED */
    _Atomic int64_t waiting; /* slots that are armed */
    uint64_t signature;      /* of the owner's options; these are set before `state` */
    fast_space_fn *apply;    /* the owner's */
    void *ctx;               /* likewise */
} fast_space_head;
enum { FAST_SPACE_OPEN = 1, FAST_SPACE_CLOSED = 2 };

/* A store as one actor sees it. */
typedef struct fast_space_store {
    fast_space_head *head;    /* NULL: far */
    fast_space_slot *slots;   /* of all actors */
    fast_space_range *ranges; /* of all tensors, empty ones too */
    float *values;            /* of the ranges, each aligned to FAST_ALIGN */
    int64_t low;              /* the writer with the smallest clock when last looked, or -1 */
    int64_t clock;            /* its clock then */
    int64_t hope;             /* someone who may still change something, when last looked */
} fast_space_store;

/* An owner, as one actor sees it. */
typedef struct fast_space_owner {
    int64_t id;             /* its actor */
    fast_space_store store; /* where it is near */
    int64_t sent;           /* far: updates and ticks sent */
    int64_t acked;          /* far: of those, how many have been applied */
    int64_t asked;          /* far: the get that it has not answered; or 0 */
    int64_t came;           /* far: floats of that get, where it comes in slices */
    int64_t clock;          /* far: the space's, as last heard */
    bool leaving;           /* far: it was told that this actor leaves */
    bool left;              /* far: it knows that this actor left */
    bool gone;              /* far: it closed before this actor did */
    bool refused;           /* far: it opened the space otherwise */
    fast_msg *pushed;       /* far, eager: the newest values of tensor 0 that it sent; or NULL */
} fast_space_owner;

/* A get under way at far owners. */
typedef struct fast_space_get_state {
    int64_t id;           /* of this one, from 1: answers to others are dropped */
    int64_t tensor;       /* which */
    float *x;             /* where to */
    int64_t missing;      /* owners that have not answered */
    int64_t version;      /* smallest so far */
    int64_t clock;        /* likewise */
    bool never;           /* an owner says that it cannot be answered */
    bool sliced;          /* answers come in slices, the first floats first */
    fast_space_read read; /* sliced: what was wished for, and what near owners had */
    int64_t deadline;     /* likewise: of all of it */
} fast_space_get_state;

/* A watched tensor. */
typedef struct fast_space_watched {
    fast_space_watch_fn *watch; /* NULL: not watched */
    void *ctx;                  /* its */
    bool changed;               /* and it has not been called yet */
} fast_space_watched;

/* The last places of entries that went one way between two actors. */
typedef struct fast_space_places {
    uint32_t *list; /* as many as a range has floats, or NULL */
    int64_t count;  /* of them */
    uint64_t hash;  /* theirs */
} fast_space_places;

typedef struct fast_space_codec fast_space_codec; /* space_codec.c */
struct fast_space_service;                        /* space_owner.c */

struct fast_space {
    fast_task task;                 /* posted to the actor while the space is open */
    fast_actor *actor;              /* whose handle this is */
    char name[FAST_SPACE_NAME_MAX]; /* of the space */
    uint64_t key;                   /* of the name: 48 bits */
    uint64_t signature;             /* of the options that must be the same at everyone */
    int64_t tensor_count;           /* of tensors */
    int64_t *counts;                /* floats of each */
    char *names;                    /* of the tensors, FAST_SPACE_NAME_MAX bytes each */
    int64_t owner_count;            /* of owners */
    fast_space_owner *owners;       /* theirs */
    int64_t me;                     /* which owner this actor is; or -1 */
    bool whole;                     /* tensors are not cut */
    bool writer;                    /* this actor's clock counts */
    bool shared;                    /* its store is used by near actors */
    bool eager;                     /* the five are of fast_space_options */
    bool stalest;
    bool sparse;
    bool cache;
    bool follows;
    double operations;              /* of an update, for each float */
    double bytes;                   /* that it moves */
    struct fast_space_codec *codec; /* NULL: nothing is encoded */
    float *dense; /* sparse, layers: what the last update was, unpacked; or NULL */
    fast_space_places *places_sent; /* cache: [owners]; NULL until the first */
    fast_space_places *places_got;  /* cache, at an owner: [actors], likewise */
    fast_space_layer *layers;       /* that may be added to as factors; NULL: none */
    int64_t layer_count;            /* of them */
    const float *const *factors;    /* of the layers, while they are added; else NULL */
    const int64_t *rows;            /* of those */
    bool pieces;                    /* updates may come in pieces */
    int64_t **missing;           /* coded pieces: [owner][block] floats that have not been given */
    int64_t spent_ns;            /* on encodings of the pieces of this update, not yet charged */
    int64_t spent_floats;        /* that were encoded then */
    size_t spent_bytes;          /* that they became */
    bool ending;                 /* an update whose pieces were sent ends */
    float *back;                 /* where what is updated is got to in the same visit; or NULL */
    double composed;             /* operations of the last update's products */
    int64_t clock;               /* of this actor */
    int64_t writer_count;        /* of writers; like what follows, 0 where all owners are far */
    int64_t *writers;            /* whose clocks count */
    bool *expected;              /* of all actors: owners and writers */
    int64_t far_count;           /* of owners */
    int64_t first;               /* the owner that operations begin with; 0 where any is far */
    int64_t *read;               /* [owner][tensor]: the version that this actor last got */
    int64_t *told;               /* [owner][tensor]: the version that its watcher knows */
    fast_space_get_state get;    /* far */
    fast_space_watched *watched; /* of all tensors; NULL until the first */
    struct fast_space_service *service; /* for far actors, where this is an owner; or NULL */
    void *memory;                       /* the own store, where it is not shared; or NULL */
};

/* Where a tensor's range at an owner is; *count_out is 0 if it has none there. */
void fast__space_range(const fast_space *space, int64_t owner, int64_t tensor, int64_t *offset_out,
                       int64_t *count_out);
static inline int64_t *fast__space_at(const fast_space *space, int64_t *table, int64_t owner,
                                      int64_t tensor)
{
    return &table[owner * space->tensor_count + tensor];
}

/* Looks at a near store, and changes of it, come in turns where the run is recorded. A turn of an
 * update or of a copy holds the range's lock from begin to end, so that the lock is always free. */
static inline void fast__space_begin(fast_space *space, int64_t owner)
{
    fast_turn_begin(space->actor, space->key + (uint64_t)owner);
}
static inline void fast__space_end(fast_space *space)
{
    fast_turn_end(space->actor);
}

/* space_store.c: the memory. */

/* Bytes of owner `owner`'s store; false if they overflow. */
bool fast__space_store_size(const fast_space *space, int64_t owner, int64_t *size_out);
/* Find the pieces of a store in its memory; NULL: how far they are from its begin. */
void fast__space_store_map(const fast_space *space, void *memory, fast_space_store *store);
/* At an owner's open: initial values and the function; then others may come in. */
void fast__space_store_fill(fast_space *space, const fast_space_options *options);
/* The floats of a tensor's range at an owner. */
float *fast__space_values(const fast_space *space, int64_t owner, int64_t tensor);

/* Wait until the owner has opened its near store. FAST_EPEER if it left or ended, FAST_EINVAL if it
 * opened another space by that name, FAST_ETIMEDOUT. */
fast_err fast__space_ready(fast_space *space, int64_t owner, int64_t deadline);

/* Lock a range: wait for it; or try, and be woken when it may be free (for the service, which calls
 * again until it has it). */
fast_err fast__space_lock(fast_space *space, int64_t owner, int64_t tensor, bool write,
                          int64_t deadline);
bool fast__space_attempt(fast_space *space, int64_t owner, int64_t tensor, bool write, int who,
                         bool *queued);
void fast__space_give_up(fast_space *space, int64_t owner, int64_t tensor, bool write, int who);
void fast__space_unlock(fast_space *space, int64_t owner, int64_t tensor, bool write);
enum { FAST_SPACE_PROGRAM = 0, FAST_SPACE_SERVICE = 1 };

/* Apply an update to a range that is locked for writing: `put`, or add. update->x may be NULL: only
 * its size counts. */
void fast__space_apply(fast_space *space, int64_t owner, bool put, fast_space_update *update);
/* The time of an update of so many floats, put or added. */
fast_err fast__space_charge(fast_space *space, bool put, int64_t count);

/* The store changed: wake those that are armed. To be told, arm first and look then. */
void fast__space_changed(fast_space *space, fast_space_store *store);
void fast__space_arm(fast_space *space, fast_space_store *store);

/* True if every writer that is still in has finished `clock_min` rounds; *clock_out is the smallest
 * clock, or where nobody is left the largest ever, at least clock_min. */
bool fast__space_clock(fast_space *space, fast_space_store *store, int64_t clock_min,
                       int64_t *clock_out);
/* The writer, other than `reader`, that is furthest behind; or -1. */
int64_t fast__space_behind(fast_space *space, fast_space_store *store, int64_t reader);
/* An actor other than `reader` that is in the space or will come; or -1. */
int64_t fast__space_hope(fast_space *space, fast_space_store *store, int64_t reader);
/* An actor left an owner's store: it holds nobody back. */
void fast__space_left(fast_space *space, int64_t owner, int64_t id);

/* space_wire.c: messages. Requests go to owners, answers come back. */
typedef enum fast_space_kind {
    FAST_SPACE_HELLO = 1, /* request: signature, life */
    FAST_SPACE_PUT,       /* request: sequence, clock, version read; the range's floats */
    FAST_SPACE_ADD,       /* likewise */
    FAST_SPACE_PIECE,     /* request: offset, count; those floats of the next ADD, which has none */
    FAST_SPACE_TICK,      /* request: sequence, clock */
    FAST_SPACE_GET,       /* request: id, version_min, clock_min, sizes only */
    FAST_SPACE_WATCH,     /* request: tell me of versions past this, once */
    FAST_SPACE_ANNOUNCE,  /* request: an ADD to tensor 0 is on its way; others' reads wait for it */
    FAST_SPACE_LEAVE,     /* request: nothing comes after it */
    FAST_SPACE_ACK,       /* answer: sequence, version */
    FAST_SPACE_VALUE,     /* answer: id, version, clock; the range's floats */
    FAST_SPACE_SLICED,    /* answer: id, place in the range; those floats of the VALUE that follows,
                             which has none */
    FAST_SPACE_NOTIFY,    /* answer: 0, version, clock */
    FAST_SPACE_LEFT,      /* answer to LEAVE: nothing comes after it */
    FAST_SPACE_NEVER,     /* answer to GET: id; nobody is left who could */
    FAST_SPACE_GONE,      /* answer: the owner closes first */
    FAST_SPACE_REFUSED    /* answer to HELLO: another space, or a second time */
} fast_space_kind;
/* The places of a message's words. */
enum {
    FAST_SPACE_W_KIND,
    FAST_SPACE_W_TENSOR,
    FAST_SPACE_W_OWNER,
    FAST_SPACE_W_A,
    FAST_SPACE_W_B,
    FAST_SPACE_W_C
};

/* What a GET says besides, as declared bytes. */
enum {
    FAST_SPACE_SIZES = 1,  /* no floats are wanted */
    FAST_SPACE_WHOLE = 2,  /* no difference is wanted */
    FAST_SPACE_EITHER = 4, /* the version will do, or the clock */
    FAST_SPACE_SLICES = 8, /* the answer comes in slices */
};

uint64_t fast__space_tag(const fast_space *space, bool answer);
/* Send one without floats; or a prepared one. */
fast_err fast__space_tell(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                          int64_t owner, const int64_t words[3]);
fast_err fast__space_message(fast_space *space, fast_space_kind kind, int64_t tensor, int64_t owner,
                             const int64_t words[3], fast_msg **out);
/* The one place where floats become parts of a message, and back. x NULL: only the size travels.
 * Unpacking lends them; false if they are not `count` floats. */
fast_err fast__space_pack(fast_space *space, fast_msg *msg, const float *x, int64_t count);
bool fast__space_unpack(fast_space *space, const fast_msg *msg, int64_t count, const float **x_out);

/* space_entries.c: updates with many zeros. */

/* Elements whose bits are not all 0. */
int64_t fast__space_entries(const float *x, int64_t count);
fast_err fast__space_pack_entries(fast_space *space, fast_msg *msg, const float *x, int64_t count,
                                  int64_t entries);
/* The whole range, lent until the next; false if the parts make no sense. */
bool fast__space_unpack_entries(fast_space *space, const fast_msg *msg, int64_t count,
                                const float **x_out);
void fast__space_places_free(fast_space *space);

/* space_pieces.c: updates in pieces. */

/* Coded ones: what is missing of each block, and that all of it is. */
fast_err fast__space_pieces_new(fast_space *space);
void fast__space_pieces_free(fast_space *space);
void fast__space_pieces_reset(fast_space *space);
/* All pieces of an update have been given: charge for them. */
fast_err fast__space_pieces_end(fast_space *space);
/* At an owner: is this a piece of its range? Take it to the writer's copy of the range; *floats_out
 * is 0 if it makes no sense. */
bool fast__space_is_piece(const fast_space *space, const fast_msg *msg);
fast_err fast__space_take_piece(fast_space *space, const fast_msg *msg, float *stage,
                                int64_t *floats_out);

/* space_factors.c: updates whose layers are factors. */

/* Take the layers of the options; FAST_EINVAL for what cannot be. */
fast_err fast__space_layers_new(fast_space *space, const fast_space_options *options);
fast_err fast__space_pack_factors(fast_space *space, fast_msg *msg, int64_t owner, const float *x);
/* The whole range, multiplied out, lent until the next; false if the parts make no sense. */
bool fast__space_unpack_factors(fast_space *space, const fast_msg *msg, const float **x_out);

/* space_codec.c: the first tensor, where it travels encoded. */
typedef enum fast_space_way {
    FAST_SPACE_UP,   /* what is added */
    FAST_SPACE_DOWN, /* what is read */
    FAST_SPACE_WAYS
} fast_space_way;

/* Make, if the options name one; FAST_EINVAL for what cannot be. */
fast_err fast__space_codec_new(fast_space *space, const fast_space_options *options);
void fast__space_codec_free(fast_space *space);
bool fast__space_is_coded(const fast_space *space, fast_space_way way, int64_t tensor);
/* True if a tensor is read as differences to what the reader holds. */
bool fast__space_differs(const fast_space *space, int64_t tensor);
/* The coder of what is added to an owner's range, or NULL where that is empty, with its chain and
 * figures where those are asked for; and how far the run is, in epochs. */
fast_coder *fast__space_coder(const fast_space *space, int64_t owner, const fast_chain **chain_out,
                              fast_coded_figures **figures_out);
double fast__space_progress(const fast_space *space);
/* A range as bytes, in a frozen buffer; charged. Where it is read as differences, for one reader,
 * an actor, to whom it must be sent. */
fast_err fast__space_encode(fast_space *space, fast_space_way way, int64_t owner, int64_t reader,
                            const float *x, fast_buffer **out, size_t *size_out);
/* Owner, differences: an actor came anew, and holds nothing. */
void fast__space_forget(fast_space *space, int64_t reader);
/* What this writer still owes an owner's range, the residual of error feedback; NULL: none. */
const float *fast__space_owed(const fast_space *space, int64_t owner);
/* Reader, near, differences: hold nothing of an owner's range, so that all of it comes next. */
void fast__space_drop(fast_space *space, int64_t owner);
/* Reader, differences: take in what an owner sent, each message once and in its order; false if it
 * makes no sense. Not charged. */
bool fast__space_take(fast_space *space, int64_t owner, const void *in, size_t size);
/* What this reader holds of an owner's range; NULL: nothing yet. */
const float *fast__space_held(const fast_space *space, int64_t owner);
/* Back, to memory that lasts until the next; false if the bytes make no sense. Not charged: that
 * is fast__space_pay(). */
bool fast__space_decode(fast_space *space, fast_space_way way, int64_t owner, const void *in,
                        size_t size, const float **x_out);
fast_err fast__space_pay(fast_space *space, fast_space_way way, int64_t owner, size_t size);
/* Count there what codecs do; lent. Nothing where there are none. */
void fast__space_figures(fast_space *space, fast_coded_figures *figures);
/* What a near range becomes by it, likewise; charged. */
fast_err fast__space_recode(fast_space *space, fast_space_way way, int64_t owner, const float *x,
                            const float **out);

/* space_far.c: far owners. */
fast_err fast__far_update(fast_space *space, int64_t owner, fast_space_kind kind, int64_t tensor,
                          const float *x, int64_t deadline);
fast_err fast__far_get_start(fast_space *space, int64_t owner, const fast_space_read *read);
fast_err fast__far_get_wait(fast_space *space, int64_t deadline);
fast_err fast__far_get_need(fast_space *space, int64_t offset, int64_t count);
fast_err fast__far_watch(fast_space *space, int64_t owner, int64_t tensor);
fast_err fast__far_advance(fast_space *space); /* take answers */
fast_err fast__far_leave(fast_space *space);   /* tell all, and wait for their answers */

/* space_owner.c: the service of an owner. */
fast_err fast__service_new(fast_space *space);
void fast__service_free(fast_space *space);
fast_err fast__service_advance(fast_space *space);
void fast__service_touch(fast_space *space); /* the owner itself changed something */
int64_t fast__service_explain(fast_space *space, int64_t origin);
void fast__service_close(fast_space *space); /* tell those that are still in */
int64_t fast__service_refused(const fast_space *space);

/* Tell far owners, before what is added next to tensor 0, that it comes: where it is not all zeros,
 * gets of others wait until it has come, or until this actor is gone. space_far.c */
fast_err fast__space_announce(fast_space *space, const float *x);

/* A get of tensor 0 that comes in slices, the first floats first, to be used as they come: start,
 * wait for ranges, and end, which waits for all. No other get of the space meanwhile. Slices are
 * floats: FAST_EINVAL with codec_down. space.c */
fast_err fast__space_get_start(fast_space *space, float *x, const fast_space_read *read,
                               int64_t deadline);
fast_err fast__space_get_need(fast_space *space, int64_t offset, int64_t count);
fast_err fast__space_get_end(fast_space *space, fast_space_read *read);

/* What was read of a tensor of `leader`, cut alike, counts as read here: this is a copy of it. */
void fast__space_follow(fast_space *space, const fast_space *leader, int64_t tensor);

/* Call the watchers of what changed; never blocks. space.c */
void fast__space_told(fast_space *space);
/* For tests: free the handle as if the actor had ended without a word. */
void fast__space_abandon(fast_space *space);
