/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Bytes in order, from a file (plain or gzipped) or from memory (plain or deflated), with a bound
 * on how many can still follow: readers compare a header's claims with it before they allocate.
 */
typedef struct fast_byte_reader {
    const char *name;  /* for messages; borrowed */
    void *file;        /* FILE, for files */
    void *inflate;     /* decompression, for a gzipped file or deflated memory */
    const uint8_t *at; /* next byte, for plain memory */
    int64_t bound;     /* largest number of bytes that can follow */
    bool checked;      /* compare the CRC-32 of all bytes with crc_want at the end */
    uint32_t crc_want; /* the expected checksum */
    uint32_t crc;      /* checksum of the bytes so far */
} fast_byte_reader;

/* Deflate codes at most 258 bytes in 2 bits: no file expands by a larger factor. */
enum { FAST_DEFLATE_RATIO_MAX = 1032 };

/* Open a regular file (as fast__file_open does); gzip is recognised by its magic. FAST_ENOTSUP for
 * a gzipped one in a build without zlib. `path` is borrowed until close. */
fast_err fast__reader_open(const char *path, fast_byte_reader *out);

/* Read from memory, which is borrowed until close. */
void fast__reader_memory(const char *name, const void *bytes, size_t size, fast_byte_reader *out);

/* Read from deflated memory (as in a zip: no header) that expands to `size_out` bytes. FAST_EFORMAT
 * if deflate cannot expand `size` bytes that far, FAST_ENOTSUP without zlib. */
fast_err fast__reader_inflate(const char *name, const void *bytes, size_t size, int64_t size_out,
                              fast_byte_reader *out);

/* Read exactly `size` bytes; FAST_EFORMAT if they end early or are damaged. */
fast_err fast__reader_read(fast_byte_reader *reader, void *out, int64_t size);

/* Return FAST_EFORMAT unless everything is read and checksums agree (in builds with zlib). */
fast_err fast__reader_end(fast_byte_reader *reader);

/* Release everything but borrowed memory. */
void fast__reader_close(fast_byte_reader *reader);
