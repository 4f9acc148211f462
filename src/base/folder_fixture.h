/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For tests that need files: a temporary folder, made before a test and removed after it with all
 * that is in it.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64]; /* path of the folder */

/* Remove an entry; called by nftw(), children first. */
static inline int drop_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

/* Make the folder: the setup of a test. */
static inline int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/fast-test-XXXXXX");
    return mkdtemp(root) == NULL;
}

/* Remove the folder: the teardown of a test. */
static inline int drop_root(void **state)
{
    (void)state;
    return nftw(root, drop_entry, 16, FTW_DEPTH | FTW_PHYS);
}
