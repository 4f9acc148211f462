/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of bytes: plain and gzipped files, plain and deflated memory.
 *
 * Their purpose is `bound`. A header of 16 bytes can claim any size, but the bytes that a reader
 * can still deliver are bounded beforehand: the rest of a plain file, or 1032 times the rest of a
 * compressed one, because deflate's best code spends 2 bits on a run of 258 bytes (RFC 1951, zlib's
 * "maximum compression factor"). A claim above it is refused before memory is allocated. Bytes are
 * read into the caller's buffer: a decompressed set is never in memory twice.
 */
#include "data/byte_reader.h"

#include "base/file.h"
#include "base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef FAST_HAVE_ZLIB
#include <zlib.h>

enum { CHUNK = 1 << 20 }; /* bytes asked of zlib at once: its counts are int */

/* Return the most bytes that `size` deflated bytes can expand to. */
static int64_t deflate_bound(int64_t size)
{
    return size > INT64_MAX / FAST_DEFLATE_RATIO_MAX - 1 ? INT64_MAX
                                                         : (size + 1) * FAST_DEFLATE_RATIO_MAX;
}
#endif

/* Read a gzipped file; takes fd on success. */
static fast_err open_gzip(int fd, int64_t size, fast_byte_reader *reader)
{
#ifdef FAST_HAVE_ZLIB
    gzFile gzip = gzdopen(fd, "rb");
    if (gzip == NULL)
        return fast__fail(FAST_ENOMEM, "no memory to decompress %s", reader->name);
    gzbuffer(gzip, 128 * 1024);
    reader->gzip = gzip;
    reader->bound = deflate_bound(size);
    return FAST_OK;
#else
    (void)fd;
    (void)size;
    return fast__fail(FAST_ENOTSUP, "%s is gzipped; unpack it with gunzip, or build FAST with zlib",
                      reader->name);
#endif
}

/* Read a plain file; takes fd on success. */
static fast_err open_plain(int fd, int64_t size, fast_byte_reader *reader)
{
    reader->file = fdopen(fd, "rb");
    if (reader->file == NULL)
        return fast__fail(FAST_ENOMEM, "no memory to read %s", reader->name);
    reader->bound = size;
    return FAST_OK;
}

/* Open a file; two bytes tell whether it is gzipped. */
fast_err fast__reader_open(const char *path, fast_byte_reader *out)
{
    fast_byte_reader reader = { .name = path };
    int fd;
    int64_t size;
    FAST_TRY(fast__file_open(path, &fd, &size));
    uint8_t magic[2] = { 0, 0 };
    const bool gzipped = pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    const fast_err err = gzipped ? open_gzip(fd, size, &reader) : open_plain(fd, size, &reader);
    if (err) {
        close(fd);
        return err;
    }
    *out = reader;
    return FAST_OK;
}

/* Read from memory, which is borrowed until the reader is closed. */
void fast__reader_memory(const char *name, const void *bytes, size_t size, fast_byte_reader *out)
{
    FAST_ASSERT(size <= INT64_MAX);
    *out = (fast_byte_reader){ .name = name, .at = bytes, .bound = (int64_t)size };
}

/* Start decompression; the caller knows the size of the result, and more than deflate can expand
 * to is refused. */
fast_err fast__reader_inflate(const char *name, const void *bytes, size_t size, int64_t size_out,
                              fast_byte_reader *out)
{
#ifdef FAST_HAVE_ZLIB
    if (size > UINT_MAX || size_out > deflate_bound((int64_t)size))
        return fast__fail(FAST_EFORMAT,
                          "%s claims to unpack %zu bytes to %lld, which deflate cannot", name, size,
                          (long long)size_out);
    z_stream *state;
    FAST_TRY(fast__alloc("decompression", 1, sizeof *state, &state));
    /* zlib's interface is not const but does not write to its input. */
    union {
        const void *constant;
        Bytef *plain;
    } input = { bytes };
    state->next_in = input.plain;
    state->avail_in = (uInt)size;
    if (inflateInit2(state, -MAX_WBITS) != Z_OK) {
        fast__free(state);
        return fast__fail(FAST_ENOMEM, "no memory to decompress %s", name);
    }
    *out = (fast_byte_reader){ .name = name, .inflate = state, .bound = size_out };
    return FAST_OK;
#else
    (void)bytes;
    (void)size;
    (void)size_out;
    (void)out;
    return fast__fail(FAST_ENOTSUP,
                      "%s is compressed; save it uncompressed, or build FAST with zlib", name);
#endif
}

#ifdef FAST_HAVE_ZLIB
/* Return the bytes read, fewer than `size` only at the end; -1 with a detail if the data are
 * damaged. */
static int64_t read_gzip(fast_byte_reader *reader, uint8_t *out, int64_t size)
{
    int64_t done = 0;
    while (done < size) {
        const int64_t want = size - done < CHUNK ? size - done : CHUNK;
        const int got = gzread(reader->gzip, out + done, (unsigned)want);
        if (got > 0)
            done += got;
        if (got < want) {
            int code;
            const char *text = gzerror(reader->gzip, &code);
            if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
                fast__fail(FAST_EFORMAT, "cannot decompress %s: %s", reader->name, text);
                return -1;
            }
            break;
        }
    }
    return done;
}

/* Inflate from memory; the result is that of read_gzip(). */
static int64_t read_inflate(fast_byte_reader *reader, uint8_t *out, int64_t size)
{
    z_stream *state = reader->inflate;
    int64_t done = 0;
    while (done < size) {
        const int64_t want = size - done < CHUNK ? size - done : CHUNK;
        state->next_out = out + done;
        state->avail_out = (uInt)want;
        const int code = inflate(state, Z_SYNC_FLUSH);
        const int64_t got = want - (int64_t)state->avail_out;
        done += got;
        if (code == Z_STREAM_END || (code == Z_BUF_ERROR && got == 0))
            break;
        if (code != Z_OK && code != Z_BUF_ERROR) {
            fast__fail(FAST_EFORMAT, "cannot decompress %s: %s", reader->name,
                       state->msg != NULL ? state->msg : "damaged");
            return -1;
        }
    }
    return done;
}
#endif

/* Read from whichever source the reader has; the result is that of read_gzip(). */
static int64_t read_some(fast_byte_reader *reader, uint8_t *out, int64_t size)
{
#ifdef FAST_HAVE_ZLIB
    if (reader->gzip != NULL)
        return read_gzip(reader, out, size);
    if (reader->inflate != NULL)
        return read_inflate(reader, out, size);
#endif
    if (reader->file != NULL)
        return (int64_t)fread(out, 1, (size_t)size, reader->file);
    const int64_t count = size < reader->bound ? size : reader->bound;
    if (count > 0) {
        memcpy(out, reader->at, (size_t)count);
        reader->at += count;
    }
    return count;
}

/* Read exactly `size` bytes, count them off the bound and, where it is wanted, into the
 * checksum. */
fast_err fast__reader_read(fast_byte_reader *reader, void *out, int64_t size)
{
    FAST_ASSERT(size >= 0);
    const int64_t got = read_some(reader, out, size);
    if (got < 0)
        return FAST_EFORMAT;
#ifdef FAST_HAVE_ZLIB
    if (reader->checked)
        reader->crc = (uint32_t)crc32_z(reader->crc, out, (size_t)got);
#endif
    reader->bound = reader->bound > got ? reader->bound - got : 0;
    if (got < size)
        return fast__fail(FAST_EFORMAT, "%s ends early: %lld bytes are missing", reader->name,
                          (long long)(size - got));
    return FAST_OK;
}

/* Check that nothing follows, and that the checksum is that of the archive. */
fast_err fast__reader_end(fast_byte_reader *reader)
{
    uint8_t more;
    const int64_t got = read_some(reader, &more, 1);
    if (got < 0)
        return FAST_EFORMAT;
    if (got > 0)
        return fast__fail(FAST_EFORMAT, "%s holds more data than its header says", reader->name);
#ifdef FAST_HAVE_ZLIB
    if (reader->checked && reader->crc != reader->crc_want)
        return fast__fail(FAST_EFORMAT, "%s is damaged: its checksum is %08x, not %08x",
                          reader->name, reader->crc, reader->crc_want);
#endif
    return FAST_OK;
}

void fast__reader_close(fast_byte_reader *reader)
{
#ifdef FAST_HAVE_ZLIB
    if (reader->gzip != NULL)
        gzclose_r(reader->gzip);
    if (reader->inflate != NULL) {
        inflateEnd(reader->inflate);
        fast__free(reader->inflate);
    }
#endif
    if (reader->file != NULL)
        fclose(reader->file);
    *reader = (fast_byte_reader){ .name = reader->name };
}
