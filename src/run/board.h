/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/*
 * Event files of TensorBoard: tensorboard=DIR. What cannot be written is told once, as a note, and
 * never fails the run.
 */

typedef struct fast_board fast_board;

/* Make the folder and the file, in the process that speaks for the run; nothing where the option is
 * not given. FAST_EIO, FAST_ENOMEM. */
fast_err fast__board_open(fast_run *run);

/* Add what was measured, after fast__run_measure(). Allocates nothing. */
void fast__board_event(fast_run *run, fast_event_kind kind);

void fast__board_free(fast_run *run);

/* A record of the file around `size` bytes at `data` + FAST_BOARD_HEAD: fills the head before
 * them and the tail after them. */
enum { FAST_BOARD_HEAD = 12, FAST_BOARD_TAIL = 4 };
void fast__board_frame(unsigned char *record, size_t size);

/* CRC-32C of bytes. */
uint32_t fast__board_crc(const void *bytes, size_t size);
