/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks part, so that nothing is left in MPI: a packet that nobody received would turn up in a
 * later communicator with the same number. Two rounds, 2 (p - 1) packets a rank:
 *
 *   done   my actors have ended: no message follows, but I still answer
 *   bye    everyone's have: nothing at all follows
 *
 * A rank that has heard every bye has received all that was ever sent to it. Between the rounds
 * ranks may ping each other: who is in trouble does not wait for those who do not answer.
 */
#include "transport/mpi/port.h"

/* Of one that has ended the actors here know better. */
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

/* Say goodbye to everyone, once everyone's actors have ended. */
int64_t fast__port_leave_progress(fast_port *port)
{
    int64_t events = 0;
    if (!port->leaving || port->bye_left == 0 || port->done_count < port->process->ranks - 1)
        return 0;
    for (int rank = 0; rank < port->process->ranks; rank++) {
        fast_port_lane *lane = &port->lanes[rank];
        /* What is queued for those who no longer listen goes first: done is behind it. */
        if (rank == port->process->rank || lane->bye_sent || lane->queue.first || lane->done_asked)
            continue;
        if (!fast__port_tell(port, rank, FAST_WIRE_BYE, 0, 0))
            break; /* no memory: tried again at the next progress */
        lane->bye_sent = true;
        port->bye_left--;
        events++;
    }
    return events;
}

bool fast__port_ping(fast_port *port)
{
    bool all = true;
    for (int rank = 0; rank < port->process->ranks; rank++) {
        fast_port_lane *lane = &port->lanes[rank];
        if (rank == port->process->rank || lane->bye_heard)
            continue;
        all = all && lane->heard;
        lane->heard = false;
        fast__port_tell(port, rank, FAST_WIRE_PING, 0, 0);
    }
    return all;
}

void fast__port_heard(fast_port *port, int rank, const fast_wire *wire)
{
    fast_port_lane *lane = &port->lanes[rank];
    if (wire->kind == FAST_WIRE_PING)
        fast__port_tell(port, rank, FAST_WIRE_PONG, 0, 0);
    if (wire->kind == FAST_WIRE_DONE && !lane->done_heard) {
        lane->done_heard = true;
        port->done_count++;
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
