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

enum { CHUNK = 1 << 20, AHEAD = 1 << 14 }; /* bytes of one call of zlib, and of one read */

/* Return the most bytes that `size` deflated bytes can expand to. */
static int64_t deflate_bound(int64_t size)
{
    return size > INT64_MAX / FAST_DEFLATE_RATIO_MAX - 1 ? INT64_MAX
                                                         : (size + 1) * FAST_DEFLATE_RATIO_MAX;
}
#endif

#ifdef FAST_HAVE_ZLIB
/* Decompression: zlib's state, and the bytes that were read ahead of it from a file. */
typedef struct inflater {
    z_stream stream;
    bool ended;           /* the last member of a file is complete */
    uint8_t ahead[AHEAD]; /* bytes of the file; deflated memory is read where it lies */
} inflater;

/* Start decompression: `bits` is zlib's, 16 + MAX_WBITS for gzip and -MAX_WBITS for bare deflate.
 * FAST_ENOMEM. */
static fast_err inflate_open(const char *name, int bits, inflater **out)
{
    inflater *in = NULL;

    FAST_TRY(fast__alloc("decompression", 1, sizeof *in, &in));
    if (inflateInit2(&in->stream, bits) != Z_OK) {
        fast__free(in);
        return fast__fail(FAST_ENOMEM, "no memory to decompress %s", name);
    }
    *out = in;
    return FAST_OK;
}
#endif

/* Read a gzipped file, whose `file` is open already. */
static fast_err open_gzip(fast_byte_reader *reader)
{
#ifdef FAST_HAVE_ZLIB
    inflater *in = NULL;

    FAST_TRY(inflate_open(reader->name, 16 + MAX_WBITS, &in));
    reader->inflate = in;
    reader->bound = deflate_bound(reader->bound);
    return FAST_OK;
#else
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
    fast_err err = open_plain(fd, size, &reader);
    if (err) {
        close(fd);
        return err;
    }
    if (gzipped)
        err = open_gzip(&reader);
    if (err) {
        fast__reader_close(&reader);
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
    inflater *in = NULL;
    FAST_TRY(inflate_open(name, -MAX_WBITS, &in));
    /* zlib's interface is not const but does not write to its input. */
    union {
        const void *constant;
        Bytef *plain;
    } input = { bytes };
    in->stream.next_in = input.plain;
    in->stream.avail_in = (uInt)size;
    *out = (fast_byte_reader){ .name = name, .inflate = in, .bound = size_out };
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
/* Read ahead from the file, if there is one and nothing is left of what was read before. */
static void refill(fast_byte_reader *reader)
{
    inflater *in = reader->inflate;

    if (in->stream.avail_in > 0 || !reader->file)
        return;
    in->stream.next_in = in->ahead;
    in->stream.avail_in = (uInt)fread(in->ahead, 1, sizeof in->ahead, reader->file);
}

/* A member of a gzipped file is complete: begin the next one, or end where the file ends. A
 * deflated archive entry has no next one. */
static fast_err next_member(fast_byte_reader *reader)
{
    inflater *in = reader->inflate;

    refill(reader);
    if (!reader->file || in->stream.avail_in == 0) {
        in->ended = true;
        return FAST_OK;
    }
    if (in->stream.next_in[0] != 0x1f || inflateReset(&in->stream) != Z_OK)
        return fast__fail(FAST_EFORMAT, "%s has bytes after its gzip data, from byte %lld on",
                          reader->name,
                          (long long)(ftello(reader->file) - (off_t)in->stream.avail_in));
    return FAST_OK;
}

/* Return the bytes read, fewer than `size` only at the end; -1 with a detail if the data are
 * damaged or, in a file, cut short. */
static int64_t read_inflate(fast_byte_reader *reader, uint8_t *out, int64_t size)
{
    inflater *in = reader->inflate;
    int64_t done = 0;

    while (done < size && !in->ended) {
        const int64_t want = size - done < CHUNK ? size - done : CHUNK;
        refill(reader);
        in->stream.next_out = out + done;
        in->stream.avail_out = (uInt)want;
        const int code = inflate(&in->stream, Z_SYNC_FLUSH);
        const int64_t got = want - (int64_t)in->stream.avail_out;
        done += got;
        if (code == Z_STREAM_END) {
            if (next_member(reader))
                return -1;
        } else if (code == Z_BUF_ERROR && got == 0 && !reader->file) {
            break;
        } else if (code != Z_OK) {
            const char *why = code == Z_BUF_ERROR ? "it ends early" : "damaged";
            fast__fail(FAST_EFORMAT, "cannot decompress %s: %s", reader->name,
                       in->stream.msg != NULL ? in->stream.msg : why);
            return -1;
        }
    }
    return done;
}
#endif

/* Read from whichever source the reader has; the result is that of read_inflate(). */
static int64_t read_some(fast_byte_reader *reader, uint8_t *out, int64_t size)
{
#ifdef FAST_HAVE_ZLIB
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
    inflater *in = reader->inflate;
    if (in != NULL)
        inflateEnd(&in->stream);
    fast__free(in);
#endif
    if (reader->file != NULL)
        fclose(reader->file);
    *reader = (fast_byte_reader){ .name = reader->name };
}
