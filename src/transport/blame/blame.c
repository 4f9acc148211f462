/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actor that a wait which timed out depends on in the end: the detail of FAST_ETIMEDOUT.
 *
 *     worker 1 waited 2.0 s for worker 2 (step 12, weights), which waits for worker 5, which does
 *     not answer
 *
 * No component has a global view: actors ask each other, on any transport. In the last quarter of
 * its wait an actor asks the actor that it waits for (FAST_TAG_WHO). An actor that is blocked
 * answers from its wait (FAST_TAG_ANSWER): the actor that it waits for and for how long, the actor
 * that a pending read of the hop before depends on (fast_task.explain), and whether a message of
 * its to the hop before has not arrived, if the transport can tell. An actor that computes, is
 * paused, unreachable or down does not answer. The walk continues from hop to hop until
 *
 *   - a hop does not answer, or is known to be down or ended;
 *   - a hop has sent the message, so that the link delays it;
 *   - a hop is reached again: a circle, found with Brent's method, which stores one hop only.
 *
 * Walks are repeated in every tick, a thirty-second of the wait; each is a vote that counts for the
 * time since the last one. The majority of that time decides (Boyer and Moore's vote), since the
 * chain changes while it is walked, and questions are unreliable messages. An actor that waits for
 * any actor asks all of them and blames one that is down, else one that is silent, else one that
 * waits for a third one.
 *
 * An actor that returns to its wait long after the time of its question was delayed itself: its
 * node was paused, or its clock jumped. wait.c extends the deadlines of FAST_SOON then; one that
 * the caller gave as a time ends, and the actor blames itself.
 *
 * Cost: nothing before three quarters of a wait have passed; then two messages for each hop and
 * tick.
 */
#include "transport/blame/blame.h"

#include "transport/peers.h"
#include "transport/transport.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    WINDOW = 4,     /* the last 1/WINDOW of a wait is for asking */
    TICKS = 8,      /* ticks of a window */
    HOPS_MAX = 256, /* hops of a chain at most */
    HOPS_AGAIN = 32 /* chains up to this are walked in every tick */
};

/* Words of a question and of an answer. */
enum {
    WHO_QUESTION, /* number of the question, returned in the answer */
    WHO_ORIGIN    /* the actor that waits for the receiver of the question */
};
enum {
    ANSWER_QUESTION, /* number of the question */
    ANSWER_WHOM,     /* the actor that the answering one waits for; -1: any */
    ANSWER_WAITED,   /* nanoseconds for which it has waited */
    ANSWER_SENT      /* 1 if its message to the origin has not arrived */
};

/* Return the time at the end of a wait in which questions are asked. */
static int64_t window_of(int64_t begin, int64_t deadline)
{
    return (deadline - begin) / WINDOW;
}

/* Return the time between two walks. */
static int64_t tick_of(int64_t begin, int64_t deadline)
{
    const int64_t tick = window_of(begin, deadline) / TICKS;
    return tick > 0 ? tick : 1;
}

/* Send a small control message, which may be lost. Without memory it is not sent. */
static void tell(fast_actor *actor, int64_t to, uint64_t tag, const int64_t *words, int count)
{
    fast_msg *msg = NULL;
    if (fast_msg_new(actor, tag, &msg) != FAST_OK)
        return;
    msg->from = actor->id;
    msg->to = to;
    msg->unreliable = true;
    memcpy(msg->words, words, (size_t)count * sizeof *words);
    actor->world->transport->send(actor, msg);
}

/* The number 0 is of no question that is open: the answer counts as a sign of life only. */
void fast__blame_probe(fast_actor *actor, int64_t id)
{
    const int64_t words[] = { 0, actor->id };
    tell(actor, id, FAST_TAG_WHO, words, 2);
}

void fast__blame_forget(fast_actor *actor)
{
    actor->blame.deadline = -1;
}

/* Surveys: an actor that waits for any actor asks all of them. */

/* Return the index of an actor in a survey: the actors after this one come first. */
static int64_t survey_slot(const fast_actor *actor, int64_t id)
{
    const int64_t count = actor->world->count;
    return (id - actor->id - 1 + count) % count;
}

/* Return the number of actors in a survey. */
static int64_t survey_count(const fast_actor *actor)
{
    const int64_t others = actor->world->count - 1;
    return others < FAST_BLAME_SURVEY ? others : FAST_BLAME_SURVEY;
}

/* Return the actor with an index in a survey. */
static int64_t survey_id(const fast_actor *actor, int64_t slot)
{
    return (actor->id + 1 + slot) % actor->world->count;
}

/* Return whether an actor has answered the survey. */
static bool survey_has(const fast_blame *blame, int64_t slot)
{
    return blame->survey.answers[slot / 64] >> (slot % 64) & 1;
}

/* Ask all actors that are up. */
static void survey_begin(fast_actor *actor, const fast_wait *wait)
{
    fast_blame *blame = &actor->blame;
    memset(blame->survey.answers, 0, sizeof blame->survey.answers);
    if (blame->survey.since != wait->since + 1) {
        blame->survey.suspect = -1;
        memset(blame->survey.alive, 0, sizeof blame->survey.alive);
    }
    blame->survey.question = ++blame->question;
    blame->survey.since = wait->since + 1;
    blame->survey.asked_at = fast_now(actor);
    blame->survey.other = -1;
    blame->survey.sender = -1;
    const int64_t words[] = { blame->survey.question, actor->id };
    for (int64_t slot = 0; slot < survey_count(actor); slot++) {
        const int64_t id = survey_id(actor, slot);
        if (!fast__peer(actor, id)->down)
            tell(actor, id, FAST_TAG_WHO, words, 2);
    }
}

/* Store the answer of an actor to the survey. */
static void survey_note(fast_actor *actor, const fast_msg *msg)
{
    fast_blame *blame = &actor->blame;
    const int64_t slot = survey_slot(actor, msg->from);
    if (slot >= FAST_BLAME_SURVEY)
        return;
    blame->survey.answers[slot / 64] |= (uint64_t)1 << (slot % 64);
    blame->survey.alive[slot / 64] |= (uint64_t)1 << (slot % 64);
    if (msg->words[ANSWER_SENT])
        blame->survey.sender = msg->from;
    else if (msg->words[ANSWER_WHOM] != actor->id)
        blame->survey.other = msg->from;
}

/* Return the actor that a survey suspects, and how it ends the chain; -1: no suspect yet. */
static int64_t survey_suspect(const fast_actor *actor, int64_t now, int64_t tick,
                              fast_blame_end *end_out)
{
    const fast_blame *blame = &actor->blame;
    int64_t silent = -1;
    for (int64_t slot = 0; slot < survey_count(actor); slot++) {
        const int64_t id = survey_id(actor, slot);
        const fast_peer *peer = fast__peer(actor, id);
        if (peer->down && (!peer->ended || peer->err != FAST_OK)) {
            *end_out = peer->ended ? FAST_BLAME_ENDED : FAST_BLAME_DOWN;
            return id;
        }
        if (silent < 0 && !peer->down && !survey_has(blame, slot))
            silent = id;
    }
    *end_out = FAST_BLAME_OPEN;
    if (now - blame->survey.asked_at < tick)
        return -1;
    if (silent >= 0) {
        *end_out = FAST_BLAME_SILENT;
        return silent;
    }
    if (blame->survey.sender >= 0) {
        *end_out = FAST_BLAME_SENT;
        return blame->survey.sender;
    }
    if (blame->survey.other < 0)
        *end_out = FAST_BLAME_EVERYONE;
    return blame->survey.other;
}

/* Suspect all actors that are up and answered no survey of a patient wait. Actors beyond the
 * surveys are suspected once no other has answered; actors of the same node never, since they may
 * work in shared memory without a message, and their ends are always known. */
static void survey_give_up(fast_actor *actor)
{
    const fast_blame_survey *survey = &actor->blame.survey;
    const fast_world *world = actor->world;
    bool answered = false;
    for (int64_t slot = 0; slot < world->count - 1; slot++) {
        const int64_t id = survey_id(actor, slot);
        const bool asked = slot < FAST_BLAME_SURVEY;
        const bool alive = asked && (survey->alive[slot / 64] >> (slot % 64) & 1);
        answered = answered || alive;
        if (!alive && (asked || !answered) &&
            world->places[id].node != world->places[actor->id].node)
            fast__peers_suspect(actor, id);
    }
}

/* Answers. */

/* Return the actor that the wait of `origin` for this one depends on; -1: any actor. */
static int64_t waits_for(fast_actor *actor, int64_t origin)
{
    const fast_wait *wait = &actor->wait;
    for (fast_task *task = actor->tasks; task; task = task->next) {
        const int64_t whom = task->explain ? task->explain(actor, task, origin) : -1;
        if (whom >= 0 && whom != actor->id)
            return whom;
    }
    if (wait->whom != FAST_ANY)
        return wait->whom;
    fast_blame_end end;
    if (actor->blame.survey.since != wait->since + 1)
        survey_begin(actor, wait);
    const int64_t tick = tick_of(wait->since, wait->deadline);
    const int64_t suspect = survey_suspect(actor, fast_now(actor), tick, &end);
    return suspect >= 0 ? suspect : actor->blame.survey.suspect;
}

/* Answer a question from inside a wait. */
static void answer(fast_actor *actor, int64_t from, int64_t question, int64_t origin)
{
    const fast_transport *transport = actor->world->inner;
    const bool sent = transport->on_way && origin != actor->id && transport->on_way(actor, origin);
    const int64_t words[] = {
        [ANSWER_QUESTION] = question,
        [ANSWER_WHOM] = waits_for(actor, origin),
        [ANSWER_WAITED] = fast_now(actor) - actor->wait.since,
        [ANSWER_SENT] = sent,
    };
    tell(actor, from, FAST_TAG_ANSWER, words, 4);
}

/* Store a question that arrived while the actor did not wait. */
static void pending_add(fast_blame *blame, const fast_msg *msg)
{
    const int64_t i = blame->pending.count++ % FAST_BLAME_PENDING;
    blame->pending.ring[i].from = msg->from;
    blame->pending.ring[i].question = msg->words[WHO_QUESTION];
    blame->pending.ring[i].origin = msg->words[WHO_ORIGIN];
}

/* Answer the stored questions. */
static void answer_pending(fast_actor *actor)
{
    fast_blame *blame = &actor->blame;
    if (blame->pending.count - blame->pending.answered > FAST_BLAME_PENDING)
        blame->pending.answered = blame->pending.count - FAST_BLAME_PENDING;
    while (blame->pending.answered < blame->pending.count) {
        const int64_t i = blame->pending.answered++ % FAST_BLAME_PENDING;
        answer(actor, blame->pending.ring[i].from, blame->pending.ring[i].question,
               blame->pending.ring[i].origin);
    }
}

/* Walks. */

/* Return the newest hop of a walk. */
static int64_t last_hop(const fast_blame_walk *walk)
{
    FAST_ASSERT(walk->count > 0);
    return walk->last[(walk->count - 1) % FAST_BLAME_SHOWN];
}

/* End a walk: its result counts for the time since the last one ended. */
static void walk_end(fast_actor *actor, fast_blame_end end, int64_t culprit)
{
    fast_blame *blame = &actor->blame;
    const int64_t now = fast_now(actor);
    const int64_t length = now > blame->ended_at ? now - blame->ended_at : 0;
    blame->walk.end = end;
    blame->walk.culprit = culprit;
    blame->ended_at = now;
    if (blame->best.end != FAST_BLAME_OPEN && blame->best.culprit == culprit) {
        blame->weight += length;
        blame->best = blame->walk;
    } else {
        blame->weight -= length;
        if (blame->weight < 0 || blame->best.end == FAST_BLAME_OPEN) {
            blame->weight = length;
            blame->best = blame->walk;
        }
    }
}

/* Ask the newest hop. */
static void ask_hop(fast_actor *actor, int64_t id)
{
    fast_blame *blame = &actor->blame;
    const int64_t words[] = { ++blame->question, blame->origin };
    blame->asked = fast_now(actor);
    tell(actor, id, FAST_TAG_WHO, words, 2);
}

/* Continue at the next hop, unless the chain ends there. */
static void hop_to(fast_actor *actor, int64_t id)
{
    fast_blame *blame = &actor->blame;
    fast_blame_walk *walk = &blame->walk;
    const fast_peer *peer = fast__peer(actor, id);
    const int64_t number = walk->count++;
    if (number < FAST_BLAME_SHOWN)
        walk->first[number] = id;
    walk->last[number % FAST_BLAME_SHOWN] = id;
    if (id == actor->id || id == walk->anchor) {
        walk_end(actor, FAST_BLAME_CIRCLE, id == actor->id ? walk->first[0] : id);
    } else if (peer->ended) {
        walk_end(actor, FAST_BLAME_ENDED, peer->err && peer->culprit >= 0 ? peer->culprit : id);
    } else if (peer->down) {
        walk_end(actor, FAST_BLAME_DOWN, id);
    } else if (walk->count == HOPS_MAX) {
        walk_end(actor, FAST_BLAME_LONG, id);
    } else {
        if (walk->count == 2 * walk->anchor_at) {
            walk->anchor = id;
            walk->anchor_at = walk->count;
        }
        ask_hop(actor, id);
    }
}

/* Start a walk at the actor that the wait is for, or a survey. */
static void walk_begin(fast_actor *actor, const fast_wait *wait)
{
    fast_blame *blame = &actor->blame;
    blame->walk = (fast_blame_walk){ .anchor = -1, .anchor_at = 1, .culprit = -1 };
    blame->since = wait->since;
    blame->origin = actor->id;
    blame->origin_ns = fast_now(actor) - wait->since;
    if (wait->whom != FAST_ANY) {
        hop_to(actor, wait->whom);
        return;
    }
    const bool fresh = blame->survey.since == wait->since + 1;
    fast_blame_end end = FAST_BLAME_OPEN;
    if (fresh) {
        const int64_t tick = tick_of(blame->begin, blame->deadline);
        const int64_t suspect = survey_suspect(actor, fast_now(actor), tick, &end);
        blame->survey.suspect = suspect;
        if (suspect >= 0 && end == FAST_BLAME_OPEN) {
            hop_to(actor, suspect);
        } else if (end != FAST_BLAME_OPEN) {
            int64_t culprit = suspect >= 0 ? suspect : actor->id;
            if (end == FAST_BLAME_ENDED && fast__peer(actor, suspect)->culprit >= 0)
                culprit = fast__peer(actor, suspect)->culprit;
            blame->walk.first[0] = blame->walk.last[0] = suspect;
            blame->walk.count = suspect >= 0;
            walk_end(actor, end, culprit);
        }
    }
    survey_begin(actor, wait);
}

/* Handle an answer to the open question. */
static void walk_step(fast_actor *actor, const fast_msg *msg)
{
    fast_blame *blame = &actor->blame;
    fast_blame_walk *walk = &blame->walk;
    const int64_t whom = msg->words[ANSWER_WHOM];
    const int64_t long_ns = window_of(blame->begin, blame->deadline);
    if (walk->end != FAST_BLAME_OPEN || walk->count == 0 || msg->words[0] != blame->question)
        return;
    blame->question++;
    if (msg->words[ANSWER_SENT] && blame->origin_ns >= long_ns) {
        walk_end(actor, FAST_BLAME_SENT, msg->from);
    } else if (whom < 0 || whom >= actor->world->count) {
        walk_end(actor, FAST_BLAME_ANYONE, msg->from);
    } else {
        blame->origin = msg->from;
        blame->origin_ns = msg->words[ANSWER_WAITED];
        hop_to(actor, whom);
    }
}

/* Answers pending questions on the way, as the actor is about to block. */
int64_t fast__blame_ask_at(fast_actor *actor, const fast_wait *wait)
{
    fast_blame *blame = &actor->blame;
    if (blame->pending.answered != blame->pending.count) {
        const fast_wait before = actor->wait;
        actor->wait = *wait;
        answer_pending(actor);
        actor->wait = before;
    }
    if (blame->deadline != wait->deadline) {
        blame->deadline = wait->deadline;
        blame->begin = wait->since;
        blame->next = wait->deadline - window_of(wait->since, wait->deadline);
        blame->asking = false;
    }
    return window_of(blame->begin, blame->deadline) < TICKS ? INT64_MAX : blame->next;
}

/* One walk at a time: a new one starts when the last has ended or a hop stays silent for a tick. */
void fast__blame_ask(fast_actor *actor, const fast_wait *wait)
{
    fast_blame *blame = &actor->blame;
    const int64_t now = fast_now(actor);
    const int64_t tick = tick_of(blame->begin, blame->deadline);
    FAST_ASSERT(blame->deadline == wait->deadline);
    blame->next = now + tick;
    if (!blame->asking) {
        blame->asking = true;
        blame->best = (fast_blame_walk){ .culprit = -1 };
        blame->weight = 0;
        blame->ended_at = now;
    } else if (blame->since != wait->since) {
        /* Another wait of the operation: the earlier walks still count. */
    } else if (blame->walk.end == FAST_BLAME_OPEN && blame->walk.count > 0) {
        /* A hop that was asked in this tick has time until the next one. */
        if (now - blame->asked < tick)
            return;
        walk_end(actor, FAST_BLAME_SILENT, last_hop(&blame->walk));
    } else if (blame->walk.count > HOPS_AGAIN) {
        return;
    }
    walk_begin(actor, wait);
}

/* Handled where it arrives, also inside a wait: the asking actor must not wait for this one. */
void fast__blame_deliver(fast_actor *actor, fast_msg *msg)
{
    fast_blame *blame = &actor->blame;
    FAST_ASSERT(msg->to == actor->id);
    FAST_ASSERT(msg->from >= 0 && msg->from < actor->world->count);
    const int64_t origin = msg->words[WHO_ORIGIN];
    if (msg->tag == FAST_TAG_ANSWER) {
        if (blame->survey.question > 0 && msg->words[ANSWER_QUESTION] == blame->survey.question)
            survey_note(actor, msg);
        else
            walk_step(actor, msg);
    } else if (origin < 0 || origin >= actor->world->count) {
        /* An invalid question is dropped. */
    } else if (actor->wait.waiting) {
        answer(actor, msg->from, msg->words[WHO_QUESTION], origin);
    } else if (!actor->ended) {
        pending_add(blame, msg);
    }
    fast_msg_free(msg);
}

/* The text. */

typedef struct blame_line {
    char text[FAST_DETAIL_MAX]; /* the text so far */
    size_t used;                /* bytes in use */
} blame_line;

/* Append formatted text, cut at the size of an error detail. */
__attribute__((format(printf, 2, 3))) static void put(blame_line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(l->text + l->used, sizeof l->text - l->used, format, args);
    va_end(args);
    FAST_ASSERT(length >= 0);
    l->used += (size_t)length;
    if (l->used >= sizeof l->text)
        l->used = sizeof l->text - 1;
}

/* Append the name of an actor. */
static void put_name(blame_line *l, const fast_actor *actor, const char *before, int64_t id)
{
    char name[64];
    fast__actor_name(actor->world, id, name, sizeof name);
    put(l, "%s%s", before, name);
}

/* Append the actor that waited, for how long, for which actor, at which step and for what. */
static void put_begin(blame_line *l, fast_actor *actor, const fast_wait *wait)
{
    const int64_t waited = fast_now(actor) - wait->since;
    put_name(l, actor, "", actor->id);
    put(l, " waited");
    if (waited >= 1000000) /* a wait for an actor that is known not to answer takes no time */
        put(l, " %.3g s", (double)waited * 1e-9);
    put_name(l, actor, " for ", wait->whom);
    put(l, " (step %" PRId64 ", %s)", actor->step, actor->what[0] ? actor->what : wait->doing);
}

/* Write the hops after the first, which put_begin() has named; a long middle is left out. */
static void put_chain(blame_line *l, const fast_actor *actor, const fast_blame_walk *walk)
{
    for (int64_t i = 1; i < walk->count; i++) {
        const int64_t from_end = walk->count - i;
        if (i < FAST_BLAME_SHOWN) {
            put_name(l, actor, ", which waits for ", walk->first[i]);
        } else if (from_end <= FAST_BLAME_SHOWN) {
            put_name(l, actor, ", which waits for ", walk->last[i % FAST_BLAME_SHOWN]);
        } else {
            put(l, ", and so on over %" PRId64 " more", from_end - FAST_BLAME_SHOWN);
            i = walk->count - FAST_BLAME_SHOWN - 1;
        }
    }
}

/* Append how the chain ends. */
static void put_end(blame_line *l, const fast_actor *actor, const fast_blame_walk *walk)
{
    static const char *const endings[] = {
        [FAST_BLAME_OPEN] = "",
        [FAST_BLAME_SILENT] = ", which does not answer",
        [FAST_BLAME_DOWN] = ", which is down",
        [FAST_BLAME_ENDED] = ", which has ended",
        [FAST_BLAME_SENT] = ", whose message is held up on its way",
        [FAST_BLAME_CIRCLE] = ": they wait for each other, or a message between them is lost",
        [FAST_BLAME_ANYONE] = ", which waits for anyone",
        [FAST_BLAME_EVERYONE] = ": all others wait too",
        [FAST_BLAME_LONG] = ", and so on",
    };
    FAST_ASSERT((size_t)walk->end < sizeof endings / sizeof endings[0]);
    put(l, "%s", endings[walk->end]);
    if (walk->end == FAST_BLAME_ENDED && walk->culprit != last_hop(walk))
        put_name(l, actor, " because of ", walk->culprit);
}

/* Sets actor->culprit, by which the run finds the actor to report. */
fast_err fast__blame_timeout(fast_actor *actor, const fast_wait *wait, bool suspects)
{
    fast_blame *blame = &actor->blame;
    const int64_t now = fast_now(actor);
    /* Needed if the operation started past its deadline. */
    (void)fast__blame_ask_at(actor, wait);
    const int64_t window = window_of(blame->begin, blame->deadline);
    const int64_t tick = tick_of(blame->begin, blame->deadline);
    const bool asked = blame->asking;
    blame_line l = { .used = 0 };
    put_begin(&l, actor, wait);
    if (window >= TICKS && now - blame->next > window) {
        actor->culprit = actor->id;
        put(&l, ", but stood still itself for %.3g s, or its clock jumped",
            (double)(now - blame->next) * 1e-9);
        return fast__fail(FAST_ETIMEDOUT, "%s", l.text);
    }
    /* The open question counts if there is no other result, or if it is as old as a tick. */
    if (asked && blame->since == wait->since && blame->walk.end == FAST_BLAME_OPEN &&
        blame->walk.count > 0 && (blame->best.end == FAST_BLAME_OPEN || now - blame->asked >= tick))
        walk_end(actor, FAST_BLAME_SILENT, last_hop(&blame->walk));
    const fast_blame_walk *best = &blame->best;
    actor->culprit = asked && best->end != FAST_BLAME_OPEN ? best->culprit : wait->whom;
    if (asked && best->end != FAST_BLAME_OPEN) {
        if (wait->whom == FAST_ANY && best->count > 0)
            put_name(&l, actor, ", most likely for ", best->first[0]);
        put_chain(&l, actor, best);
        put_end(&l, actor, best);
    }
    if (asked && wait->whom == FAST_ANY && wait->deadline == actor->waiting.patient)
        survey_give_up(actor);
    else if (suspects && asked && best->end == FAST_BLAME_SILENT && best->culprit != actor->id)
        fast__peers_suspect(actor, best->culprit);
    return fast__fail(FAST_ETIMEDOUT, "%s", l.text);
}

/* The detail reads like that of a timeout, so that a reader sees what the actor waited for. */
fast_err fast__blame_silent(fast_actor *actor, const fast_wait *wait)
{
    FAST_ASSERT(wait->whom >= 0 && wait->whom != actor->id);
    blame_line l = { .used = 0 };
    put_begin(&l, actor, wait);
    actor->culprit = wait->whom;
    return fast__fail(FAST_EPEER, "%s, which does not answer", l.text);
}
