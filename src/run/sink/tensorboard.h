/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/*
 * Event files of TensorBoard: tensorboard=DIR. What cannot be written is told once, as a note, and
 * never fails the run.
 */

typedef struct fast_tensorboard fast_tensorboard;

/* Make the folder and the file, in the process that speaks for the run; nothing where the option is
 * not given. FAST_EIO, FAST_ENOMEM. */
fast_err fast__tensorboard_open(fast_run *run);

/* Add what was measured, after fast__run_measure(). Allocates nothing. */
void fast__tensorboard_event(fast_run *run, fast_event_kind kind);

void fast__tensorboard_free(fast_run *run);

/* A record of the file around `size` bytes at `data` + FAST_TENSORBOARD_HEAD: fills the head before
 * them and the tail after them. */
enum { FAST_TENSORBOARD_HEAD = 12, FAST_TENSORBOARD_TAIL = 4 };
void fast__tensorboard_frame(unsigned char *record, size_t size);

/* CRC-32C of bytes. */
uint32_t fast__tensorboard_crc(const void *bytes, size_t size);
