/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Bytes in order, from a file (plain or gzipped) or from memory (plain or deflated), with a bound
 * on how many can still come: readers compare what a header claims with it before they allocate.
 */
typedef struct fast_byte_reader {
    const char *name;  /* for messages; borrowed */
    void *file;        /* FILE, for a plain file */
    void *gzip;        /* gzFile, for a gzipped one */
    void *inflate;     /* z_stream, for deflated memory */
    const uint8_t *at; /* next byte, for plain memory */
    int64_t bound;     /* bytes that can still come at most */
    bool checked;      /* compare the CRC-32 of all bytes with the next field at the end */
    uint32_t crc_want; /* what it should be */
    uint32_t crc;      /* of the bytes so far */
} fast_byte_reader;

/* Deflate codes at most 258 bytes in 2 bits: no file holds more than this many times its size. */
enum { FAST_DEFLATE_RATIO_MAX = 1032 };

/* Open a regular file (as fast__file_open does); gzip is seen by its magic. FAST_ENOTSUP for a
 * gzipped one in a build without zlib. `path` is borrowed until close. */
fast_err fast__reader_open(const char *path, fast_byte_reader *out);

/* Read from memory, which is borrowed until close. */
void fast__reader_memory(const char *name, const void *bytes, size_t size, fast_byte_reader *out);

/* Read from deflated memory (as in a zip: no header), of which `size_out` bytes are to come. */
fast_err fast__reader_inflate(const char *name, const void *bytes, size_t size, int64_t size_out,
                              fast_byte_reader *out);

/* Read exactly `size` bytes; FAST_EFORMAT where they end early or are damaged. */
fast_err fast__reader_read(fast_byte_reader *reader, void *out, int64_t size);

/* FAST_EFORMAT unless everything is read and checksums agree (in builds with zlib). */
fast_err fast__reader_end(fast_byte_reader *reader);

void fast__reader_close(fast_byte_reader *reader);
