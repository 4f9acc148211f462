/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of a run by column: {"seq":[...],"step":[...],"loss":[...]}, which plots read without
 * turning rows into columns, and which is half as long.
 *
 * The store gives rows, so columns are gathered first, as doubles, once: 8 bytes a value, only for
 * columns that were asked for and have a value. Text is then made piece by piece as the connection
 * takes it. Gathering is done in slices too, between other requests; while it lasts a space is sent
 * for each slice, which JSON allows before a value.
 *
 * Thinning preserves peaks. Of K rows that follow each other (every=K) those with the smallest and
 * the largest loss stay, in their order, and besides them every row of an evaluation and the very
 * last one. points=N chooses K so that about N rows stay; how many rows there are is found by
 * bisection, since `seq` counts from 0. Cost: one pass over the rows.
 */
#include "serve/server.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    COLUMNS = FAST_STORE_METRIC_COLUMNS,
    SLICE = 4096,       /* rows that are read at once */
    PIECE = 32768,      /* bytes of text that are made at once */
    FIRST_ROWS = 1024,  /* that there is room for at first */
    ROWS_MAX = 20000000 /* of one answer */
};

/* Rows of metrics, by column. */
typedef struct metric_series {
    double *values[COLUMNS]; /* NULL while a column has no value */
    bool wanted[COLUMNS];    /* columns that were asked for */
    int64_t count;           /* rows */
    int64_t room;            /* rows that every column has room for */
} metric_series;

/* Free the columns. */
static void series_fini(metric_series *s)
{
    for (int i = 0; i < COLUMNS; i++)
        fast__free(s->values[i]);
}

/* Return a value of a row as a number; NAN if the column has no value. */
static double field_of(const fast_column *column, const fast_stored_metric *row)
{
    const char *field = (const char *)row + column->offset;

    if (column->kind == FAST_COLUMN_INT) {
        const int64_t value = *(const int64_t *)(const void *)field;

        return value == -1 ? NAN : (double)value;
    }
    return *(const double *)(const void *)field;
}

/* Room for one more row. */
static fast_err series_grow(metric_series *s)
{
    const int64_t room = s->room > 0 ? 2 * s->room : FIRST_ROWS;

    if (s->count < s->room)
        return FAST_OK;
    if (s->count >= ROWS_MAX)
        return fast__fail(FAST_EINVAL, "more than %d rows; ask for every=K", ROWS_MAX);
    for (int i = 0; i < COLUMNS; i++) {
        double *values;

        if (!s->values[i])
            continue;
        FAST_TRY(fast__alloc("metrics", room, sizeof *values, &values));
        memcpy(values, s->values[i], (size_t)s->count * sizeof *values);
        fast__free(s->values[i]);
        s->values[i] = values;
    }
    s->room = room;
    return FAST_OK;
}

/* Append a row. A column gets memory with its first value, and NAN for the rows before. */
static fast_err series_add(metric_series *s, const fast_stored_metric *row)
{
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_METRICS, &count);

    FAST_ASSERT(count == COLUMNS);
    FAST_TRY(series_grow(s));
    for (int i = 0; i < COLUMNS; i++) {
        const double value = field_of(&columns[i], row);

        /* A column without any value costs no memory. */
        if (!s->wanted[i] || (!s->values[i] && isnan(value)))
            continue;
        if (!s->values[i]) {
            FAST_TRY(fast__alloc("metrics", s->room, sizeof *s->values[i], &s->values[i]));
            for (int64_t k = 0; k < s->count; k++)
                s->values[i][k] = NAN;
        }
        s->values[i][s->count] = value;
    }
    s->count++;
    return FAST_OK;
}

/* Rows `from` to `to` of a column as an array. */
static json_t *values_of(const metric_series *s, int column, int64_t from, int64_t to)
{
    json_t *array = json_array();

    for (int64_t k = from; k < to; k++)
        fast__json_append(&array, fast__json_real(s->values[column][k]));
    return array;
}

/* Thins rows out on their way into a metric_series. */
typedef struct thinner {
    metric_series *to;       /* where they go */
    int64_t every;           /* rows of a bucket */
    int64_t in_bucket;       /* rows of this bucket so far */
    fast_stored_metric low;  /* the row with its smallest loss; valid while in_bucket > 0 */
    fast_stored_metric high; /* and with its largest */
    fast_stored_metric last; /* the last row */
    int64_t passed;          /* `seq` of the last row that went through; -1 */
} thinner;

/* Let a row through, unless it is not newer than the last one that passed: the lowest row of a
 * bucket may be its highest, too. */
static fast_err thinner_pass(thinner *t, const fast_stored_metric *row)
{
    if (row->seq <= t->passed)
        return FAST_OK;
    t->passed = row->seq;
    return series_add(t->to, row);
}

/* The bucket is full: its lowest and its highest row, in their order. */
static fast_err thinner_flush(thinner *t)
{
    const bool low_first = t->low.seq <= t->high.seq;

    if (t->in_bucket == 0)
        return FAST_OK;
    t->in_bucket = 0;
    FAST_TRY(thinner_pass(t, low_first ? &t->low : &t->high));
    return thinner_pass(t, low_first ? &t->high : &t->low);
}

/* Take the next row. Rows of evaluations always pass; of the others each bucket passes two. */
static fast_err thinner_add(thinner *t, const fast_stored_metric *row)
{
    t->last = *row;
    if (isfinite(row->test_loss) || isfinite(row->test_accuracy) ||
        isfinite(row->validation_loss)) {
        FAST_TRY(thinner_flush(t)); /* so that the order stays */
        return thinner_pass(t, row);
    }
    if (t->in_bucket == 0 || row->loss < t->low.loss || isnan(t->low.loss))
        t->low = *row;
    if (t->in_bucket == 0 || row->loss > t->high.loss || isnan(t->high.loss))
        t->high = *row;
    t->in_bucket++;
    return t->in_bucket == t->every ? thinner_flush(t) : FAST_OK;
}

/* A slice of rows. */
typedef struct slice_reader {
    thinner *thin; /* where they go */
    int64_t left;  /* rows that may still be read */
    int64_t seq;   /* of the last row */
    bool more;     /* there is at least one more */
} slice_reader;

/* Take one row of the store. FAST_ECANCELED ends the reading when the slice is full; the row is
 * then read again by the next slice. */
static fast_err read_row(void *ctx, const void *row)
{
    slice_reader *reader = ctx;
    const fast_stored_metric *metric = row;

    if (reader->left == 0) {
        reader->more = true;
        return FAST_ECANCELED;
    }
    reader->left--;
    reader->seq = metric->seq;
    return thinner_add(reader->thin, metric);
}

/* Read the rows after *seq, at most `max` of them. */
static fast_err read_slice(fast_server *server, int64_t run, int64_t max, thinner *thin,
                           int64_t *seq, bool *more_out)
{
    slice_reader reader = { thin, max, *seq, false };
    const fast_err err =
        fast_store_read(server->store, FAST_STORE_METRICS, run, *seq, read_row, &reader);

    if (err && !(err == FAST_ECANCELED && reader.more))
        return err;
    *seq = reader.seq;
    *more_out = reader.more;
    return FAST_OK;
}

/* All columns at once, for few rows. */
static void put_series(fast_page *text, const metric_series *s)
{
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_METRICS, &count);
    json_t *object = json_object();

    for (int i = 0; i < COLUMNS; i++)
        fast__json_set(&object, columns[i].name,
                       s->values[i] ? values_of(s, i, 0, s->count) : json_array());
    fast__page_json(text, &object);
}

/* For the live stream: all columns of the rows after *seq, at most `max` rows, unthinned. */
fast_err fast__serve_metric_rows(fast_server *server, fast_page *text, int64_t run, int64_t max,
                                 int64_t *seq, int64_t *count_out)
{
    metric_series s = { .count = 0 };
    thinner thin = { .to = &s, .every = 1, .passed = -1 };
    bool more;
    fast_err err;

    memset(s.wanted, true, sizeof s.wanted);
    err = read_slice(server, run, max, &thin, seq, &more);
    if (!err && s.count > 0)
        put_series(text, &s);
    *count_out = s.count;
    series_fini(&s);
    return err;
}

/* An answer under construction: rows of the store become columns of JSON. */
typedef struct metrics_stream {
    fast_http_stream stream; /* first, so that one is the other */
    fast_server *server;     /* whose store is read */
    int64_t run;             /* whose metrics */
    metric_series s;         /* columns so far */
    thinner thin;            /* thins the rows out before they become columns */
    int64_t seq;             /* of the last row that was read */
    bool gathered;           /* all rows were read */
    int column;              /* that goes out */
    int64_t row;             /* row of that column that is sent next */
    bool opened;             /* the column's bracket was sent */
} metrics_stream;

/* Free an answer, whether it was sent whole or its reader has left. */
static void free_stream(fast_http_stream *stream)
{
    metrics_stream *m = (metrics_stream *)stream;

    series_fini(&m->s);
    fast__free(m);
}

/* Read one slice. */
static fast_err gather(metrics_stream *m)
{
    bool more;

    FAST_TRY(read_slice(m->server, m->run, SLICE, &m->thin, &m->seq, &more));
    if (more)
        return FAST_OK;
    m->gathered = true;
    if (m->thin.in_bucket > 0) {
        FAST_TRY(thinner_flush(&m->thin));
        return thinner_pass(&m->thin, &m->thin.last);
    }
    return FAST_OK;
}

/* Make the next piece of the answer: a space while rows are gathered, then text of the columns,
 * about PIECE bytes at a time. */
static fast_http_stream_state next_piece(fast_http_stream *stream, fast_page *text)
{
    metrics_stream *m = (metrics_stream *)stream;
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_METRICS, &count);

    /* One slice of rows for each call: other connections are answered in between. */
    if (!m->gathered) {
        if (gather(m)) {
            text->failed = true; /* the status was sent: the answer breaks off */
            return FAST_STREAM_END;
        }
        fast__page_add(text, " ");
        return FAST_STREAM_MORE;
    }
    while (m->column < COLUMNS && text->size < PIECE) {
        const int i = m->column;
        const int64_t rows = m->s.values[i] ? m->s.count : 0;
        const int64_t to = rows - m->row > 1024 ? m->row + 1024 : rows;

        if (m->s.wanted[i] && !m->opened) {
            fast__page_format(text, "%c\"%s\":[", i == 0 ? '{' : ',', columns[i].name);
            m->opened = true;
        }
        if (m->s.wanted[i] && m->row < rows) {
            json_t *values = values_of(&m->s, i, m->row, to);

            fast__page_add(text, m->row > 0 ? "," : "");
            fast__page_elements(text, &values);
        }
        m->row = to;
        if (m->row < rows)
            continue;
        if (m->opened)
            fast__page_add(text, "]");
        m->opened = false;
        m->row = 0;
        m->column++;
        if (m->column == COLUMNS)
            fast__page_add(text, "}");
    }
    return text->size > 0 ? FAST_STREAM_MORE : FAST_STREAM_END;
}

/* The columns of columns=step,loss; all without it. `seq` is always there. */
static fast_err want_columns(metric_series *s, const char *names)
{
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_METRICS, &count);

    for (int i = 0; i < COLUMNS; i++)
        s->wanted[i] = !names || i == 0;
    while (names && *names) {
        const size_t length = strcspn(names, ",");
        int i = 0;

        while (i < COLUMNS &&
               !(strlen(columns[i].name) == length && strncmp(columns[i].name, names, length) == 0))
            i++;
        if (i == COLUMNS)
            return fast__fail(FAST_EINVAL, "no column \"%.*s\" of metrics", (int)length, names);
        s->wanted[i] = true;
        names += length + (names[length] == ',');
    }
    return FAST_OK;
}

/* Note that there is a row, and end the reading. */
static fast_err stop_at_once(void *ctx, const void *row)
{
    (void)row;
    *(bool *)ctx = true;
    return FAST_ECANCELED;
}

/* True if the run has a row after `seq`. */
static bool has_row_after(fast_server *server, int64_t run, int64_t seq)
{
    bool found = false;

    (void)!fast_store_read(server->store, FAST_STORE_METRICS, run, seq, stop_at_once, &found);
    return found;
}

/* The number of the last row after `after`, by doubling and halving; `after` if no row follows. */
static int64_t last_row(fast_server *server, int64_t run, int64_t after)
{
    int64_t low = after, step = 1;

    while (step < (int64_t)1 << 40 && has_row_after(server, run, low + step - 1))
        step *= 2;
    for (; step > 0; step /= 2)
        if (has_row_after(server, run, low + step - 1))
            low += step;
    return low;
}

/* Read the arguments of the request. */
static fast_err read_request(metrics_stream *m, const fast_uri *uri)
{
    const char *resume = fast__uri_arg(uri, "after");
    int64_t after = 0, points;

    FAST_TRY(want_columns(&m->s, fast__uri_arg(uri, "columns")));
    FAST_TRY(fast__uri_count(uri, "every", 1, 1000000000, &m->thin.every));
    FAST_TRY(fast__uri_count(uri, "points", 0, ROWS_MAX, &points));
    if (resume && strcmp(resume, "-1") != 0)
        FAST_TRY(fast__uri_count(uri, "after", 0, INT64_MAX / 4, &after));
    m->seq = resume && strcmp(resume, "-1") != 0 ? after : -1;
    m->thin.passed = m->seq;
    if (points > 0) {
        const int64_t rows = last_row(m->server, m->run, m->seq) - m->seq;

        /* Of each bucket two rows stay. */
        m->thin.every = rows > points ? (2 * rows + points - 1) / points : 1;
    }
    if (m->thin.every < 1)
        m->thin.every = 1;
    return FAST_OK;
}

/* GET /api/runs/#/metrics. Errors are answered before the stream starts; later ones can only break
 * it off. */
void fast__serve_metrics(fast_server *server, fast_http_request *request, int64_t id)
{
    metrics_stream *m = NULL;
    fast_err err = fast__serve_find(server->store, id);

    if (!err)
        err = fast__alloc("metrics", 1, sizeof *m, &m);
    if (!err) {
        m->stream.next = next_piece;
        m->stream.free = free_stream;
        m->server = server;
        m->run = id;
        m->thin.to = &m->s;
        err = read_request(m, fast__request_uri(request));
    }
    if (err) {
        fast__free(m);
        fast__reply_err(request, err);
        return;
    }
    fast__reply_stream(request, 200, "application/json", &m->stream);
}
