/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News of actors that are lost, hang, or are back, while an asynchronous run continues. Each change
 * is told once, by the worker that hears of it first: as a note, in the timeline and in the run
 * store.
 */
#include "run/sink/store_sink.h"
#include "run/team.h"
#include "transport/peers.h"

#include <stdio.h>

/* Tell what has become of another actor, unless an actor with newer news did. The mutex is held. */
static void tell_missing(fast_team_actor *self, int64_t id, const fast_peer *peer)
{
    fast_team *team = self->team;
    fast_missing *missing = &team->progress.missing[id];
    const bool is = peer->silent || (peer->down && !(peer->ended && peer->err == FAST_OK));
    fast_actor *actor = self->context.trainer.actor;
    char name[64], text[256];

    if (is == missing->is || (missing->time > 0 && peer->heard <= missing->time))
        return;
    missing->is = is;
    missing->time = peer->heard;
    fast__actor_name(team->place.world, id, name, sizeof name);
    if (!is && peer->ended) /* it came to its end, and was slow only */
        return;
    if (!is)
        snprintf(text, sizeof text, "%s is back", name);
    else if (peer->silent)
        snprintf(text, sizeof text,
                 "%s does not answer (for %g s or more): the others continue without it", name,
                 team->run->config.timeout);
    else
        snprintf(text, sizeof text, "%s %s%s: the others continue without it", name,
                 peer->ended ? "left: " : "is down", peer->ended ? fast_err_text(peer->err) : "");
    if (!peer->silent) /* the transport marks the silence of an actor itself */
        fast__timeline_add(actor, FAST_SPAN_FAULT, is ? "is lost" : "is back", fast_now(actor), id,
                           0);
    team->run->clock.actor = actor;
    fast__run_tell(team->run, FAST_EVENT_NOTE, text);
    snprintf(text, sizeof text, "%s %s", name,
             !is            ? "is back"
             : peer->silent ? "does not answer"
                            : "is lost");
    fast__store_sink_fault(team->run, !is, text);
    team->run->clock.actor = NULL;
}

void fast__monitor_news(fast_team_actor *self)
{
    const fast_actor *actor = self->context.trainer.actor;
    const fast_peer *peer;
    int64_t id = -1;

    if (!self->team->place.first || actor->mailbox.news == self->progress.news)
        return;
    self->progress.news = actor->mailbox.news;
    fast__team_lock(self);
    for (int64_t row = 0; (peer = fast__peers_row(actor, row, &id)) != NULL; row++)
        tell_missing(self, id, peer);
    fast__team_unlock(self);
}
