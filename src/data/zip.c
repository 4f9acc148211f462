/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a zip file, as far as NPZ needs them: stored or deflated, below 4 GB, not encrypted.
 *
 *   ... members: local header (30 bytes + name + extra), data ...
 *   central directory: for each member 46 bytes + name + extra + comment
 *   end record: 22 bytes + comment, found from the end
 *
 * Sizes are taken from the central directory only, and checked: offsets are compared with the file,
 * and a member that claims more than deflate can hold (1032 times its size) is refused before
 * anything is unpacked. numpy writes the sizes of local headers as zip64; they are not needed.
 */
#include "data/zip.h"

#include <stdio.h>
#include <string.h>

enum { END_SIZE = 22, ENTRY_SIZE = 46, LOCAL_SIZE = 30, COMMENT_MAX = 65535, LIST_MAX = 200 };

typedef struct zip_file {
    const char *file;     /* name of the file */
    const uint8_t *bytes; /* contents of the file */
    size_t size;          /* bytes of the file */
    size_t at;            /* offset of the next entry of the central directory */
    size_t end;           /* end of the directory */
    unsigned count;       /* number of entries left */
} zip_file;

/* One entry of the central directory. */
typedef struct zip_entry {
    const char *name;  /* not terminated */
    size_t name_size;  /* bytes of the name */
    unsigned flags;    /* bit 0: encrypted */
    unsigned method;   /* 0: stored, 8: deflated */
    uint32_t crc;      /* checksum of the unpacked bytes */
    uint32_t packed;   /* bytes in the file */
    uint32_t unpacked; /* bytes after unpacking */
    uint32_t offset;   /* offset of its local header */
} zip_entry;

/* Little-endian numbers. */
static unsigned get16(const uint8_t *b)
{
    return (unsigned)b[0] | (unsigned)b[1] << 8;
}

/* Read a little-endian number at any alignment. */
static uint32_t get32(const uint8_t *b)
{
    return (uint32_t)get16(b) | (uint32_t)get16(b + 2) << 16;
}

/* Fail for a damaged file. */
static fast_err fail_damaged(const zip_file *z, const char *what)
{
    return fast__fail(FAST_EFORMAT, "%s is not an NPZ file, or damaged: %s", z->file, what);
}

/* Find the end record and, by it, the central directory. */
static fast_err find_directory(zip_file *z)
{
    if (z->size < END_SIZE)
        return fail_damaged(z, "it is too short for a zip file");
    const size_t lowest = z->size - END_SIZE > COMMENT_MAX ? z->size - END_SIZE - COMMENT_MAX : 0;
    size_t at = z->size - END_SIZE;
    while (memcmp(z->bytes + at, "PK\5\6", 4) != 0) {
        if (at-- == lowest)
            return fail_damaged(z, "it has no zip directory");
    }
    const uint8_t *end = z->bytes + at;
    z->count = get16(end + 10);
    const size_t size = get32(end + 12);
    z->at = get32(end + 16);
    if (z->count == 0xffff || z->at == 0xffffffff)
        return fast__fail(FAST_EFORMAT, "%s is a zip64 file; save arrays of 4 GB and more as NPY",
                          z->file);
    if (z->at > at || size > at - z->at)
        return fail_damaged(z, "its directory lies outside of it");
    z->end = z->at + size;
    return FAST_OK;
}

/* Parse the next entry of the central directory. */
static fast_err next_entry(zip_file *z, zip_entry *out)
{
    const uint8_t *b = z->bytes + z->at;
    if (z->end - z->at < ENTRY_SIZE || memcmp(b, "PK\1\2", 4) != 0)
        return fail_damaged(z, "its directory ends early");
    *out = (zip_entry){ .name = (const char *)b + ENTRY_SIZE,
                        .name_size = get16(b + 28),
                        .flags = get16(b + 8),
                        .method = get16(b + 10),
                        .crc = get32(b + 16),
                        .packed = get32(b + 20),
                        .unpacked = get32(b + 24),
                        .offset = get32(b + 42) };
    const size_t size = ENTRY_SIZE + out->name_size + get16(b + 30) + get16(b + 32);
    if (size > z->end - z->at)
        return fail_damaged(z, "its directory ends early");
    z->at += size;
    z->count--;
    return FAST_OK;
}

/* Tell whether an entry is `name` or `name`.npy. */
static bool matches(const zip_entry *e, const char *name)
{
    const size_t size = strlen(name);
    return e->name_size >= size && memcmp(e->name, name, size) == 0 &&
           (e->name_size == size ||
            (e->name_size == size + 4 && memcmp(e->name + size, ".npy", 4) == 0));
}

/* Open the data of an entry. */
static fast_err open_entry(const zip_file *z, const zip_entry *e, const char *name,
                           fast_byte_reader *out)
{
    if ((e->flags & 1) != 0)
        return fast__fail(FAST_EFORMAT, "%s: array %s is encrypted", z->file, name);
    if (e->packed == 0xffffffff || e->unpacked == 0xffffffff)
        return fast__fail(FAST_EFORMAT, "%s: array %s has 4 GB or more; save it as NPY", z->file,
                          name);
    if (e->offset > z->size || z->size - e->offset < LOCAL_SIZE ||
        memcmp(z->bytes + e->offset, "PK\3\4", 4) != 0)
        return fail_damaged(z, "an array lies outside of it");
    const uint8_t *local = z->bytes + e->offset;
    const size_t start = e->offset + (size_t)LOCAL_SIZE + get16(local + 26) + get16(local + 28);
    if (start > z->size || e->packed > z->size - start)
        return fail_damaged(z, "an array ends outside of it");
    if (e->method == 0 && e->packed == e->unpacked)
        fast__reader_memory(name, z->bytes + start, e->packed, out);
    else if (e->method == 8)
        FAST_TRY(fast__reader_inflate(name, z->bytes + start, e->packed, e->unpacked, out));
    else
        return fast__fail(FAST_EFORMAT,
                          "%s: array %s is packed by method %u; use numpy.savez or "
                          "savez_compressed",
                          z->file, name, e->method);
    out->checked = true;
    out->crc_want = e->crc;
    return FAST_OK;
}

/* Find a member by name in the central directory and open a reader on it, stored or deflated.
 * FAST_EINVAL lists the names that the archive has, FAST_EFORMAT. */
fast_err fast__zip_open(const char *file, const void *bytes, size_t size, const char *name,
                        fast_byte_reader *out)
{
    zip_file z = { .file = file, .bytes = bytes, .size = size };
    char list[LIST_MAX] = "";
    size_t used = 0;
    FAST_TRY(find_directory(&z));
    while (z.count > 0) {
        zip_entry e;
        FAST_TRY(next_entry(&z, &e));
        if (matches(&e, name))
            return open_entry(&z, &e, name, out);
        /* Collect the other names for the message, as far as they fit. */
        const size_t shown = e.name_size > 4 ? e.name_size - 4 : e.name_size;
        if (used + shown + 3 < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", used ? ", " : "",
                                     (int)shown, e.name);
    }
    return fast__fail(FAST_EINVAL, "%s has no array \"%s\"; it has %s", file, name,
                      used ? list : "none");
}
