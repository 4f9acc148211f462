/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bell is a counter in shared memory. The sender counts it up behind its message and wakes the
 * owner only if the owner says that it sleeps, so that a ring for a rank that computes is one
 * atomic operation:
 *
 *     owner    heard <- count; poll; asleep <- 1; wait while count == heard; asleep <- 0
 *     sender   send; count <- count + 1; if asleep: wake
 *
 * A sender that counts between the owner's look and its wait ends that wait at once.
 */
#include "transport/mpi/bell.h"

#include "base/memory.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* A page. */
typedef struct bell {
    uint64_t token;     /* of the card */
    atomic_uint count;  /* rings so far: the futex */
    atomic_uint asleep; /* 1 while the owner sleeps or is about to */
} bell;

struct fast_bells {
    int ranks;  /* number of ranks */
    int fd;     /* of the own page; -1: none */
    int added;  /* pages that are mapped by their cards */
    bell *mine; /* own page; NULL: none */
    bell **all; /* [ranks]: mapped pages, the own one a second time; NULL: silent */
};

static bell *map(int fd)
{
    void *page = mmap(NULL, sizeof(bell), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

/* Make the own page; without it this rank wakes up by itself. */
static void make(fast_bells *bells, fast_bell_card *card)
{
    bells->fd = memfd_create("fast-bell", MFD_CLOEXEC);
    if (bells->fd < 0 || ftruncate(bells->fd, sizeof(bell)) ||
        getrandom(&card->token, sizeof card->token, 0) != sizeof card->token)
        return;
    bells->mine = map(bells->fd);
    if (!bells->mine)
        return;
    bells->mine->token = card->token;
    card->pid = getpid();
    card->fd = bells->fd;
}

fast_err fast__bells_new(int ranks, fast_bell_card *card, fast_bells **out)
{
    fast_bells *bells = NULL;

    FAST_ASSERT(ranks >= 1);
    *card = (fast_bell_card){ .fd = -1 };
    FAST_TRY(fast__alloc("bells", 1, sizeof *bells, &bells));
    const fast_err err = fast__alloc("bells", ranks, sizeof(bell *), &bells->all);
    if (err) {
        fast__free(bells);
        return err;
    }
    bells->ranks = ranks;
    make(bells, card);
    *out = bells;
    return FAST_OK;
}

void fast__bells_add(fast_bells *bells, int rank, const fast_bell_card *card)
{
    char path[64];
    bell *page;

    FAST_ASSERT(rank >= 0 && rank < bells->ranks && !bells->all[rank]);
    if (card->fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)card->pid, (long long)card->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    page = lseek(fd, 0, SEEK_END) == sizeof(bell) ? map(fd) : NULL;
    close(fd);
    if (page && page->token != card->token) {
        munmap(page, sizeof *page);
        page = NULL;
    }
    bells->all[rank] = page;
    bells->added += page != NULL;
}

bool fast__bells_are_all(const fast_bells *bells)
{
    FAST_ASSERT(bells->added <= bells->ranks);
    return bells->mine && bells->added == bells->ranks;
}

void fast__bells_free(fast_bells *bells)
{
    if (!bells)
        return;
    for (int i = 0; i < bells->ranks; i++)
        if (bells->all[i])
            munmap(bells->all[i], sizeof(bell));
    if (bells->mine)
        munmap(bells->mine, sizeof(bell));
    if (bells->fd >= 0)
        close(bells->fd);
    fast__free(bells->all);
    fast__free(bells);
}

void fast__bells_ring(fast_bells *bells, int rank)
{
    FAST_ASSERT(rank >= 0 && rank < bells->ranks);
    bell *b = bells->all[rank];
    if (!b)
        return;
    atomic_fetch_add(&b->count, 1);
    if (atomic_load(&b->asleep))
        fast__futex_wake_shared(&b->count);
}

unsigned fast__bells_heard(const fast_bells *bells)
{
    return bells->mine ? atomic_load(&bells->mine->count) : 0;
}

void fast__bells_sleep(fast_bells *bells, unsigned heard, int64_t time_ns)
{
    FAST_ASSERT(bells->mine != NULL && time_ns >= 0);
    atomic_store(&bells->mine->asleep, 1);
    if (atomic_load(&bells->mine->count) == heard)
        fast__futex_wait_shared(&bells->mine->count, heard, time_ns);
    atomic_store(&bells->mine->asleep, 0);
}
