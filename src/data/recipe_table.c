/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New tables for a model, from a file or from standard input, batch by batch. The text is cut into
 * blocks of whole records; a block with the first line of names before it is read by the encoder
 * that the model's file holds (table.h), so columns are matched by their names.
 *
 *     names      sepal_length,sepal_width,species      read once, repeated before each block
 *     block 1    record, record, ..., record           `count` records
 *     block 2    record, record                        the rest
 *
 * A record ends at a line feed outside of quotes; a quote opens where a field starts. Whether the
 * first line has names is seen by reading it with the line behind it: they make one sample, or two.
 *
 * Memory: one block, at most BLOCK_MAX bytes.
 */
#include "base/memory.h"
#include "data/recipe.h"
#include "data/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_MIN = 1 << 16, BLOCK_MAX = 1 << 28 };

typedef struct table_source {
    fast_source base;
    const fast_recipe *recipe; /* borrowed */
    fast_table *table;         /* the encoder */
    FILE *file;                /* stdin is not closed */
    const char *name;          /* for messages: "standard input", or `path` */
    char *path;                /* as it was given */
    char *text;                /* the line of names, then the records of a block */
    size_t names;              /* bytes of the line of names; 0: the table has none */
    size_t used;               /* bytes of text */
    size_t capacity;           /* bytes of memory of text */
    int64_t line;              /* of the file, where the block begins */
    bool ended;                /* the file has no more bytes */
} table_source;

/* Where a scan of records stands. */
typedef struct record_scan {
    bool quoted; /* inside of quotes */
    bool begun;  /* a byte of the record was not blank */
    char last;   /* the byte before, blanks left out; 0: the record begins */
} record_scan;

/* Step over a byte; true if it ends a record. */
static bool scan_byte(record_scan *scan, char c)
{
    const bool opens = !scan->last || strchr(",;\t|", scan->last);

    if (c == '"' && (scan->quoted || opens || scan->last == '"'))
        scan->quoted = !scan->quoted;
    if (c == '\n' && !scan->quoted) {
        const bool ends = scan->begun;

        *scan = (record_scan){ 0 };
        return ends;
    }
    if (c != ' ' && c != '\r') {
        scan->begun = scan->begun || c != '\t';
        scan->last = c;
    }
    return false;
}

/* Records that the encoder counts otherwise have quotes in the middle of a field. */
static fast_err fail_quotes(const table_source *self)
{
    return fast__fail(FAST_EFORMAT,
                      "%s: a quote in the records from line %lld on neither opens nor closes a "
                      "field; double it inside of quotes",
                      self->name, (long long)self->line);
}

/* Make room for one more byte. */
static fast_err grow(table_source *self)
{
    char *text = NULL;

    if (self->used < self->capacity)
        return FAST_OK;
    if (self->capacity >= BLOCK_MAX)
        return fast__fail(FAST_EFORMAT, "%s: the records from line %lld on have more than %d bytes",
                          self->name, (long long)self->line, BLOCK_MAX);
    const size_t capacity = self->capacity ? 2 * self->capacity : BLOCK_MIN;
    FAST_TRY(fast__alloc("a block of a table", (int64_t)capacity, 1, &text));
    if (self->used > 0)
        memcpy(text, self->text, self->used);
    fast__free(self->text);
    self->text = text;
    self->capacity = capacity;
    return FAST_OK;
}

/* Append the next record to the text; *found_out is false at the end. Blank lines are appended too,
 * so that lines are counted, but are no records. */
static fast_err read_record(table_source *self, bool *found_out)
{
    record_scan scan = { 0 };

    *found_out = false;
    while (!self->ended) {
        const int c = getc(self->file);

        if (c == EOF && ferror(self->file))
            return fast__fail(FAST_EIO, "cannot read %s: %s", self->name, strerror(errno));
        if (c == EOF) {
            self->ended = true;
            break;
        }
        FAST_TRY(grow(self));
        self->text[self->used++] = (char)c;
        if (scan_byte(&scan, (char)c)) {
            *found_out = true;
            return FAST_OK;
        }
    }
    *found_out = scan.begun;
    return FAST_OK;
}

/* Encode a text of names and records. A copy is decoded, because decoding may move the text: a file
 * that is not UTF-8 is read as Latin-1, block by block. */
static fast_err encode(const table_source *self, const char *text, size_t size, int64_t line,
                       bool answers, fast_data **out)
{
    char *copy = NULL;

    FAST_TRY(fast__alloc("a block of a table", (int64_t)size + 1, 1, &copy));
    memcpy(copy, text, size);
    fast_err err = fast__csv_decode(self->name, &copy, &size);
    if (!err)
        err = fast__table_read(self->table, &(fast_table_source){ self->name, copy, size, line, 0 },
                               answers, out);
    fast__free(copy);
    return err;
}

/* Find out whether the first record has names. The records that were read for it stay in the
 * text. */
static fast_err read_names(table_source *self)
{
    fast_data *data = NULL;
    bool found;

    FAST_TRY(read_record(self, &found));
    if (!found)
        return fast__fail(FAST_EFORMAT, "%s is empty", self->name);
    const size_t first = self->used;
    FAST_TRY(read_record(self, &found));
    FAST_TRY(encode(self, self->text, self->used, 0, false, &data));
    const int64_t samples = data->count;
    fast_data_free(data);
    if (samples > 2)
        return fail_quotes(self);
    if (found && samples == 1) {
        self->names = first;
        for (size_t i = 0; i < first; i++)
            self->line += self->text[i] == '\n';
    }
    return FAST_OK;
}

/* Read records until the text has `count` of them, with those that read_names() left in it. They
 * end at byte *end_out; at the end of the file there are fewer. */
static fast_err fill(table_source *self, int64_t count, int64_t *records_out, size_t *end_out)
{
    record_scan scan = { 0 };
    int64_t records = 0;
    size_t end = self->names;
    bool found = true;

    while (end < self->used && records < count)
        records += scan_byte(&scan, self->text[end++]);
    records += scan.begun;
    while (found && records < count) {
        FAST_TRY(read_record(self, &found));
        records += found;
        end = self->used;
    }
    *records_out = records;
    *end_out = end;
    return FAST_OK;
}

/* Remove the records before byte `end` from the text. */
static void drop(table_source *self, size_t end)
{
    for (size_t i = self->names; i < end; i++)
        self->line += self->text[i] == '\n';
    memmove(self->text + self->names, self->text + end, self->used - end);
    self->used -= end - self->names;
}

/* Put the constants of the recipe on a set, which the encoder made without any. */
static void set_constants(const fast_recipe *recipe, fast_data *data)
{
    FAST_ASSERT(data->channels == recipe->like->channels);
    memcpy(data->mean, recipe->like->mean, (size_t)data->channels * sizeof(float));
    memcpy(data->scale, recipe->like->scale, (size_t)data->channels * sizeof(float));
}

/* Encode the next block. With answers it may have fewer samples than records: those without an
 * answer are left out. */
static fast_err table_next(fast_source *source, int64_t count, fast_data **out)
{
    table_source *self = (table_source *)source;
    int64_t records = 0;
    size_t end = 0;
    fast_data *data = NULL;

    *out = NULL;
    FAST_TRY(fill(self, count, &records, &end));
    if (records == 0)
        return FAST_OK;
    FAST_TRY(encode(self, self->text, end, self->line, source->answers, &data));
    if (data->count > records) {
        fast_data_free(data);
        return fail_quotes(self);
    }
    drop(self, end);
    const fast_err err = fast__data_check(data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    set_constants(self->recipe, data);
    *out = data;
    return FAST_OK;
}

/* Standard input stays open: it is the caller's. */
static void table_close(fast_source *source)
{
    table_source *self = (table_source *)source;

    if (self->file != NULL && self->file != stdin)
        fclose(self->file);
    fast__table_free(self->table);
    fast__free(self->text);
    fast__free(self->path);
    fast__free(self);
}

/* FAST_EFORMAT if the encoder and the rest of the description disagree: both come from a file. */
static fast_err check_table(const fast_recipe *recipe, const fast_table *table)
{
    const fast_data *like = recipe->like;
    const int64_t classes = table->regression ? 0 : table->classes.count;

    if (table->features != like->features || like->channels != like->features ||
        classes != like->classes || like->positions != 1 ||
        (table->regression && like->outputs != 1))
        return fast__fail(FAST_EFORMAT,
                          "the model's columns make %lld features and %lld classes, and its "
                          "network takes %lld and %lld",
                          (long long)table->features, (long long)classes, (long long)like->features,
                          (long long)like->classes);
    return FAST_OK;
}

/* Make the encoder and open the file, which may be a pipe. The first records are read here, so that
 * a wrong table is refused before anything is written. */
static fast_err open_parts(table_source *self, const char *path)
{
    const bool standard = strcmp(path, "-") == 0;

    FAST_TRY(fast__table_from_json("the model", self->recipe->source, &self->table));
    FAST_TRY(check_table(self->recipe, self->table));
    FAST_TRY(fast__alloc("a name", (int64_t)strlen(path) + 1, 1, &self->path));
    memcpy(self->path, path, strlen(path) + 1);
    self->name = standard ? "standard input" : self->path;
    self->file = standard ? stdin : fopen(path, "rbe");
    if (!self->file)
        return fast__fail(errno == ENOENT ? FAST_ENOENT : FAST_EIO, "cannot read \"%s\": %s", path,
                          strerror(errno));
    return read_names(self);
}

/* Open a path, or - for standard input. */
fast_err fast__table_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                 fast_source **out)
{
    table_source *self;

    FAST_TRY(fast__alloc("a source", 1, sizeof *self, &self));
    self->base = (fast_source){ .answers = answers, .next = table_next, .close = table_close };
    self->recipe = recipe;
    self->line = 1;
    const fast_err err = open_parts(self, path);
    if (err) {
        table_close(&self->base);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}
