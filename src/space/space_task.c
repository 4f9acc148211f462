/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks: pushes and pulls of ranges with dependencies (Li et al. 2014, sections 3.4, 3.5, 4.1). A
 * task is a list of parts, one for each range, and has at most two stages:
 *
 *     submitted --> tasks in `after` have finished --> ask each range --> push to each --> finished
 *                                                      (when, pull)       (push, clock)
 *
 * A range is asked by a GET: its owner answers when the range's version and clocks satisfy the
 * task, with the values of a pull, without values where a push only has to wait. Ranges are asked
 * one by one, each at most once at a time, so that a range whose writers are late holds up no
 * other range. A push is one update of each range and, with a clock, one tick; it has finished when
 * the owners have acknowledged both. Local ranges are looked at, and changed, in place.
 *
 * Two workers of a bounded delay of 1, on one range; a pull of round t waits for round t - 1 of
 * both:
 *
 *     worker 0   pull 0   push 0   pull 1   push 1   pull 2 . . . . . . . . . push 2
 *     worker 1   pull 0 . . . . . . . . . . . . . . . . . . . push 0   pull 1
 *                                                             clocks 2, 1: pull 2 is answered
 *
 * The ranged vector clock of a space is in its stores: the store of each owner has a clock of each
 * writer (fast_space_slot). A tick for some ranges goes to their owners alone. An owner refuses an
 * update whose sequence number it has seen, so that nothing is applied twice.
 *
 * `after` names tasks with smaller numbers, and `when` rounds that the actor itself has finished:
 * the graph has no cycle within an actor. Cost: that of the gets, adds and ticks; a table of
 * TASKS_MAX entries, with 8 bytes for each range and entry, from the first task on.
 */
#include "space/space_chain.h"
#include "space/space_form.h"
#include "space/space_store.h"

#include "base/memory.h"

#include <string.h>

enum { TASKS_MAX = 64 }; /* tasks that have not finished */

/* A task that has not finished. */
typedef struct task_entry {
    int64_t number;                      /* of the task */
    fast_space_operation get;            /* its conditions, ranges, and where a pull goes */
    const float *push;                   /* values to add; NULL: none */
    int64_t clock;                       /* to set on the ranges; 0: none */
    int64_t after[FAST_SPACE_AFTER_MAX]; /* tasks that must have finished */
    int64_t after_count;                 /* number of those tasks */
    int64_t *clock_seen;                 /* where the smallest clock goes; or NULL */
    bool asks;                           /* some range has not answered yet */
    bool pushed;                         /* the push was sent */
    int64_t *state; /* [owner] 0: to be asked or pushed to; DONE; else the id of the get that it was
                       asked for, or the sequence number of the last message of the push */
} task_entry;
enum { DONE = -1 };

/* The tasks of one actor in a space, in the order of their numbers. */
struct fast_space_tasks {
    int64_t count;              /* tasks that have not finished */
    int64_t last;               /* number of the last task that was submitted */
    int64_t *states;            /* memory of the entries' states, [TASKS_MAX][owners]; an entry has
                                   one row of it, wherever it is in the list */
    task_entry list[TASKS_MAX]; /* the first `count` are in use */
};

/* Tasks that are in progress are forgotten; their answers are dropped with the space. */
void fast__space_tasks_free(fast_space *space)
{
    FAST_ASSERT(space != NULL);
    if (space->tasks)
        fast__free(space->tasks->states);
    fast__free(space->tasks);
    space->tasks = NULL;
}

/* Allocate the table at the first task. */
static fast_err make_table(fast_space *space)
{
    struct fast_space_tasks *tasks;
    const int64_t owners = space->map.owner_count;

    FAST_ASSERT(!space->tasks && owners > 0);
    FAST_TRY(fast__alloc("the tasks of a space", 1, sizeof *tasks, &tasks));
    const fast_err err = fast__alloc("the tasks of a space", TASKS_MAX * owners,
                                     sizeof *tasks->states, &tasks->states);
    if (err) {
        fast__free(tasks);
        return err;
    }
    for (int64_t i = 0; i < TASKS_MAX; i++)
        tasks->list[i].state = tasks->states + i * owners;
    space->tasks = tasks;
    return FAST_OK;
}

/* One range for each owner, empty ones of short tensors included. */
int64_t fast_space_range_count(const fast_space *space)
{
    FAST_ASSERT(space != NULL);
    return space->map.owner_count;
}

/* The count is 0 where the tensor is too short for this range. */
void fast_space_keys(const fast_space *space, int64_t tensor, int64_t range, int64_t *offset_out,
                     int64_t *count_out)
{
    FAST_ASSERT(space != NULL);
    fast__space_range(space, range, tensor, offset_out, count_out);
}

/* Numbers are given in order: a number that is not in the list any more has finished. */
bool fast_space_finished(const fast_space *space, int64_t task)
{
    const struct fast_space_tasks *tasks = space->tasks;

    FAST_ASSERT(task >= 0);
    if (!tasks || task > tasks->last)
        return false;
    for (int64_t i = 0; i < tasks->count; i++)
        if (tasks->list[i].number == task)
            return false;
    return true;
}

/* Drop entry i; the others stay in their order. */
static void drop(struct fast_space_tasks *tasks, int64_t i)
{
    const task_entry entry = tasks->list[i];

    FAST_ASSERT(i >= 0 && i < tasks->count);
    tasks->count--;
    memmove(&tasks->list[i], &tasks->list[i + 1],
            (size_t)(tasks->count - i) * sizeof tasks->list[0]);
    tasks->list[tasks->count].state = entry.state; /* each entry has a state of its own */
}

/* Return true if a task has a part at this owner. */
static bool has_part(const fast_space *space, const task_entry *e, int64_t owner)
{
    int64_t offset, count;

    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    fast__space_range(space, owner, e->get.tensor, &offset, &count);
    return count > 0 && fast__space_covers(&e->get, owner);
}

/* Return the first owner whose part is not done; -1: all are. */
static int64_t find_part(const fast_space *space, const task_entry *e)
{
    FAST_ASSERT(e->state != NULL);
    for (int64_t i = 0; i < space->map.owner_count; i++)
        if (e->state[i] != DONE && has_part(space, e, i))
            return i;
    return -1;
}

/* A range has answered: note its clock. */
static void note_answer(task_entry *e, int64_t owner, int64_t clock)
{
    FAST_ASSERT(e->asks);
    e->state[owner] = DONE;
    if (clock < e->get.clock_seen)
        e->get.clock_seen = clock;
}

/* Ask a remote range, or see whether it has answered. An owner answers one get of an actor at a
 * time, and drops the older one where another comes: a range that an earlier task has asked is
 * asked again when that task has its answer. */
static fast_err ask_remote(fast_space *space, task_entry *e, int64_t owner)
{
    fast_space_owner *o = &space->map.owners[owner];

    FAST_ASSERT(!o->store.head);
    if (e->state[owner] == 0) {
        if (o->asked)
            return FAST_OK;
        e->get.id = ++space->reader.ids;
        FAST_TRY(fast__remote_get_start(space, owner, &e->get));
        e->state[owner] = e->get.id;
    }
    if (o->asked == e->state[owner] && o->never)
        return fast__fail(FAST_EPEER,
                          "nobody is left in space \"%s\" who could bring range %lld of tensor "
                          "%lld to the version that task %lld waits for",
                          space->name, (long long)owner, (long long)e->get.tensor,
                          (long long)e->number);
    if (o->asked == e->state[owner])
        return FAST_OK;
    note_answer(e, owner, o->get.clock_seen);
    return e->get.result && fast__space_is_coded(space, FAST_SPACE_DOWN, e->get.tensor)
               ? fast__space_pay(space, FAST_SPACE_DOWN, owner, 0)
               : FAST_OK;
}

/* Look at a local range, and read it if it satisfies the task. */
static fast_err ask_local(fast_space *space, task_entry *e, int64_t owner)
{
    fast_space_operation part = fast__space_part(space, &e->get, owner);
    bool done = false;

    FAST_ASSERT(space->map.owners[owner].store.head != NULL);
    part.version_seen = part.clock_seen = INT64_MAX;
    FAST_TRY(fast__space_try_local(space, &part, &done));
    if (done)
        note_answer(e, owner, part.clock_seen);
    return FAST_OK;
}

/* First stage: ask all ranges. e->asks is false once all have answered. */
static fast_err ask(fast_space *space, task_entry *e)
{
    FAST_ASSERT(e->asks && !e->pushed);
    /* Each actor starts with another owner, as in a get: they would contend for every link. */
    for (int64_t k = 0; k < space->map.owner_count; k++) {
        const int64_t i = (space->map.first + k) % space->map.owner_count;

        if (e->state[i] != DONE && has_part(space, e, i))
            FAST_TRY(space->map.owners[i].store.head ? ask_local(space, e, i)
                                                     : ask_remote(space, e, i));
    }
    e->asks = find_part(space, e) >= 0;
    return FAST_OK;
}

/* Second stage: add to the ranges, and set their clocks. The tick follows the update on the same
 * channel, so that an actor that sees the clock sees the values. May wait for room. */
static fast_err push(fast_space *space, task_entry *e)
{
    FAST_ASSERT(!e->asks && !e->pushed);
    fast_space_operation add = { .kind = FAST_SPACE_ADD,
                                 .tensor = e->get.tensor,
                                 .range = e->get.range,
                                 .range_count = e->get.range_count,
                                 .x = e->push,
                                 .deadline = FAST_SOON };
    fast_space_operation tick = { .kind = FAST_SPACE_TICK,
                                  .range = e->get.range,
                                  .range_count = e->get.range_count,
                                  .clock = e->clock,
                                  .deadline = FAST_SOON };
    if (e->clock > 0) /* before the values are added */
        FAST_TRY(fast__space_check_tick(space, &tick));
    e->pushed = true;
    if (e->push)
        FAST_TRY(fast__space_execute(space, &add));
    if (e->clock > 0)
        FAST_TRY(fast__space_execute(space, &tick));
    for (int64_t i = 0; i < space->map.owner_count; i++)
        e->state[i] = space->map.owners[i].store.head ? DONE : space->map.owners[i].sent;
    return FAST_OK;
}

/* Take a task as far as it comes without waiting for other actors; *done_out: it has finished. */
static fast_err advance(fast_space *space, task_entry *e, bool *done_out)
{
    FAST_ASSERT(e->number > 0);
    *done_out = false;
    /* A dependency that failed was dropped, and counts as finished: its error was returned. */
    for (int64_t i = 0; i < e->after_count; i++)
        if (!fast_space_finished(space, e->after[i]))
            return FAST_OK;
    if (e->asks)
        FAST_TRY(ask(space, e));
    if (e->asks)
        return FAST_OK;
    if (!e->pushed && (e->push || e->clock > 0))
        FAST_TRY(push(space, e));
    for (int64_t i = 0; e->pushed && i < space->map.owner_count; i++)
        if (e->state[i] != DONE && space->map.owners[i].acked >= e->state[i])
            e->state[i] = DONE;
    /* A task that only asked has finished with its answers. */
    *done_out = !e->pushed || find_part(space, e) < 0;
    return FAST_OK;
}

/* Advance all tasks. Dependencies have smaller numbers, so that one pass is enough. A task that
 * fails is dropped. */
static fast_err advance_all(fast_space *space)
{
    struct fast_space_tasks *tasks = space->tasks;

    FAST_ASSERT(tasks != NULL);
    for (int64_t i = 0; i < tasks->count;) {
        task_entry *e = &tasks->list[i];
        bool done;
        const fast_err err = advance(space, e, &done);

        if (done && e->clock_seen && !err)
            *e->clock_seen = e->get.clock_seen;
        if (!done && !err) {
            i++;
            continue;
        }
        drop(tasks, i);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* Arm the local stores that tasks wait for: a change after the next look wakes this actor. Remote
 * owners wake it by their answers. */
static void arm(fast_space *space)
{
    FAST_ASSERT(space->tasks != NULL);
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        fast_space_store *store = &space->map.owners[i].store;
        bool wanted = false;

        for (int64_t k = 0; store->head && k < space->tasks->count; k++)
            wanted |= space->tasks->list[k].asks && has_part(space, &space->tasks->list[k], i);
        if (!wanted)
            continue;
        fast__space_begin(space, i);
        fast__space_arm(space, store);
        fast__space_end(space);
    }
}

/* Return the actor that the oldest task waits for, with a part at *owner_out: a remote owner, or a
 * writer of a local range that is behind. The dependencies of that task have finished. */
static int64_t find_awaited(fast_space *space, int64_t *owner_out)
{
    task_entry *e = &space->tasks->list[0];
    const int64_t owner = find_part(space, e);

    FAST_ASSERT(owner >= 0);
    fast_space_store *store = &space->map.owners[owner].store;
    *owner_out = owner;
    if (!store->head)
        return fast__copies_whom(space, owner);
    /* For the error of a timeout: the writer that is behind, else any that may still write. */
    fast__space_begin(space, owner);
    int64_t whom = fast__space_slowest(space, store, &e->get);
    if (whom < 0)
        whom = fast__space_active(space, store, e->get.from);
    fast__space_end(space);
    return whom;
}

/* Wait until `task` has finished, or all have (0), or fewer than TASKS_MAX are left (-1). */
static fast_err wait_for(fast_space *space, int64_t task, int64_t deadline)
{
    struct fast_space_tasks *tasks = space->tasks;
    fast_wait wait = fast__space_wait(space, -1, "space task", deadline);
    int64_t owner;
    bool alone = false;

    FAST_ASSERT(tasks != NULL && task >= -1);
    for (;;) {

        FAST_TRY(fast__space_check_open(space, 0));
        arm(space);
        FAST_TRY(advance_all(space));
        if (task > 0 ? fast_space_finished(space, task) : tasks->count < (task < 0 ? TASKS_MAX : 1))
            return FAST_OK;
        wait.whom = find_awaited(space, &owner);
        /* The last writer may have left after the look, and then its clock no longer counts: look
         * once more before giving up. */
        if (wait.whom < 0 && !alone) {
            alone = true;
            continue;
        }
        if (wait.whom < 0)
            return fast__fail(FAST_EPEER,
                              "nobody is left in space \"%s\" who could let task %lld "
                              "continue",
                              space->name, (long long)tasks->list[0].number);
        alone = false;
        fast_err err = fast__wait_once(space->actor, &wait);
        if (!space->map.owners[owner].store.head) /* another copy may take the owner's place */
            err = fast__copies_excuse(space, owner, err);
        else if (err == FAST_EPEER && fast_member_is_down(space->actor, wait.whom))
            err = FAST_OK; /* a writer that went down no longer holds anybody back: look again */
        FAST_TRY(err);
    }
}

/* An actor that waits handles the messages of all its spaces, and serves ranges of its own. */
fast_err fast_space_wait(fast_space *space, int64_t task, int64_t deadline)
{
    FAST_ASSERT(space != NULL);
    const int64_t last = space->tasks ? space->tasks->last : 0;

    if (task < 0 || task > last)
        return fast__fail(FAST_EINVAL, "space \"%s\" has no task %lld of %lld", space->name,
                          (long long)task, (long long)last);
    if (last == 0)
        return FAST_OK;
    return wait_for(space, task, fast__deadline(space->actor, deadline));
}

/* Refuse a task that makes no sense. */
static fast_err check(const fast_space *space, const fast_space_task *task)
{
    const int64_t last = space->tasks ? space->tasks->last : 0, ranges = space->map.owner_count;
    const bool all = task->range_count == 0 || task->range_count == ranges;

    FAST_ASSERT(ranges > 0);
    if (task->range < 0 || task->range_count < 0 || task->range_count > ranges - task->range)
        return fast__fail(FAST_EINVAL,
                          "space \"%s\" has %lld ranges, and a task wants %lld from "
                          "%lld on",
                          space->name, (long long)ranges, (long long)task->range_count,
                          (long long)task->range);
    if (task->push && task->pull)
        return fast__fail(FAST_EINVAL, "a task of space \"%s\" pushes or pulls; submit two tasks",
                          space->name);
    if (task->clock < 0)
        return fast__fail(FAST_EINVAL, "the clock of a task is %lld", (long long)task->clock);
    if (task->after_count < 0 || task->after_count > FAST_SPACE_AFTER_MAX)
        return fast__fail(FAST_EINVAL, "a task depends on %lld others, and %d are allowed",
                          (long long)task->after_count, FAST_SPACE_AFTER_MAX);
    for (int64_t i = 0; i < task->after_count; i++)
        if (task->after[i] < 1 || task->after[i] > last)
            return fast__fail(FAST_EINVAL, "a task depends on task %lld, and %lld were submitted",
                              (long long)task->after[i], (long long)last);
    if (task->push && task->tensor == 0 && !all && fast__space_selects(space))
        return fast__fail(
            FAST_EINVAL,
            "the codec of space \"%s\" selects elements of the whole tensor: push all "
            "of its ranges, or take another codec",
            space->name);
    return FAST_OK;
}

/* Fill in a free entry. A task without conditions that reads nothing skips the first stage. */
static void fill(fast_space *space, const fast_space_task *task, task_entry *e)
{
    int64_t *state = e->state;

    FAST_ASSERT(state != NULL && task->after_count <= FAST_SPACE_AFTER_MAX);
    *e = (task_entry){ .push = task->push,
                       .clock = task->clock,
                       .after_count = task->after_count,
                       .clock_seen = task->clock_seen,
                       .state = state };
    e->get = fast__space_get_of(task->tensor, task->pull, &task->when, INT64_MAX);
    e->get.from = fast_actor_id(space->actor);
    e->get.range = task->range;
    e->get.range_count = task->range_count;
    e->get.clock_seen = INT64_MAX;
    e->asks =
        task->pull || task->clock_seen || task->when.clock_min > 0 || task->when.version_min > 0;
    for (int64_t i = 0; i < task->after_count; i++)
        e->after[i] = task->after[i];
    memset(state, 0, (size_t)space->map.owner_count * sizeof *state);
}

/* A task without dependencies starts at once. */
fast_err fast_space_submit(fast_space *space, const fast_space_task *task, int64_t *number_out)
{
    FAST_ASSERT(space && task && number_out);
    FAST_TRY(fast__check_size("fast_space_task", task->size, sizeof *task));
    FAST_TRY(fast__space_check_open(space, task->tensor));
    FAST_TRY(check(space, task));
    if (!space->tasks)
        FAST_TRY(make_table(space));
    /* Bounded: an actor that submits faster than owners answer is slowed down here. */
    if (space->tasks->count == TASKS_MAX)
        FAST_TRY(wait_for(space, -1, fast__deadline(space->actor, FAST_SOON)));
    task_entry *e = &space->tasks->list[space->tasks->count];

    fill(space, task, e);
    FAST_TRY(fast__space_check_get(space, &e->get));
    e->number = ++space->tasks->last;
    space->tasks->count++;
    *number_out = e->number;
    return advance_all(space);
}
