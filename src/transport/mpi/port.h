/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/mpi/process.h"
#include "transport/mpi/wire.h"

/*
 * The connection of a world to its other ranks. A port is used by one thread at a time: the only
 * actor of a rank, or the bridge of a rank with several. Nothing here blocks.
 *
 * Order: packets go from rank to rank in one stream (one communicator, one tag), received in
 * posted order; parts outside packets go in a second stream, in the order of their packets. A
 * message that arrives behind one whose parts have not arrived waits for it.
 */
enum {
    FAST_PORT_RING = 16,     /* receives that are posted at all times */
    FAST_PORT_OUT_MAX = 64,  /* active sends to one rank; later messages queue */
    FAST_PORT_LARGE_MAX = 8, /* active sends to one rank with parts outside packets */
    FAST_PORT_REQUESTS = 2 * FAST_MSG_PARTS_MAX + 1,
    FAST_PORT_TAG_PACKET = 1, /* MPI's tags */
    FAST_PORT_TAG_PART = 2
};

/* An active send to another rank. */
typedef struct fast_port_out {
    struct fast_port_out *next; /* in the lane, the next newer one; or in the free list */
    fast_msg *msg;              /* holds the parts until all are sent; or NULL */
    int request_count;          /* requests in use */
    MPI_Request requests[FAST_PORT_REQUESTS];   /* the packet, and two for each part outside */
    unsigned char packet[FAST_WIRE_PACKET_MAX]; /* sent by the first request */
} fast_port_out;

/* A message whose parts are being received, or that waits behind such a message. */
typedef struct fast_port_in {
    struct fast_port_in *next; /* in the lane, the next newer one; or in the free list */
    fast_msg *msg;             /* to be delivered when complete */
    int request_count;         /* requests in use */
    MPI_Request requests[FAST_PORT_REQUESTS - 1]; /* two for each part */
} fast_port_in;

/* The state of the connection to one rank. */
typedef struct fast_port_lane {
    fast_msg_queue queue;    /* messages to be sent */
    fast_port_out *out;      /* active sends, oldest first */
    fast_port_out *out_last; /* the newest active send */
    int out_count;           /* active sends */
    int large_count;         /* active sends with parts outside their packets */
    fast_port_in *in;        /* incomplete messages, oldest first */
    fast_port_in *in_last;   /* the newest incomplete message */
    bool busy;               /* listed in the port's `busy` */
    bool done_asked;         /* send FAST_WIRE_DONE when the queue is empty */
    bool done_heard;         /* it sent FAST_WIRE_DONE: no message follows */
    bool bye_sent;           /* FAST_WIRE_BYE was sent to it */
    bool bye_heard;          /* it sent FAST_WIRE_BYE: no packet follows */
    bool heard;              /* a packet arrived since fast__port_ping() */
    bool dead;               /* MPI failed with it: messages to it are lost */
} fast_port_lane;

struct fast_mpi_teams;

typedef struct fast_port {
    fast_world *world;               /* the world of the messages */
    const fast_mpi_process *process; /* rank and number of ranks */
    MPI_Comm comm;                   /* all ranks; of this world alone */
    MPI_Datatype block;              /* PORT_BLOCK bytes, for parts beyond an int */
    fast_port_lane *lanes;           /* [ranks] */
    int *busy;                       /* ranks whose lanes have active requests or queued messages */
    int busy_count;                  /* ranks in busy */
    bool leaving;                    /* the actors of this rank have ended */
    bool stopped;                    /* the actors of this rank were stopped */
    int done_count;                  /* other ranks that sent FAST_WIRE_DONE */
    int bye_count;                   /* other ranks that sent FAST_WIRE_BYE */
    int bye_left;                    /* ranks to which FAST_WIRE_BYE was not sent */
    fast_port_out *out_free;         /* free list */
    fast_port_in *in_free;           /* free list */
    unsigned char *packets;          /* buffers of the ring */
    MPI_Request ring[FAST_PORT_RING];          /* posted receives; the oldest is at ring_head */
    int ring_head;                             /* index of the next packet */
    void (*deliver)(void *ctx, fast_msg *msg); /* delivers a message; takes it */
    void (*wake)(void *ctx, int64_t id);       /* wakes an actor; NULL: not needed */
    void *ctx;                                 /* passed to deliver and wake */
    struct fast_mpi_teams *teams;              /* native collectives */
    fast_err err;                              /* why the port failed */
    char detail[FAST_DETAIL_MAX];              /* text of err */
} fast_port;

/* Initialise a zeroed port whose world, process, deliver, wake and ctx are set. FAST_ENOMEM: there
 * is nothing to undo. */
fast_err fast__port_init(fast_port *port);
/* Take the communicator and start to receive. */
void fast__port_start(fast_port *port, MPI_Comm comm);
/* Free the port's memory. Returns false, and the memory that MPI may still use stays, if a request
 * is active or a rank has not sent FAST_WIRE_BYE. */
bool fast__port_fini(fast_port *port);

/* Send a message to the rank of its receiver. Takes it. */
void fast__port_send(fast_port *port, fast_msg *msg);
/* Send a packet without a message, behind the active sends. False without memory. */
bool fast__port_tell(fast_port *port, int rank, fast_wire_kind kind, int64_t word0, int64_t word1);
/* Advance one rank's sends, now and in fast__port_progress(). */
void fast__port_push(fast_port *port, int rank);
/* Receive packets and advance all active requests. Returns the number of events. */
int64_t fast__port_progress(fast_port *port);

/* Return whether a transfer is under way that needs MPI's progress at both ends: no bell tells of
 * each of its pieces. */
bool fast__port_is_moving(const fast_port *port);
/* Ring for the ranks of such transfers. */
void fast__port_ring(const fast_port *port);

/* Return whether messages to ranks that live have not left yet. */
bool fast__port_is_sending(const fast_port *port);

/* leave.c: send FAST_WIRE_DONE to every rank; `stopped` if the actors of this rank were, and could
 * not say so themselves. FAST_WIRE_BYE follows in fast__port_progress(), when all ranks are done.
 * */
void fast__port_leave(fast_port *port, bool stopped);
/* Send FAST_WIRE_BYE once all ranks are done. Returns the number of packets. */
int64_t fast__port_leave_progress(fast_port *port);
/* Send FAST_WIRE_PING to every rank that has not left. False if nothing came since the last ping
 * from the ranks whose actors have not ended, or from all others if none is left of those. */
bool fast__port_ping(fast_port *port);
/* Handle a packet of kind DONE, BYE, PING or PONG. */
void fast__port_heard(fast_port *port, int rank, const fast_wire *wire);
/* Return whether every rank sent FAST_WIRE_BYE or is dead, and all sends of this rank ended. */
bool fast__port_is_over(const fast_port *port);
/* Tell the actors of this rank that those of another one are down. */
void fast__port_down(fast_port *port, int rank);

/* Store why the port failed, from fast_error_detail(), and cancel the world. */
void fast__port_fail(fast_port *port, fast_err err);
