/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks leave a world, so that nothing stays in MPI: a packet that was not received would
 * arrive in a later communicator with the same number. Two rounds, 2 (p - 1) packets a rank:
 *
 *   done   the actors of this rank have ended: no message follows, but pings are answered; with
 *          the rank's part of a sum over all ranks (fast_world_sums)
 *   bye    the actors of all ranks have ended: no packet follows
 *
 * A rank that has received every bye has received all packets that were sent to it. Between the
 * rounds ranks ping each other: they do not wait for ever for ranks without an answer.
 */
#include "transport/mpi/port.h"

void fast__port_down(fast_port *port, int rank)
{
    const fast_world *world = port->world;
    for (int64_t down = 0; down < world->count; down++) {
        for (int64_t id = 0; id < world->count && world->places[down].node == rank; id++) {
            fast_msg *msg = NULL;
            if (!world->places[id].here)
                continue;
            const fast_err err = fast__pool_msg(world->pool, FAST_TAG_DOWN, &msg);
            if (err) {
                fast__port_fail(port, err);
                return;
            }
            msg->from = down;
            msg->to = id;
            msg->words[0] = down;
            port->deliver(port->ctx, msg);
        }
    }
}

void fast__port_leave(fast_port *port, bool stopped)
{
    FAST_ASSERT(!port->leaving);
    port->leaving = true;
    port->stopped = stopped;
    for (int rank = 0; rank < port->process->ranks; rank++) {
        if (rank == port->process->rank || port->lanes[rank].dead)
            continue;
        port->lanes[rank].done_asked = true;
        fast__port_push(port, rank);
    }
}

int64_t fast__port_leave_progress(fast_port *port)
{
    int64_t events = 0;
    if (!port->leaving || port->bye_left == 0 || port->done_count < port->process->ranks - 1)
        return 0;
    for (int rank = 0; rank < port->process->ranks; rank++) {
        fast_port_lane *lane = &port->lanes[rank];
        /* Queued messages and the done packet go first. */
        if (rank == port->process->rank || lane->bye_sent || lane->queue.first || lane->done_asked)
            continue;
        if (!fast__port_tell(port, rank, FAST_WIRE_BYE, 0, 0))
            break; /* without memory: repeated at the next progress */
        lane->bye_sent = true;
        port->bye_left--;
        events++;
    }
    return events;
}

bool fast__port_ping(fast_port *port)
{
    bool works = false, heard = false, heard_any = false;
    for (int rank = 0; rank < port->process->ranks; rank++) {
        fast_port_lane *lane = &port->lanes[rank];
        if (rank == port->process->rank || lane->bye_heard)
            continue;
        works = works || !lane->done_heard;
        heard = heard || (lane->heard && !lane->done_heard);
        heard_any = heard_any || lane->heard;
        lane->heard = false;
        fast__port_tell(port, rank, FAST_WIRE_PING, 0, 0);
    }
    return works ? heard : heard_any;
}

void fast__port_heard(fast_port *port, int rank, const fast_wire *wire)
{
    fast_port_lane *lane = &port->lanes[rank];
    if (wire->kind == FAST_WIRE_PING)
        fast__port_tell(port, rank, FAST_WIRE_PONG, 0, 0);
    if (wire->kind == FAST_WIRE_DONE && !lane->done_heard) {
        lane->done_heard = true;
        port->done_count++;
        atomic_fetch_add(&port->world->sums.others, wire->words[1]);
        if (wire->words[0])
            fast__port_down(port, rank);
    }
    if (wire->kind == FAST_WIRE_BYE) {
        lane->bye_heard = true;
        port->bye_count++;
        port->done_count += !lane->done_heard;
        lane->done_heard = true;
    }
}

bool fast__port_is_over(const fast_port *port)
{
    return port->bye_left == 0 && port->bye_count == port->process->ranks - 1 &&
           port->busy_count == 0;
}
