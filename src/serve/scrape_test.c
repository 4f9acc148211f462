/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what Prometheus is given is OpenMetrics 1.0, whatever runs are called and whatever they
 * measured. Method: a strict parser of the format, written from its rules, reads what the writer
 * makes of ordinary, empty and hostile runs, and what a run that trains serves over a socket; the
 * parser is tried on texts that break each rule, or it would prove nothing.
 */
#include "base/utf8.h"
#include "serve/scrape.h"
#include "serve/serve_fixture.h"

enum { NAME_MAX_SIZE = 128, SERIES_MAX = 2000 };

/* State of the parser. */
typedef struct parser {
    const char *at;                         /* the next byte */
    char family[NAME_MAX_SIZE];             /* the current one; "" before the first */
    char type[16];                          /* of the family */
    char unit[32];                          /* of the family; "" */
    bool sampled;                           /* the family has samples */
    char families[64][NAME_MAX_SIZE];       /* all so far */
    int family_count;                       /* length of families */
    char series[SERIES_MAX][NAME_MAX_SIZE]; /* name and labels of samples, shortened by hashing */
    int series_count;                       /* length of series */
    const char *wrong;                      /* rule that is broken; or NULL */
} parser;

static bool breaks(parser *p, const char *rule)
{
    if (!p->wrong)
        p->wrong = rule;
    return false;
}

static bool take(parser *p, const char *text)
{
    const size_t length = strlen(text);

    if (strncmp(p->at, text, length) != 0)
        return false;
    p->at += length;
    return true;
}

/* A name, of metrics or of labels. */
static bool take_name(parser *p, char name[NAME_MAX_SIZE], bool colons)
{
    size_t used = 0;

    while ((*p->at >= 'a' && *p->at <= 'z') || (*p->at >= 'A' && *p->at <= 'Z') || *p->at == '_' ||
           (used > 0 && *p->at >= '0' && *p->at <= '9') || (colons && *p->at == ':')) {
        if (used == NAME_MAX_SIZE - 1)
            return breaks(p, "name too long");
        name[used++] = *p->at++;
    }
    name[used] = '\0';
    return used > 0 ? true : breaks(p, "a name is missing");
}

/* Escaped text up to `end`, which is not taken. */
static bool take_text(parser *p, char end)
{
    while (*p->at && *p->at != end && *p->at != '\n') {
        const int length = fast__utf8_length(p->at, strlen(p->at));

        if (length == 0)
            return breaks(p, "not UTF-8");
        if (*p->at == '\\' && p->at[1] != '\\' && p->at[1] != '"' && p->at[1] != 'n')
            return breaks(p, "unknown escape");
        p->at += *p->at == '\\' ? 2 : length;
    }
    return *p->at == end ? true : breaks(p, "text does not end");
}

/* "# TYPE name type", "# UNIT name unit", "# HELP name text": in this order, before samples. */
static bool take_descriptor(parser *p)
{
    static const char *const types[] = { "info", "stateset", "counter", "gauge", "unknown" };
    char name[NAME_MAX_SIZE], word[NAME_MAX_SIZE];
    bool known = false;

    if (take(p, "TYPE ")) {
        if (!take_name(p, name, true) || !take(p, " ") || !take_name(p, word, false))
            return breaks(p, "TYPE is malformed");
        for (int i = 0; i < p->family_count; i++)
            if (strcmp(p->families[i], name) == 0)
                return breaks(p, "a family twice");
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            known |= strcmp(types[i], word) == 0;
        if (!known)
            return breaks(p, "unknown type");
        snprintf(p->families[p->family_count++], NAME_MAX_SIZE, "%s", name);
        snprintf(p->family, sizeof p->family, "%s", name);
        snprintf(p->type, sizeof p->type, "%.15s", word);
        p->unit[0] = '\0';
        p->sampled = false;
    } else if (take(p, "UNIT ") || take(p, "HELP ")) {
        const bool unit = p->at[-5] == 'U';

        if (!take_name(p, name, true) || strcmp(name, p->family) != 0 || !take(p, " "))
            return breaks(p, "a descriptor of another family");
        if (p->sampled)
            return breaks(p, "a descriptor after samples");
        if (!unit)
            return take_text(p, '\n') && take(p, "\n");
        if (!take_name(p, word, false) || strlen(word) + 1 >= strlen(name) ||
            strcmp(name + strlen(name) - strlen(word), word) != 0 ||
            name[strlen(name) - strlen(word) - 1] != '_')
            return breaks(p, "the unit is not the end of the name");
        if (strcmp(p->type, "info") == 0 || strcmp(p->type, "stateset") == 0)
            return breaks(p, "a unit of what has none");
    } else {
        return breaks(p, "unknown descriptor");
    }
    return take(p, "\n") ? true : breaks(p, "a line does not end");
}

/* {a="b",c="d"}; *state is true where a label is named as the family. */
static bool take_labels(parser *p, bool *state)
{
    char names[32][NAME_MAX_SIZE];
    int count = 0;

    do {
        if (count == 32 || !take_name(p, names[count], false))
            return breaks(p, "labels are malformed");
        for (int i = 0; i < count; i++)
            if (strcmp(names[i], names[count]) == 0)
                return breaks(p, "a label twice");
        *state |= strcmp(names[count], p->family) == 0;
        count++;
        if (!take(p, "=\"") || !take_text(p, '"') || !take(p, "\""))
            return breaks(p, "a label is malformed");
    } while (take(p, ","));
    return take(p, "}") ? true : breaks(p, "labels do not end");
}

/* name{labels} value */
static bool take_sample(parser *p)
{
    const char *start = p->at;
    char name[NAME_MAX_SIZE];
    const size_t length = strlen(p->family);
    const bool counter = strcmp(p->type, "counter") == 0, info = strcmp(p->type, "info") == 0;
    bool state = false;
    double value;
    char *end;

    if (!take_name(p, name, true) || strncmp(name, p->family, length) != 0 || !p->family[0])
        return breaks(p, "a sample of another family");
    if (strcmp(name + length, counter ? "_total" : info ? "_info" : "") != 0)
        return breaks(p, "the wrong suffix");
    if (take(p, "{") && !take_labels(p, &state))
        return false;
    if (strcmp(p->type, "stateset") == 0 && !state)
        return breaks(p, "a state without its label");
    if (p->series_count == SERIES_MAX)
        return breaks(p, "too many samples");
    snprintf(p->series[p->series_count], NAME_MAX_SIZE, "%.*s", (int)(p->at - start), start);
    for (int i = 0; i < p->series_count; i++)
        if (p->at - start < NAME_MAX_SIZE && strcmp(p->series[i], p->series[p->series_count]) == 0)
            return breaks(p, "a sample twice");
    p->series_count++;
    if (!take(p, " "))
        return breaks(p, "no value");
    if (strchr("nN ", *p->at))
        return breaks(p, "not a number");
    value = strtod(p->at, &end);
    if (end == p->at || *end != '\n')
        return breaks(p, "the value is malformed");
    if (counter && !(value >= 0 && isfinite(value)))
        return breaks(p, "a counter is not a count");
    if ((info && value != 1) || (strcmp(p->type, "stateset") == 0 && value != 0 && value != 1))
        return breaks(p, "an info or a state is not 1");
    p->at = end + 1;
    p->sampled = true;
    return true;
}

/* NULL if the text is OpenMetrics, else which rule it breaks. */
static const char *check(const char *text)
{
    static parser p;

    memset(&p, 0, sizeof p);
    p.at = text;
    for (;;) {
        if (take(&p, "# EOF\n"))
            return *p.at ? "something follows the end" : NULL;
        if (*p.at == '\0')
            return "no end";
        if (!(take(&p, "# ") ? take_descriptor(&p) : take_sample(&p)))
            return p.wrong ? p.wrong : "malformed";
    }
}

static void test_parser(void **state)
{
    static const char *const right[] = {
        "# EOF\n",
        "# TYPE a gauge\na 1\n# EOF\n",
        "# TYPE a_s counter\n# UNIT a_s s\n# HELP a_s x \\\\ y\na_s_total{l=\"\\n\"} 1e+06\n# "
        "EOF\n",
        "# TYPE s stateset\ns{s=\"x\"} 1\ns{s=\"y\"} 0\n# EOF\n",
        "# TYPE a gauge\na{r=\"1\"} +Inf\na{r=\"2\"} -0.5\n# EOF\n",
    };
    static const char *const wrong[] = {
        "",
        "a 1\n# EOF\n",
        "# TYPE a gauge\na 1\n",
        "# TYPE a gauge\na 1\n# EOF\nx",
        "# TYPE a gauge\na 1\na 2\n# EOF\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na{x=\"1\"} 1\n# EOF\n",
        "# TYPE a counter\na 1\n# EOF\n",
        "# TYPE a counter\na_total -1\n# EOF\n",
        "# TYPE a gauge\n# UNIT a s\na 1\n# EOF\n",
        "# TYPE a gauge\na{l=\"x\ny\"} 1\n# EOF\n",
        "# TYPE a gauge\na{l=\"\\x\"} 1\n# EOF\n",
        "# TYPE a gauge\na{l=\"\xff\"} 1\n# EOF\n",
        "# TYPE a gauge\na{l=\"1\",l=\"2\"} 1\n# EOF\n",
        "# TYPE a gauge\na null\n# EOF\n",
        "# TYPE a gauge\na nan\n# EOF\n",
        "# TYPE a gauge\na 1 \n# EOF\n",
        "# TYPE a info\na_info{x=\"y\"} 2\n# EOF\n",
        "# TYPE s stateset\ns 1\n# EOF\n",
        "# TYPE a nonsense\na 1\n# EOF\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        assert_null(check(right[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!check(wrong[i]))
            fail_msg("the parser takes: %s", wrong[i]);
}

static void test_runs(void **state)
{
    fast_scrape scrape = { .samples = { { .bytes = NULL } } };
    fast_page page = { .bytes = NULL };
    fast_stored_run run = empty_run("a \"quoted\"\\name\nof two lines \xff\xc3");

    (void)state;
    for (int i = 1; i <= 3; i++) {
        run.id = i;
        run.status = i == 1 ? "running" : i == 2 ? "diverged" : "interrupted";
        run.loss = i == 2 ? INFINITY : 0.1 * i;
        run.steps = 1000 * i;
        run.samples = i == 3 ? -1 : INT64_MAX / 2;
        run.bytes_sent = (int64_t)1 << 40;
        fast__scrape_add(&scrape, &run);
    }
    fast__scrape_end(&scrape, &page);
    assert_false(page.failed);
    if (check(page.bytes))
        fail_msg("%s: %s", check(page.bytes), page.bytes);
    assert_non_null(strstr(page.bytes, "fast_run_loss{run=\"2\"} +Inf\n"));
    assert_non_null(strstr(page.bytes, "fast_run_loss{run=\"1\"} 0.1\n"));
    assert_non_null(strstr(page.bytes, "fast_run_steps_total{run=\"3\"} 3000\n"));
    assert_null(strstr(page.bytes, "fast_run_samples_total{run=\"3\"}"));
    assert_non_null(strstr(page.bytes, "fast_run_sent_bytes_total{run=\"1\"} 1099511627776\n"));
    assert_non_null(strstr(page.bytes, "{run=\"2\",fast_run_status=\"diverged\"} 1\n"));
    assert_non_null(strstr(page.bytes, "name=\"a \\\"quoted\\\"\\\\name\\nof two lines "));
    fast__page_fini(&page);
    /* Nothing at all. */
    fast__scrape_end(&scrape, &page);
    assert_string_equal(page.bytes, "# EOF\n");
    fast__page_fini(&page);
}

/* A run that trains, asked over a socket: before, and after. */
static void test_exporter(void **state)
{
    const char *options[] = { "model=mlp:hidden=8", "data=digits:train=256,test=64", "steps=5",
                              "batch=16",           "name=an \"odd\" name",          NULL };
    stage s = { .reply = malloc(REPLY_MAX) };
    fast_exporter *exporter = NULL, *second = NULL;
    fast_run *run = NULL;
    char headers[64];

    (void)state;
    assert_non_null(s.reply);
    assert_ok(fast_run_open(options, &run));
    assert_ok(fast_exporter_open(run, 0, &exporter));
    s.port = (int)fast_exporter_port(exporter);
    snprintf(headers, sizeof headers, "Host: 127.0.0.1:%d\r\n", s.port);
    assert_int_equal(ask_with(&s, "GET", "/metrics", headers, NULL), 200);
    assert_null(check(body_of(&s)));
    assert_true(replied(&s, "fast_run_status=\"running\"} 1\n"));
    assert_true(replied(&s, "fast_run_steps_total 0\n"));
    assert_ok(fast_run_train(run));
    fast_exporter_update(exporter, fast_run_result(run));
    assert_int_equal(ask_with(&s, "GET", "/metrics", headers, NULL), 200);
    assert_null(check(body_of(&s)));
    assert_true(replied(&s, "fast_run_steps_total 5\n"));
    assert_true(replied(&s, "fast_run_status=\"done\"} 1\n"));
    assert_true(replied(&s, "an \\\"odd\\\" name"));
    /* Nothing else, and not for others. */
    assert_int_equal(ask_with(&s, "GET", "/", headers, NULL), 401);
    assert_int_equal(ask_with(&s, "GET", "/metrics", "Host: evil.example\r\n", NULL), 403);
    assert_int_equal(fast_exporter_open(run, s.port, &second), FAST_EIO);
    assert_int_equal(fast_exporter_open(run, 70000, &second), FAST_EINVAL);
    fast_exporter_close(exporter);
    fast_exporter_close(NULL);
    fast_run_close(run);
    free(s.reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parser), cmocka_unit_test(test_runs),
                                        cmocka_unit_test(test_exporter) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
