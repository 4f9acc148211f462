/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/mpi/port.h"

/*
 * Native collectives. A team is a group of actors on as many ranks, with a communicator of its own,
 * made at its first collective and freed with the world. The actor copies its vector through small
 * buffers of the team, so that a collective that never ends, which MPI cannot cancel, refers to no
 * memory of the actor. Only the port's thread calls MPI.
 */
fast_err fast__mpi_teams_new(fast_port *port);
/* Free all teams. False, and the memory that MPI may still use stays, if a collective never
 * ended. */
bool fast__mpi_teams_free(fast_port *port);

/* Return whether a collective is under way. */
bool fast__mpi_team_is_asked(const fast_port *port);
/* Advance the requests of actors. Returns the number of events. Port's thread. */
int64_t fast__mpi_team_progress(fast_port *port);
/* Handle FAST_WIRE_READY and FAST_WIRE_GO. FAST_EFORMAT, FAST_ENOMEM. Port's thread. */
fast_err fast__mpi_team_ready(fast_port *port, int rank, uint64_t key, int64_t count);
fast_err fast__mpi_team_go(fast_port *port, int rank, uint64_t key);

/* As transport->native(). Called by the actor; `notify` tells the port's thread about a request. */
fast_err fast__mpi_native(fast_port *port, fast_actor *actor, const fast_native *native,
                          void (*notify)(fast_world *world));
