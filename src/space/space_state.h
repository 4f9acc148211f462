/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space.h"
#include "space/space_lock.h"
#include "transport/transport.h"

/*
 * The parts of a space as one actor sees it, and the operation that all of its files work on.
 *
 *   fast_space
 *     map       which owner has which range of which tensor     set at open
 *     clocks    this actor's clock, versions that it has read   its own
 *     reader    the get under way, watchers                     its own
 *     owned     an owner's memory and its service               its own; the store is shared
 *     codec, sparse, factors, pieces                            state of the forms (space_form.h)
 */
enum {
    FAST_SPACE_WINDOW = 4,         /* updates in flight from one actor to one owner */
    FAST_SPACE_SPINS = 1024,       /* tries of a lock before its actor sleeps: tens of
                                      microseconds, the cost of a sleep and a wake-up */
    FAST_SPACE_SLICE = 32768,      /* floats of a slice */
    FAST_SPACE_NAME_MAX = 96,      /* bytes of a name with its terminating 0 */
    FAST_SPACE_TENSORS_MAX = 4096, /* tensors of a space */
    FAST_SPACE_LOCKS = 32,         /* pieces of a range that are locked one by one in visits */
};

/* Kinds of messages (space_wire.c has their words) and of operations. Requests go to owners,
 * answers come from them. */
typedef enum fast_space_kind {
    FAST_SPACE_SERVE = 0, /* no message: an owner that answers until all others have left */
    FAST_SPACE_HELLO,     /* request: signature, life, clock to start with */
    FAST_SPACE_PUT,       /* request: sequence, clock, version read; the range's values */
    FAST_SPACE_ADD,       /* request: sequence, clock, version read; the range's values */
    FAST_SPACE_PIECE,     /* request: offset, count; those floats of the next ADD, which has none */
    FAST_SPACE_TICK,      /* request: sequence, clock */
    FAST_SPACE_GET,       /* request: id, version_min, clock_min; flags as declared bytes. With
                             GROUP instead of version_min: first writer * 2^32 + their number */
    FAST_SPACE_WATCH,     /* request: notify this actor once, of a version past this one */
    FAST_SPACE_ANNOUNCE,  /* request: an ADD to tensor 0 follows; other actors' gets wait for it */
    FAST_SPACE_ORDER,     /* request: sliced answers to this actor come in this order */
    FAST_SPACE_LEAVE,     /* request: the last one of this actor */
    FAST_SPACE_JOIN,      /* between copies: number of this join; the sender has no state, and is
                             to be the last */
    FAST_SPACE_REJOIN,    /* between copies: the receiver was taken for lost, and is to join */
    FAST_SPACE_STATE,     /* between copies: the sender's state, which the receiver is to continue
                             from */
    FAST_SPACE_ACK,       /* answer: sequence, version */
    FAST_SPACE_VALUE,     /* answer: id, version, clock; the range's values. Unasked: instead of the
                             id, minus the receiver's updates and ticks that they hold */
    FAST_SPACE_SLICED,    /* answer: id, offset in the range; those floats of the VALUE that
                             follows, which has none */
    FAST_SPACE_NOTIFY,    /* answer: 0, version, clock */
    FAST_SPACE_LEFT,      /* answer to LEAVE: the last one to this actor */
    FAST_SPACE_NEVER,     /* answer to GET: id; no actor is left that could bring the version */
    FAST_SPACE_GONE,      /* answer: the owner closes first */
    FAST_SPACE_REFUSED,   /* answer to HELLO: another space, or opened a second time */
    FAST_SPACE_ROLE,      /* answer of the copy that is now the first or last: updates and ticks of
                             the receiver that it has, 1 + the receiver's life that it knows, 1
                             if it is the first */
    FAST_SPACE_KINDS      /* number of kinds */
} fast_space_kind;

/* Flags of an operation. The first five travel with a GET, as declared bytes: their number is the
 * sum of the flags. */
enum {
    FAST_SPACE_SIZES = 1,   /* GET: no values are wanted */
    FAST_SPACE_WHOLE = 2,   /* GET: values, not differences to those that the reader holds */
    FAST_SPACE_EITHER = 4,  /* GET: the version or the clock suffices */
    FAST_SPACE_SLICES = 8,  /* GET: the answer comes in slices */
    FAST_SPACE_GROUP = 16,  /* GET: clock_min is about a group of writers */
    FAST_SPACE_ENDS = 32,   /* ADD: its values were sent in pieces */
    FAST_SPACE_WAITED = 64, /* GET at an owner: it has been counted as one that had to wait */
    FAST_SPACE_PARTIAL = 1  /* VALUE, as declared bytes: some elements are held back, and version
                               and clock are those that all elements have */
};

/* Factors that an ADD may give instead of the values of layers. */
typedef struct fast_space_factored {
    const float *const *values; /* [layer]: rows of u, then rows of v */
    const int64_t *rows;        /* [layer]: number of rows of each */
} fast_space_factored;

/*
 * One operation on a space: on a tensor, or some ranges of it, where an actor asks for it, on one
 * range (owner, offset, count) where it is executed. A caller fills kind, tensor, ranges, values
 * and conditions; fast__space_execute() fills the rest. At an owner a request becomes the operation
 * of the actor that sent it.
 */
typedef struct fast_space_operation {
    fast_space_kind kind; /* FAST_SPACE_GET, _PUT, _ADD, _TICK, _SERVE; of an answer: _VALUE */
    unsigned flags;       /* FAST_SPACE_SIZES, ... */
    int64_t tensor;       /* number of the tensor */
    int64_t owner;        /* range: number of its owner in the space */
    int64_t offset;       /* range: its first float in the tensor */
    int64_t count;        /* range: its floats */
    int64_t range;        /* tensor: first owner that it is about */
    int64_t range_count;  /* tensor: number of those owners; 0: all */
    int64_t from;         /* actor that asked for the operation; of a VALUE: its receiver */
    int64_t id;           /* GET: number that its answers repeat, from 1; 0: a watcher's */
    int64_t clock;        /* PUT, ADD, TICK: rounds that `from` has finished */
    int64_t version_read; /* PUT, ADD: version of the range that `from` last got */
    int64_t version_min;  /* GET: updates that must have been applied */
    int64_t clock_min;    /* GET: rounds that every writer must have finished */
    int64_t group;        /* GET with GROUP: first of those writers, by its place among all */
    int64_t group_count;  /* GET with GROUP: number of those writers */
    const float *x;       /* PUT, ADD: values of the tensor or range; NULL: only sizes travel */
    int64_t entries;      /* ADD in a sparse space: elements of x that are not +0 */
    float *result;        /* GET: where values go; ADD: where the values after it go; or NULL */
    const fast_space_factored *factors; /* ADD: factors of the layers; NULL: x has their values */
    int64_t deadline;                   /* as a time, in ns of the actor's clock */
    const struct fast_space_form *form; /* out: form that the values arrived in (space_form.h) */
    double work;                        /* out: operations that unpacking took, to be charged */
    int64_t version_seen;               /* out: smallest version over the ranges that a GET read */
    int64_t clock_seen; /* out: smallest clock over the owners that a GET read from */
} fast_space_operation;

/* One tensor's range at one owner; shared. Written under the lock unless it says otherwise. */
typedef struct fast_space_range {
    _Alignas(64) fast_space_lock lock; /* guards the floats, also against writers of a copy */
    _Atomic int64_t version;           /* updates applied; read without the lock */
    _Atomic int64_t gets;              /* gets; counted by readers */
    _Atomic int64_t waited;            /* gets that had to wait; counted by readers */
    int64_t at;                        /* its first float in the store; set by the owner's open */
    _Atomic int64_t applied;           /* updates and puts */
    _Atomic int64_t rejected;          /* updates that the owner's function rejected */
    _Atomic int64_t staleness_sum;     /* sum of the staleness of applied adds */
    _Atomic int64_t staleness_max;     /* largest staleness of an applied add */
    atomic_uint starting;              /* lock of the start of a visit (space_visit.c) */
    /* Locks of pieces: visits change floats under these and the lock, held as a reader. */
    _Alignas(64) atomic_uint pieces[FAST_SPACE_LOCKS];
} fast_space_range;

/* One actor's entry in a store; shared. */
typedef struct fast_space_slot {
    _Alignas(64) _Atomic uint64_t wants[2]; /* lock that its program, its service sleeps for */
    _Atomic uint32_t member; /* 0: never joined; 2 (life + 1): is in; that + 1: has left */
    _Atomic uint32_t armed;  /* 1: wake it at the next change */
    _Atomic int64_t clock;   /* rounds that it has finished */
    _Atomic int64_t updates; /* updates that it made here: the writer with fewest is behind */
} fast_space_slot;

/* The head of a store; shared. */
typedef struct fast_space_head {
    _Atomic int state;       /* 0: not open yet, FAST_SPACE_OPEN, FAST_SPACE_CLOSED */
    _Atomic int64_t waiting; /* slots that are armed */
    uint64_t signature;      /* of the owner's options; set before `state`, like the next two */
    fast_space_fn *apply;    /* the owner's function; NULL: w += x */
    void *ctx;               /* first argument of `apply` */
    bool apply_on_device;    /* `apply` takes vectors of any device */
    float *values;           /* of the ranges, on another device than the host; or NULL */
} fast_space_head;
enum { FAST_SPACE_OPEN = 1, FAST_SPACE_CLOSED = 2 };

/* A store as one actor sees it. */
typedef struct fast_space_store {
    fast_space_head *head;    /* NULL: the owner is remote */
    fast_space_slot *slots;   /* [actors] */
    fast_space_range *ranges; /* [tensors], empty ranges too */
    float *values;            /* of the ranges, each aligned to FAST_ALIGN, on the host */
    int64_t slowest;          /* index of the writer with the smallest clock when last searched;
                                 -1: never searched */
    int64_t clock;            /* that writer's clock */
    int64_t active;           /* an actor that could still change something when last searched;
                                 -1: none was found */
} fast_space_store;

/* An owner, as one actor sees it. The fields after the store are of remote owners. */
typedef struct fast_space_owner {
    int64_t id;             /* its actor */
    fast_space_store store; /* its memory, if it is local */
    int64_t base;     /* value of `sent` when a snapshot was restored: messages count from it */
    int64_t sent;     /* updates and ticks sent */
    int64_t acked;    /* updates and ticks that it has applied */
    int64_t seen;     /* updates and ticks that the values last read of tensor 0 hold */
    int64_t complete; /* where differences are read: updates and ticks that all held values have */
    int64_t asked_after;      /* updates and ticks sent before the last get of tensor 0 */
    int64_t ticked;           /* rounds that this actor has finished on its ranges */
    fast_space_operation get; /* the get of its range that it was asked for last */
    int64_t asked;            /* id of that get, if it has not been answered; or 0 */
    bool never;               /* it says that the get cannot be answered */
    int64_t received;         /* floats of that get that have arrived in slices */
    int64_t clock;            /* clock of the space when it last notified this actor */
    bool leaving;             /* LEAVE was sent */
    bool left;                /* LEFT has arrived */
    bool gone;                /* it closed before this actor did */
    bool refused;             /* it opened the space with other options */
    fast_msg *pushed;         /* eager: newest values of tensor 0 that it sent; or NULL */
    fast_msg *ready;          /* announce: the add that is to be sent; or NULL */
} fast_space_owner;

/* Which owner has which range of which tensor. */
typedef struct fast_space_map {
    int64_t tensor_count;     /* number of tensors */
    int64_t *counts;          /* [tensor_count]: floats of each tensor */
    char *names;              /* [tensor_count]: names, FAST_SPACE_NAME_MAX bytes each */
    int64_t owner_count;      /* number of owners */
    fast_space_owner *owners; /* [owner_count] */
    int64_t me;               /* this actor's number among the owners; or -1 */
    int64_t remote_count;     /* owners that do not share this actor's memory */
    int64_t first;            /* owner that operations start with */
    bool causal;              /* updates wait for their acknowledgements */
    bool whole;               /* tensors are not cut: tensor i lives at owner i mod owner_count */
    double *ends;             /* [owner_count]: where ranges end; NULL: they are equal */
} fast_space_map;

/* Clocks and versions. */
typedef struct fast_space_clocks {
    int64_t own;          /* rounds that this actor has finished */
    int64_t rank;         /* this actor's place among the writers; -1: its clock does not count */
    int64_t writer_count; /* number of writers */
    int64_t *writers;     /* [writer_count]: actors whose clocks count; NULL if all owners are
                             remote, like the next two */
    bool *expected;       /* [actors]: owners and writers, which join if they have not yet */
    bool *excused;        /* [actors]: writers that were away and have not caught up yet: nobody
                             waits for their clocks */
    int64_t *read;        /* [owner][tensor]: version that this actor last got */
    int64_t *told;        /* [owner][tensor]: version that this actor's watcher knows */
} fast_space_clocks;

/* A watched tensor. */
typedef struct fast_space_watched {
    fast_space_watch_fn *watch; /* NULL: not watched */
    void *ctx;                  /* first argument of `watch` */
    bool changed;               /* the tensor changed and `watch` has not been called */
} fast_space_watched;

/* The order of sliced answers (space_order.c). */
typedef struct fast_space_order {
    fast_space_stretch *list; /* ranges of the first tensor, all of it; NULL: as they lie in it */
    int64_t count;            /* length of list */
} fast_space_order;

/* A reader's side. */
typedef struct fast_space_reader {
    fast_space_operation get;       /* the get under way; answers to older ids are dropped */
    int64_t ids;                    /* id of the last get, of a task or not */
    int64_t missing;                /* remote owners that have not answered it */
    bool peeks;                     /* the get under way does not count as a read */
    int64_t newest;                 /* largest version over the ranges of the get under way */
    fast_space_order order;         /* of slices */
    bool eager;                     /* owners send new values of tensor 0 unasked */
    fast_space_arrival_fn *arrival; /* called when some elements of tensor 0 arrive; or NULL */
    void *arrival_ctx;              /* first argument of `arrival` */
    fast_space_watched *watched;    /* [tensors]; NULL until the first is watched */
} fast_space_reader;

struct fast_space_service; /* space_owner.c */
struct fast_space_tasks;   /* space_task.c */

/* An owner's side. */
typedef struct fast_space_owned {
    struct fast_space_service *service; /* for remote actors; NULL: all are local */
    void *memory;                       /* the store, where it is not shared; or NULL */
    bool shared;                        /* local actors use the store */
    bool stalest;                       /* requests of the smallest clock are handled first */
    bool follows;                       /* updates may name versions that it has not reached */
    bool gathers;                       /* it answers when all requests of an instant are there */
    double operations;                  /* of an update, for each float */
    double bytes;                       /* that an update moves, for each float */
} fast_space_owned;

/* The last list of places that one actor sent to another in the sparse form. */
typedef struct fast_space_places {
    uint32_t *list; /* as many as a range has floats, or NULL */
    int64_t count;  /* number of places */
    uint64_t hash;  /* of the list */
} fast_space_places;

/* State of the sparse form. */
typedef struct fast_space_sparse {
    bool enabled;                /* updates with many zeros travel without them */
    bool cache;                  /* lists of places are not sent twice in succession */
    fast_space_places *sent;     /* cache: [owners]; NULL until the first list */
    fast_space_places *received; /* cache, at an owner: [actors]; NULL until the first list */
    struct fast_space_staging *staging; /* stages over both parts; NULL: parts are not packed */
} fast_space_sparse;

/* State of the factored form. */
typedef struct fast_space_layers {
    fast_space_layer *list; /* layers that may be added to as factors; NULL: none */
    int64_t count;          /* number of layers */
} fast_space_layers;

/* State of updates that travel in pieces. */
typedef struct fast_space_pieces {
    bool enabled;      /* updates may come in pieces */
    int64_t **missing; /* with a codec: [owner][block] floats that have not been given; or NULL */
    int64_t spent_ns;  /* time of this update's encodings, not yet charged */
    int64_t spent_floats; /* floats that were encoded in it */
    size_t spent_bytes;   /* bytes of their encodings */
} fast_space_pieces;

enum { FAST_SPACE_COPIES_MAX = 8 }; /* copies of a range, the first included */

/* A copy of a range, as its owner sees the chain (space_chain.c). Numbers are of copies. */
typedef struct fast_space_link {
    int64_t me;                           /* this copy */
    int64_t order[FAST_SPACE_COPIES_MAX]; /* the chain, first to last, with lost copies */
    int64_t length;                       /* of `order` */
    int64_t before;                   /* copy whose updates are applied; -1: this is the first */
    int64_t after;                    /* copy that updates are passed to; -1: this is the last */
    bool lost[FAST_SPACE_COPIES_MAX]; /* it went down, and has not joined since */
    uint32_t life[FAST_SPACE_COPIES_MAX]; /* of a copy when it was lost */
    int64_t joins[FAST_SPACE_COPIES_MAX]; /* number of a copy's last JOIN: larger is later */
    bool joined;                          /* this copy has the state */
    bool first;                           /* this copy is the first, and the writers were told */
} fast_space_link;

/* The copies of a space. */
typedef struct fast_space_copies {
    int64_t count;         /* copies of each range; 0: there is one, and no chain */
    int64_t *ids;          /* [count][owners]: their actors */
    fast_space_link *link; /* at an owner: its place; else NULL */
    fast_msg **unacked;    /* else [owners][FAST_SPACE_WINDOW]: updates and ticks that the last copy
                              has not acknowledged, by their number; NULL: free */
    fast_space_save_fn *save; /* state of the owner's function; or NULL */
    fast_space_load_fn *load; /* its counterpart; or NULL */
    void *ctx;                /* argument of the two */
} fast_space_copies;

typedef struct fast_space_codec fast_space_codec; /* space_codec.c */

struct fast_space {
    fast_task task;                 /* posted to the actor while the space is open */
    fast_actor *actor;              /* whose handle this is */
    char name[FAST_SPACE_NAME_MAX]; /* of the space */
    uint64_t key;                   /* 48 bits of the name's hash */
    uint64_t signature;             /* of the options that all actors must agree on */
    fast_space_map map;             /* owners, tensors and their ranges */
    fast_space_clocks clocks;       /* clocks and versions */
    fast_space_reader reader;       /* gets and watchers */
    struct fast_space_tasks *tasks; /* that have not finished; NULL before the first */
    fast_space_owned owned;         /* the owner's side; unused where map.me is -1 */
    fast_space_codec *codec;        /* NULL: values travel as floats */
    fast_space_sparse sparse;       /* updates with many zeros */
    fast_space_layers layers;       /* updates as factors */
    fast_space_pieces pieces;       /* updates in pieces */
    fast_space_copies copies;       /* chains of copies */
    int64_t announce; /* adds to tensor 0 of more bytes than this are announced; 0: none */
    float *dense;     /* sparse, layers: the update that was unpacked last, at an owner; or NULL */
};

/* Carry out a GET, PUT, ADD or TICK of this actor: fill in the rest of the operation, and wait
 * until its deadline (FAST_SOON and the like are allowed). FAST_EINVAL, FAST_ECANCELED, FAST_EPEER,
 * FAST_ETIMEDOUT. space.c */
fast_err fast__space_execute(fast_space *space, fast_space_operation *op);
/* Return the operation restricted to an owner's range; its count is 0 if the owner has none. */
fast_space_operation fast__space_part(const fast_space *space, const fast_space_operation *op,
                                      int64_t owner);
/* Return true if an operation is about this owner. */
static inline bool fast__space_covers(const fast_space_operation *op, int64_t owner)
{
    return op->range_count == 0 || (owner >= op->range && owner - op->range < op->range_count);
}
/* Refuse a get whose condition makes no sense. FAST_EINVAL. space.c */
fast_err fast__space_check_get(const fast_space *space, const fast_space_operation *op);
/* Refuse a tick of an actor without a clock, or to an earlier time. FAST_EINVAL. space.c */
fast_err fast__space_check_tick(const fast_space *space, const fast_space_operation *op);
/* Return the get of these conditions. space.c */
fast_space_operation fast__space_get_of(int64_t tensor, float *x, const fast_space_read *read,
                                        int64_t deadline);
/* Fail if this actor was stopped, or the space has no such tensor. Handles messages. space.c */
fast_err fast__space_check_open(fast_space *space, int64_t tensor);
/* Copy a range of a local owner to op->result if it is new enough now, and then set *done_out and
 * what was seen. Fails as a get does. space.c */
fast_err fast__space_try_local(fast_space *space, fast_space_operation *op, bool *done_out);
/* Free the tasks. NULL is allowed. space_task.c */
void fast__space_tasks_free(fast_space *space);
/* Return true if these versions and clocks satisfy the conditions of a GET. */
bool fast__space_satisfies(const fast_space_operation *op, bool in_time, int64_t version);
/* Record in a GET that a range of this version and clock was read. */
void fast__space_saw(fast_space_operation *get, int64_t version, int64_t clock);
/* Call the watchers of tensors that changed; never blocks. space.c */
void fast__space_told(fast_space *space);

/* Return the cell of an [owner][tensor] table. */
static inline int64_t *fast__space_at(const fast_space *space, int64_t *table, int64_t owner,
                                      int64_t tensor)
{
    return &table[owner * space->map.tensor_count + tensor];
}

/* Return the device of a space's vectors. */
static inline const fast_device *fast__space_device(const fast_space *space)
{
    return space->actor->world->device;
}

/* Return the store of this actor, which is an owner. */
static inline fast_space_store *fast__space_own_store(const fast_space *space)
{
    FAST_ASSERT(space->map.me >= 0);
    return &space->map.owners[space->map.me].store;
}
