/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event files of TensorBoard, written by hand: a file is a row of records (TFRecord), a record an
 * Event in the encoding of Protocol Buffers.
 *
 *     record   length u64 | crc u32 of the length | the event | crc u32 of the event
 *     event    wall_time = 1 double, step = 2 varint, file_version = 3 text, summary = 5 message
 *     summary  repeated value = 1: tag = 1 text, simple_value = 2 float
 *
 * Numbers are little-endian. The crc is CRC-32C, rotated right by 15 bits plus 0xa282ead8, as the
 * format asks for. The first event says "brain.Event:2". An event is written at once and flushed,
 * so that a reader beside the run, or after a crash, has all but the last record; it costs a few
 * hundred bytes, at most ten times a second.
 *
 * The first record, 12 + 26 + 4 bytes:
 *
 *     1a 00 00 00 00 00 00 00 | crc | 09 wall_time 10 00 1a 0d "brain.Event:2" | crc
 *
 * The scalar train/loss inside an event has 21 bytes: 2a is field 5 with a length, 15 is field 2 of
 * 4 bytes.
 *
 *     2a 13  0a 11  0a 0a "train/loss"  15 f32
 *
 * Opening fails with FAST_EIO or FAST_ENOMEM. A write that fails later closes the file, with a
 * note.
 */
#include "run/sink/tensorboard.h"

#include "base/file.h"
#include "base/memory.h"
#include "rule/schedule.h"
#include "run/team.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_MAX = 2048, TAG_MAX = 32 };

struct fast_tensorboard {
    FILE *file;                       /* NULL once it could not be written */
    unsigned char record[RECORD_MAX]; /* being made */
    size_t size;                      /* bytes of its event so far */
    char buffer[RECORD_MAX];          /* of the file */
    char path[FAST_PATH_MAX];         /* of the file */
};

uint32_t fast__tensorboard_crc(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* Write a number of 4 bytes, the lowest first. */
static void put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* CRC-32C, masked as TFRecord files have it: a CRC of data that holds CRCs would be weak. */
static uint32_t masked_crc(const void *bytes, size_t size)
{
    const uint32_t crc = fast__tensorboard_crc(bytes, size);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void fast__tensorboard_frame(unsigned char *record, size_t size)
{
    put_u32(record, (uint32_t)size);
    put_u32(record + 4, (uint32_t)((uint64_t)size >> 32));
    put_u32(record + 8, masked_crc(record, 8));
    put_u32(record + FAST_TENSORBOARD_HEAD + size,
            masked_crc(record + FAST_TENSORBOARD_HEAD, size));
}

/* Append a byte to the event. */
static void put_byte(fast_tensorboard *board, unsigned value)
{
    FAST_ASSERT(FAST_TENSORBOARD_HEAD + board->size + FAST_TENSORBOARD_TAIL < RECORD_MAX);
    board->record[FAST_TENSORBOARD_HEAD + board->size++] = (unsigned char)value;
}

/* Append a number as protobuf has it: 7 bits a byte, the lowest first. */
static void put_varint(fast_tensorboard *board, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        put_byte(board, (unsigned)(value & 127) | 128);
    put_byte(board, (unsigned)value);
}

/* Append bytes to the event. */
static void put_bytes(fast_tensorboard *board, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        put_byte(board, ((const unsigned char *)bytes)[i]);
}

/* The fields that every event begins with. */
static void begin(fast_tensorboard *board, int64_t step)
{
    const double now = (double)time(NULL);
    uint64_t bits;

    memcpy(&bits, &now, sizeof bits);
    board->size = 0;
    put_byte(board, 1 << 3 | 1);
    for (int i = 0; i < 8; i++)
        put_byte(board, (unsigned)(bits >> 8 * i) & 255);
    put_byte(board, 2 << 3);
    put_varint(board, (uint64_t)step);
}

/* Write the event; false if the file cannot take it, and then no more is written. */
static bool end(fast_tensorboard *board)
{
    const size_t size = FAST_TENSORBOARD_HEAD + board->size + FAST_TENSORBOARD_TAIL;

    fast__tensorboard_frame(board->record, board->size);
    if (fwrite(board->record, 1, size, board->file) == size && fflush(board->file) == 0)
        return true;
    fclose(board->file);
    board->file = NULL;
    return false;
}

/* One number under a tag: a summary with one value. Those that were not measured are left out. */
static void put_scalar(fast_tensorboard *board, const char *tag, double value)
{
    const size_t length = strlen(tag);
    const float number = (float)value;
    const size_t inner = 2 + length + 5;
    uint32_t bits;

    FAST_ASSERT(length < TAG_MAX);
    if (isnan(value))
        return;
    memcpy(&bits, &number, sizeof bits);
    put_byte(board, 5 << 3 | 2);
    put_varint(board, inner + 2);
    put_byte(board, 1 << 3 | 2);
    put_varint(board, inner);
    put_byte(board, 1 << 3 | 2);
    put_varint(board, length);
    put_bytes(board, tag, length);
    put_byte(board, 2 << 3 | 5);
    for (int i = 0; i < 4; i++)
        put_byte(board, bits >> 8 * i & 255);
}

fast_err fast__tensorboard_open(fast_run *run)
{
    static const char version[] = "brain.Event:2";
    const char *folder = run->config.tensorboard;
    char host[128] = "localhost";
    fast_tensorboard *board;
    int length;

    if (!folder[0] || !fast_run_is_first(run) || run->sinks.board)
        return FAST_OK;
    FAST_TRY(fast__file_make_folder(folder));
    FAST_TRY(fast__alloc("event file", 1, sizeof *board, &board));
    (void)!gethostname(host, sizeof host - 1);
    length =
        snprintf(board->path, sizeof board->path, "%s/events.out.tfevents.%010lld.%s.%lld.fast",
                 folder, (long long)time(NULL), host, (long long)getpid());
    board->file = length < (int)sizeof board->path ? fopen(board->path, "wbxe") : NULL;
    if (!board->file) {
        const fast_err err = fast__fail(FAST_EIO, "tensorboard=%s: %s", folder, strerror(errno));

        fast__free(board);
        return err;
    }
    setvbuf(board->file, board->buffer, _IOFBF, sizeof board->buffer);
    begin(board, 0);
    put_byte(board, 3 << 3 | 2);
    put_varint(board, sizeof version - 1);
    put_bytes(board, version, sizeof version - 1);
    if (!end(board)) {
        fast__free(board);
        return fast__fail(FAST_EIO, "tensorboard=%s cannot be written: %s", folder,
                          strerror(errno));
    }
    run->sinks.board = board;
    return FAST_OK;
}

void fast__tensorboard_event(fast_run *run, fast_event_kind kind)
{
    fast_tensorboard *board = run->sinks.board;
    const fast_result *r = &run->result;

    if (!board || !board->file || (kind != FAST_EVENT_PROGRESS && kind != FAST_EVENT_EVALUATE))
        return;
    begin(board, run->step);
    put_scalar(board, "train/loss", r->loss);
    put_scalar(board, "train/accuracy", r->train_accuracy);
    put_scalar(board, "train/lr", fast__schedule_lr(run->schedule, run->step));
    put_scalar(board, "speed/samples_per_s", r->samples_per_s);
    if (kind == FAST_EVENT_EVALUATE && run->evaluation.validated) {
        put_scalar(board, "validation/loss", r->validation_loss);
        put_scalar(board, "validation/accuracy", r->validation_accuracy);
    } else if (kind == FAST_EVENT_EVALUATE) {
        put_scalar(board, "test/loss", r->test_loss);
        put_scalar(board, "test/accuracy", r->test_accuracy);
    }
    if (!run->team->single) {
        put_scalar(board, "exchange/bytes_sent", (double)r->bytes_sent);
        put_scalar(board, "exchange/staleness_mean", r->staleness_mean);
        put_scalar(board, "exchange/divergence", r->divergence);
    }
    if (!end(board))
        fast__run_tell(run, FAST_EVENT_NOTE,
                       "the event file of tensorboard cannot be written; "
                       "training continues without it");
}

void fast__tensorboard_free(fast_run *run)
{
    if (!run->sinks.board)
        return;
    if (run->sinks.board->file)
        fclose(run->sinks.board->file);
    fast__free(run->sinks.board);
    run->sinks.board = NULL;
}
