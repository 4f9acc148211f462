/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose run it is, and whether its process is still there.
 *
 * A process that is killed cannot say so. Its run stays `running` in the file, with the machine's
 * name, the process's number and a text `boot` that tells the process from a later one with the
 * same number:
 *
 *     boot id / process namespace / ticks after boot at which the process began
 *
 * A run is over if its machine is this one and the boot id is another, or if in the same namespace
 * no process with this number began at that time. What runs elsewhere, or in a container of its
 * own, cannot be seen from here and counts as alive. Costs one small file of /proc per running
 * run; nothing for others.
 */
#include "store/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* The beginning of a small file as one line; "" if it cannot be read. */
static void read_line(const char *path, char *text, size_t size)
{
    text[0] = '\0';
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    const ssize_t got = read(fd, text, size - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* When a process began, in ticks after boot: field 22 of its stat; 0 if that is not known, -1 if it
 * has ended and its parent has not asked for it yet. */
static long long process_start(int64_t pid)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    read_line(path, text, sizeof text);
    /* The second field is a name in parentheses that may hold anything. */
    const char *at = strrchr(text, ')');
    if (at && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0))
        return -1;
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoll(at, NULL, 10) : 0;
}

/* Describe this process. Parts that the system does not tell (no /proc, no host name) are empty. */
void fast__store_owner(fast_store_owner *out)
{
    char boot[64];
    char space[64] = "";

    /* Zeroed whole, so that texts end and equal owners have equal bytes. */
    memset(out, 0, sizeof *out);
    out->pid = (int64_t)getpid();
    if (gethostname(out->host, sizeof out->host - 1))
        out->host[0] = '\0';
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    const ssize_t got = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[got > 0 ? got : 0] = '\0';
    snprintf(out->boot, sizeof out->boot, "%.40s/%.40s/%lld", boot, space, process_start(out->pid));
}

/* Length of the first `parts` parts of "a/b/c", with the slash after them. */
static size_t prefix_length(const char *boot, int parts)
{
    const char *at = boot;
    for (int i = 0; i < parts && at; i++) {
        at = strchr(at, '/');
        at = at ? at + 1 : NULL;
    }
    return at ? (size_t)(at - boot) : strlen(boot);
}

/* Decide whether the process of a run has ended. Another host, or another process namespace of this
 * boot, cannot be seen from here: its runs count as alive. An earlier boot of this host has ended
 * with all its processes. */
static bool is_gone(const fast_store_owner *self, const char *host, const char *boot, int64_t pid)
{
    if (strcmp(host, self->host) != 0)
        return false;
    const size_t machine = prefix_length(self->boot, 1);
    const size_t space = prefix_length(self->boot, 2);
    if (strncmp(boot, self->boot, machine) != 0)
        return true;
    if (strncmp(boot, self->boot, space) != 0)
        return false;
    /* A number that no process has, or that another process got since then. */
    if (pid <= 0 || (kill((pid_t)pid, 0) && errno == ESRCH))
        return true;
    const long long began = process_start(pid);
    return began != 0 && began != strtoll(boot + space, NULL, 10);
}

/* The SQL function gone(host, boot, pid), for SQLite. NULL in a column, as of a row that another
 * program wrote, counts as alive. */
static void gone(sqlite3_context *context, int count, sqlite3_value **values)
{
    FAST_ASSERT(count == 3);
    const fast_store_owner *self = sqlite3_user_data(context);
    const char *host = (const char *)sqlite3_value_text(values[0]);
    const char *boot = (const char *)sqlite3_value_text(values[1]);
    const int64_t pid = sqlite3_value_int64(values[2]);
    sqlite3_result_int(context, host && boot && is_gone(self, host, boot, pid));
}

/* Register gone() with the facts of this process, which are read once for each connection. */
fast_err fast__store_owner_install(fast_store *store)
{
    fast_store_owner *self = sqlite3_malloc(sizeof *self);
    if (!self)
        return fast__fail(FAST_ENOMEM, "no memory for a connection to \"%s\"", store->path);
    fast__store_owner(self);
    /* Only statements of ours may call it, not the schema of a file from elsewhere. SQLite frees
       what it is given, also when this fails. */
    const int code =
        sqlite3_create_function_v2(store->db, "gone", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY, self,
                                   gone, NULL, NULL, sqlite3_free);
    return code == SQLITE_OK ? FAST_OK : fast__store_fail(store, code);
}

/* The count comes first, so that opening a store without such runs takes no write lock. A run's end
 * is estimated by the wall time that it stored last. */
fast_err fast__store_owner_mark(fast_store *store)
{
    int64_t count;
    FAST_ASSERT(store->write);
    FAST_TRY(fast__store_number(
        store, "SELECT count(*) FROM runs WHERE status='running' AND gone(host,boot,pid)", &count));
    if (count == 0)
        return FAST_OK;
    return fast__store_run(store, "UPDATE runs SET status='interrupted',"
                                  " finished=created+coalesce(wall_time_s,0)"
                                  " WHERE status='running' AND gone(host,boot,pid)");
}
