/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending and receiving between ranks without ever blocking.
 *
 *   out   queue -> at most FAST_PORT_OUT_MAX active sends per rank -> freed when MPI has sent them
 *   in    a ring of posted receives of packets; the parts of a large message are received straight
 *         into the pool's buffers as soon as its packet has announced their sizes
 *
 * An active send holds its message, so that no part is copied. Queues link the messages themselves
 * and need no memory; the memory that this rank receives ahead of its actors is bounded by
 * FAST_PORT_LARGE_MAX large messages from each rank. Both sides always receive while they send, so
 * two ranks that send large messages to each other at once do not deadlock.
 *
 * Cost: a message with small parts is one MPI message; others take one more for each part (two
 * past PORT_BLOCK bytes).
 */
#include "transport/mpi/port.h"

#include "base/memory.h"
#include "transport/message_pool.h"
#include "transport/mpi/mpi_collective.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Larger parts are sent as blocks of this size and a rest: MPI counts in int. */
enum { PORT_BLOCK = 1 << 20 };

/* The first failure is stored and cancels the run; later ones are its consequences. */
void fast__port_fail(fast_port *port, fast_err err)
{
    FAST_ASSERT(err != FAST_OK);
    if (port->err)
        return;
    port->err = err;
    snprintf(port->detail, sizeof port->detail, "%s", fast_error_detail());
    atomic_store(&port->world->canceled, true);
}

/* MPI cannot reach a rank: its actors are down for those of this rank, and messages to it are
 * lost. */
static void lane_die(fast_port *port, int rank)
{
    fast_port_lane *lane = &port->lanes[rank];
    if (lane->dead)
        return;
    lane->dead = true;
    /* The protocol of leaving counts it as a rank that has left. */
    port->done_count += !lane->done_heard;
    port->bye_count += !lane->bye_heard;
    port->bye_left -= !lane->bye_sent;
    lane->done_heard = lane->bye_heard = lane->bye_sent = true;
    fast_msg *msg;
    while ((msg = fast__msg_pop(&lane->queue))) {
        atomic_fetch_add(&port->world->lost, 1);
        fast_msg_free(msg);
    }
    fast__port_down(port, rank);
}

/* Return whether a call of MPI succeeded; else the lane is dead. */
static bool lane_ok(fast_port *port, int rank, int code)
{
    if (code == MPI_SUCCESS)
        return true;
    lane_die(port, rank);
    return false;
}

/* List a rank in port->busy. */
static void lane_busy(fast_port *port, int rank)
{
    if (port->lanes[rank].busy)
        return;
    port->lanes[rank].busy = true;
    port->busy[port->busy_count++] = rank;
    FAST_ASSERT(port->busy_count <= port->process->ranks);
}

/* Send or receive a part of any size: one request, or two. Returns the code of MPI. */
static int transfer_part(fast_port *port, bool out, void *data, size_t size, int rank,
                         MPI_Request *requests, int *count)
{
    unsigned char *bytes = data;
    const size_t blocks = size <= INT_MAX ? 0 : size / PORT_BLOCK;
    const size_t rest = size - blocks * PORT_BLOCK;
    const struct {
        void *at;
        size_t count;
        MPI_Datatype type;
    } pieces[2] = { { bytes, blocks, port->block }, { bytes + size - rest, rest, MPI_BYTE } };

    FAST_ASSERT(blocks <= INT_MAX);
    for (int i = 0; i < 2; i++) {
        if (pieces[i].count == 0)
            continue;
        MPI_Request *request = &requests[*count];
        const int n = (int)pieces[i].count;
        const int code = out ? MPI_Isend(pieces[i].at, n, pieces[i].type, rank, FAST_PORT_TAG_PART,
                                         port->comm, request)
                             : MPI_Irecv(pieces[i].at, n, pieces[i].type, rank, FAST_PORT_TAG_PART,
                                         port->comm, request);
        if (code != MPI_SUCCESS)
            return code;
        ++*count;
    }
    return MPI_SUCCESS;
}

/* Take an active send from the free list, or allocate one; NULL without memory. */
static fast_port_out *out_take(fast_port *port)
{
    fast_port_out *out = port->out_free;
    if (out)
        port->out_free = out->next;
    else if (fast__alloc("messages under way", 1, sizeof *out, &out))
        return NULL;
    out->next = NULL;
    out->msg = NULL;
    out->request_count = 0;
    return out;
}

/* Free the message of a send that ended, and put the send on the free list. */
static void out_give(fast_port *port, fast_port_out *out)
{
    fast_msg_free(out->msg);
    out->msg = NULL;
    out->next = port->out_free;
    port->out_free = out;
}

/* Return whether the parts of a message do not fit into its packet. */
static bool is_large(const fast_msg *msg)
{
    return msg && fast__msg_payload(msg) - msg->declared > FAST_WIRE_INLINE_MAX;
}

/* Send the packet of `out` and the parts outside of it. Takes `out`. */
static void out_start(fast_port *port, int rank, fast_port_out *out, size_t size)
{
    fast_port_lane *lane = &port->lanes[rank];
    int code = MPI_Isend(out->packet, (int)size, MPI_BYTE, rank, FAST_PORT_TAG_PACKET, port->comm,
                         &out->requests[0]);
    out->request_count = code == MPI_SUCCESS;
    const fast_msg *msg = out->msg;
    const bool outside = is_large(msg);
    for (int i = 0; outside && i < msg->part_count && code == MPI_SUCCESS; i++)
        if (msg->parts[i].size)
            code = transfer_part(port, true, (void *)(uintptr_t)fast_msg_data(msg, i),
                                 msg->parts[i].size, rank, out->requests, &out->request_count);
    int done = 0;
    fast__bells_ring(port->process->bells, rank);
    /* MPI has buffered most small messages by now. */
    if (lane_ok(port, rank, code) && !outside &&
        MPI_Test(&out->requests[0], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done) {
        out_give(port, out);
        return;
    }
    if (lane->out_last)
        lane->out_last->next = out;
    else
        lane->out = out;
    lane->out_last = out;
    lane->out_count++;
    lane->large_count += outside;
}

/* Free sends that ended, oldest first, and start queued ones. Returns the number of events. */
static int64_t lane_send(fast_port *port, int rank)
{
    fast_port_lane *lane = &port->lanes[rank];
    int64_t events = 0;
    while (lane->out) {
        fast_port_out *out = lane->out;
        int done = 0;
        const int code = MPI_Testall(out->request_count, out->requests, &done, MPI_STATUSES_IGNORE);
        /* The active sends of a dead lane stay: MPI may still use them. */
        if (!lane_ok(port, rank, code) || !done)
            break;
        lane->out = out->next;
        lane->out_last = lane->out ? lane->out_last : NULL;
        lane->out_count--;
        lane->large_count -= is_large(out->msg);
        events++;
        out_give(port, out);
    }
    while (!lane->dead && lane->out_count < FAST_PORT_OUT_MAX &&
           lane->large_count < FAST_PORT_LARGE_MAX && (lane->queue.first || lane->done_asked)) {
        fast_port_out *out = out_take(port);
        if (!out)
            break; /* repeated at the next progress */
        size_t size;
        out->msg = fast__msg_pop(&lane->queue);
        if (out->msg) {
            size = fast__wire_pack(out->msg, out->packet);
        } else {
            lane->done_asked = false;
            size = fast__wire_pack_kind(FAST_WIRE_DONE, port->stopped,
                                        atomic_load(&port->world->sums.own), out->packet);
        }
        out_start(port, rank, out, size);
        events++;
    }
    return events;
}

void fast__port_send(fast_port *port, fast_msg *msg)
{
    FAST_ASSERT(msg->to >= 0 && msg->to < port->world->count);
    FAST_ASSERT(msg->part_count >= 0 && msg->part_count <= FAST_MSG_PARTS_MAX);
    const int rank = (int)port->world->places[msg->to].node;
    fast_port_lane *lane = &port->lanes[rank];
    FAST_ASSERT(rank != port->process->rank);
    if (lane->dead || lane->done_heard) {
        atomic_fetch_add(&port->world->lost, 1);
        fast_msg_free(msg);
        return;
    }
    fast__msg_push(&lane->queue, msg);
    lane_send(port, rank);
    if (lane->out || lane->queue.first)
        lane_busy(port, rank);
}

bool fast__port_tell(fast_port *port, int rank, fast_wire_kind kind, int64_t word0, int64_t word1)
{
    const fast_port_lane *lane = &port->lanes[rank];
    if (lane->dead || lane->bye_sent)
        return true;
    fast_port_out *out = out_take(port);
    if (!out)
        return false;
    out_start(port, rank, out, fast__wire_pack_kind(kind, word0, word1, out->packet));
    lane_busy(port, rank);
    return true;
}

void fast__port_push(fast_port *port, int rank)
{
    lane_send(port, rank);
    lane_busy(port, rank);
}

/* Deliver the messages that are complete, in order. Returns their number. */
static int64_t lane_receive(fast_port *port, int rank)
{
    fast_port_lane *lane = &port->lanes[rank];
    int64_t events = 0;
    while (lane->in) {
        fast_port_in *in = lane->in;
        int done = 0;
        const int code = MPI_Testall(in->request_count, in->requests, &done, MPI_STATUSES_IGNORE);
        if (!lane_ok(port, rank, code) || !done)
            break;
        fast_msg *msg = in->msg;
        lane->in = in->next;
        lane->in_last = lane->in ? lane->in_last : NULL;
        in->next = port->in_free;
        port->in_free = in;
        port->deliver(port->ctx, msg);
        events++;
    }
    return events;
}

/* Queue a message behind incomplete ones, and receive its parts if they are outside. Takes it. */
static fast_err message_await(fast_port *port, int rank, const fast_wire *wire, fast_msg *msg)
{
    fast_port_lane *lane = &port->lanes[rank];
    fast_port_in *in = port->in_free;
    if (in) {
        port->in_free = in->next;
    } else {
        const fast_err err = fast__alloc("arriving messages", 1, sizeof *in, &in);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
    }
    *in = (fast_port_in){ .msg = msg };
    if (fast__wire_is_large(wire)) {
        int code = MPI_SUCCESS;
        for (int i = 0; i < msg->part_count && code == MPI_SUCCESS; i++)
            if (msg->parts[i].size)
                code = transfer_part(port, false, fast_buffer_data(msg->parts[i].buffer),
                                     msg->parts[i].size, rank, in->requests, &in->request_count);
        lane_ok(port, rank, code);
        fast__bells_ring(port->process->bells, rank); /* MPI has asked it for the parts */
    }
    if (lane->in_last)
        lane->in_last->next = in;
    else
        lane->in = in;
    lane->in_last = in;
    lane_busy(port, rank);
    return FAST_OK;
}

/* Make the message of a packet, and deliver it or wait for its parts. */
static fast_err message_receive(fast_port *port, int rank, const fast_wire *wire,
                                const unsigned char *payload)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast__wire_message(port->world, wire, payload, &msg));
    if (fast__wire_is_large(wire) || port->lanes[rank].in)
        return message_await(port, rank, wire, msg);
    port->deliver(port->ctx, msg);
    return FAST_OK;
}

/* Handle a packet of `rank`. FAST_EFORMAT, FAST_ENOMEM. */
static fast_err packet_receive(fast_port *port, int rank, const unsigned char *packet, size_t size)
{
    fast_wire wire;
    FAST_TRY(fast__wire_unpack(port->world, packet, size, rank, port->process->rank, &wire));
    const fast_port_lane *lane = &port->lanes[rank];
    if (lane->bye_heard || (lane->done_heard && wire.kind == FAST_WIRE_MESSAGE))
        return fast__fail(FAST_EFORMAT, "rank %d sent a packet after its last", rank);
    port->lanes[rank].heard = true;
    switch ((fast_wire_kind)wire.kind) {
    case FAST_WIRE_MESSAGE:
        return message_receive(port, rank, &wire, packet + sizeof wire);
    case FAST_WIRE_DONE:
    case FAST_WIRE_BYE:
    case FAST_WIRE_PING:
    case FAST_WIRE_PONG:
        fast__port_heard(port, rank, &wire);
        return FAST_OK;
    case FAST_WIRE_READY:
        return fast__mpi_team_ready(port, rank, (uint64_t)wire.words[0], wire.words[1]);
    case FAST_WIRE_GO:
        return fast__mpi_team_go(port, rank, (uint64_t)wire.words[0]);
    case FAST_WIRE_KINDS:
        break;
    }
    return fast__fail(FAST_EFORMAT, "rank %d sent a packet of kind %d", rank, wire.kind);
}

/* Handle the packets that have arrived, at most one round of the ring, and post their receives
 * again. Returns their number. */
static int64_t ring_progress(fast_port *port)
{
    int64_t events = 0;
    for (; events < FAST_PORT_RING && !port->err; events++) {
        MPI_Request *request = &port->ring[port->ring_head];
        unsigned char *packet = port->packets + (size_t)port->ring_head * FAST_WIRE_PACKET_MAX;
        MPI_Status status = { 0 };
        int done = 0;
        int size = 0;
        fast_err err = fast__mpi_check(MPI_Test(request, &done, &status), "receiving");
        if (!err && !done)
            break;
        if (!err) {
            MPI_Get_count(&status, MPI_BYTE, &size);
            err = packet_receive(port, status.MPI_SOURCE, packet, (size_t)(size > 0 ? size : 0));
        }
        if (!err)
            err = fast__mpi_check(MPI_Start(request), "receiving");
        if (err)
            fast__port_fail(port, err);
        port->ring_head = (port->ring_head + 1) % FAST_PORT_RING;
    }
    return events;
}

int64_t fast__port_progress(fast_port *port)
{
    /* A port that failed still sends, so that other ranks learn how its actors ended. */
    int64_t events = port->err ? 0 : ring_progress(port);
    for (int i = 0; i < port->busy_count;) {
        const int rank = port->busy[i];
        fast_port_lane *lane = &port->lanes[rank];
        events += lane_send(port, rank) + lane_receive(port, rank);
        if (lane->out || lane->in || lane->queue.first || lane->done_asked) {
            i++;
            continue;
        }
        /* The last rank of the list takes its place; the order of the list does not matter. */
        lane->busy = false;
        port->busy[i] = port->busy[--port->busy_count];
    }
    return events + fast__mpi_team_progress(port) + fast__port_leave_progress(port);
}

bool fast__port_is_moving(const fast_port *port)
{
    return port->busy_count > 0 || fast__mpi_team_is_asked(port);
}

void fast__port_ring(const fast_port *port)
{
    for (int i = 0; i < port->busy_count; i++)
        fast__bells_ring(port->process->bells, port->busy[i]);
}

bool fast__port_is_sending(const fast_port *port)
{
    for (int i = 0; i < port->busy_count; i++) {
        const fast_port_lane *lane = &port->lanes[port->busy[i]];
        if (!lane->dead && (lane->out || lane->queue.first))
            return true;
    }
    return false;
}

fast_err fast__port_init(fast_port *port)
{
    const int ranks = port->process->ranks;
    fast_err err = fast__alloc("ranks", ranks, sizeof *port->lanes, &port->lanes);
    if (err)
        return err;
    err = fast__alloc("ranks", ranks, sizeof *port->busy, &port->busy);
    if (err)
        goto undo_lanes;
    err = fast__alloc("packets", FAST_PORT_RING, FAST_WIRE_PACKET_MAX, &port->packets);
    if (err)
        goto undo_busy;
    err = fast__mpi_teams_new(port);
    if (err)
        goto undo_packets;
    port->bye_left = ranks - 1;
    port->comm = MPI_COMM_NULL;
    return FAST_OK;

undo_packets:
    fast__free(port->packets);
undo_busy:
    fast__free(port->busy);
undo_lanes:
    fast__free(port->lanes);
    return err;
}

void fast__port_start(fast_port *port, MPI_Comm comm)
{
    FAST_ASSERT(port->comm == MPI_COMM_NULL && comm != MPI_COMM_NULL);
    port->comm = comm;
    MPI_Type_contiguous(PORT_BLOCK, MPI_BYTE, &port->block);
    MPI_Type_commit(&port->block);
    for (int i = 0; i < FAST_PORT_RING; i++) {
        MPI_Recv_init(port->packets + (size_t)i * FAST_WIRE_PACKET_MAX, FAST_WIRE_PACKET_MAX,
                      MPI_BYTE, MPI_ANY_SOURCE, FAST_PORT_TAG_PACKET, port->comm, &port->ring[i]);
        MPI_Start(&port->ring[i]);
    }
}

/* Cancel the posted receives and free the communicator. */
static void mpi_stop(fast_port *port)
{
    if (port->comm == MPI_COMM_NULL)
        return;
    for (int i = 0; i < FAST_PORT_RING; i++) {
        MPI_Cancel(&port->ring[i]);
        MPI_Wait(&port->ring[i], MPI_STATUS_IGNORE);
        MPI_Request_free(&port->ring[i]);
    }
    MPI_Type_free(&port->block);
    MPI_Comm_free(&port->comm);
}

bool fast__port_fini(fast_port *port)
{
    const bool begun = port->comm != MPI_COMM_NULL;
    const bool clean = (!begun || fast__port_is_over(port)) && fast__mpi_teams_free(port);
    for (int rank = 0; rank < port->process->ranks; rank++) {
        fast_msg *msg;
        while ((msg = fast__msg_pop(&port->lanes[rank].queue)))
            fast_msg_free(msg);
    }
    if (!clean)
        return false;
    mpi_stop(port);
    while (port->out_free) {
        fast_port_out *next = port->out_free->next;
        fast__free(port->out_free);
        port->out_free = next;
    }
    while (port->in_free) {
        fast_port_in *next = port->in_free->next;
        fast__free(port->in_free);
        port->in_free = next;
    }
    fast__free(port->packets);
    fast__free(port->busy);
    fast__free(port->lanes);
    return true;
}
