/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/mpi/process.h"
#include "transport/mpi/wire.h"

/*
 * The way of messages between the ranks of one world. A port is touched by one thread at a time:
 * the lone actor of a rank, or the bridge of a rank with several. Nothing here blocks.
 *
 * Order: packets go from rank to rank in one stream (one communicator, one tag), received in
 * posted order; parts outside packets in a second one, in the same order. A message that arrives
 * behind one whose parts are still under way waits for it.
 */
enum {
    FAST_PORT_RING = 16,     /* receives that are always posted */
    FAST_PORT_OUT_MAX = 64,  /* messages under way to one rank; later ones queue */
    FAST_PORT_LARGE_MAX = 8, /* likewise, of those with parts outside their packets */
    FAST_PORT_REQUESTS = 2 * FAST_MSG_PARTS_MAX + 1,
    FAST_PORT_TAG_PACKET = 1, /* MPI's tags */
    FAST_PORT_TAG_PART = 2
};

/* A message under way to another rank. */
typedef struct fast_port_out {
    struct fast_port_out *next;                 /* of the lane, the newer; or of the free ones */
    fast_msg *msg;                              /* holds the parts until all is sent; or NULL */
    int request_count;                          /* of requests in use */
    MPI_Request requests[FAST_PORT_REQUESTS];   /* the packet, and two for each part outside */
    unsigned char packet[FAST_WIRE_PACKET_MAX]; /* what the first request sends */
} fast_port_out;

/* A message whose parts are on their way here, or that waits behind such a one. */
typedef struct fast_port_in {
    struct fast_port_in *next;                    /* as above */
    fast_msg *msg;                                /* to be delivered */
    int request_count;                            /* of requests in use */
    MPI_Request requests[FAST_PORT_REQUESTS - 1]; /* two for each part */
} fast_port_in;

/* What goes on with one other rank. */
typedef struct fast_port_lane {
    fast_msg *queue;         /* to be sent, oldest first, linked by `next` */
    fast_msg *queue_last;    /* the newest */
    fast_port_out *out;      /* under way, oldest first */
    fast_port_out *out_last; /* the newest */
    int out_count;           /* of those */
    int large_count;         /* of those with parts outside their packets */
    fast_port_in *in;        /* arriving, oldest first */
    fast_port_in *in_last;   /* the newest */
    bool busy;               /* listed in the port's `busy` */
    bool done_asked;         /* say so when the queue is empty */
    bool done_heard;         /* no message comes from it any more */
    bool bye_sent;           /* nothing goes to it any more */
    bool bye_heard;          /* nothing comes from it any more */
    bool heard;              /* something came from it since fast__port_ping() */
    bool dead;               /* MPI failed with it: what is sent to it is lost */
} fast_port_lane;

struct fast_mpi_teams;

typedef struct fast_port {
    fast_world *world;                         /* whose messages these are */
    const fast_mpi_process *process;           /* ranks */
    MPI_Comm comm;                             /* all ranks, this world's alone */
    MPI_Datatype block;                        /* PORT_BLOCK bytes, for parts beyond an int */
    fast_port_lane *lanes;                     /* for each rank */
    int *busy;                                 /* ranks whose lanes have something under way */
    int busy_count;                            /* of those */
    bool leaving;                              /* the actors here have ended */
    bool stopped;                              /* they were stopped */
    int done_count;                            /* other ranks whose actors have ended */
    int bye_count;                             /* other ranks that said goodbye */
    int bye_left;                              /* ranks that were not told goodbye */
    fast_port_out *out_free;                   /* used before */
    fast_port_in *in_free;                     /* likewise */
    unsigned char *packets;                    /* what the ring receives into */
    MPI_Request ring[FAST_PORT_RING];          /* posted receives; the oldest is at ring_head */
    int ring_head;                             /* where the next packet arrives */
    void (*deliver)(void *ctx, fast_msg *msg); /* gets what arrives; takes it */
    void (*wake)(void *ctx, int64_t id);       /* something that this actor waits for happened */
    void *ctx;                                 /* for both */
    struct fast_mpi_teams *teams;              /* native collectives */
    fast_err err;                              /* why the port gave up */
    char detail[FAST_DETAIL_MAX];              /* of err */
} fast_port;

/* Make a port of zeroed memory; world, process, deliver, wake and ctx are set. FAST_ENOMEM: there
 * is nothing to undo. */
fast_err fast__port_init(fast_port *port);
/* Take over the communicator and begin to receive. */
void fast__port_start(fast_port *port, MPI_Comm comm);
/* Give everything back. Returns false, and keeps what MPI still may touch, if something is under
 * way or a rank has not said goodbye. */
bool fast__port_fini(fast_port *port);

/* Send a message to the rank of its receiver. Takes it. */
void fast__port_send(fast_port *port, fast_msg *msg);
/* Send a packet without a message, behind what MPI has already. False if there is no memory. */
bool fast__port_tell(fast_port *port, int rank, fast_wire_kind kind, int64_t word0, int64_t word1);
/* Go on with one rank's sends, and come back to them in fast__port_progress(). */
void fast__port_push(fast_port *port, int rank);
/* Receive what has come, go on with what is under way. Returns how much happened: 0, nothing. */
int64_t fast__port_progress(fast_port *port);

/* Leaving, in leave.c. Tell every rank that no message follows; `stopped` if actors here were, and
 * could not say so themselves. Goodbyes follow in fast__port_progress(), when all ranks are so
 * far. */
void fast__port_leave(fast_port *port, bool stopped);
int64_t fast__port_leave_progress(fast_port *port);
/* Ask every rank whether it is there. False if one has sent nothing since the last time. */
bool fast__port_ping(fast_port *port);
/* Packets of this kind have arrived. */
void fast__port_heard(fast_port *port, int rank, const fast_wire *wire);
/* True once every rank said goodbye, or is dead, and all of this rank's is sent. */
bool fast__port_is_over(const fast_port *port);
/* Tell the actors here that those of a rank are down. */
void fast__port_down(fast_port *port, int rank);

/* Record why the port cannot go on, from fast_error_detail(), and cancel the world. */
void fast__port_fail(fast_port *port, fast_err err);
