/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster file: YAML, read with libfyaml. All keys are optional; values are those of
 * cluster_value.c, and the defaults are those of the preset ethernet-10g.
 *
 *     nodes:
 *       count: 8              # default: one for each actor of the largest role
 *       speed: 20GFLOP/s      # speed, memory, jitter, cores, capacity, zone: of every node
 *       zone: west
 *       overrides:            # nodes that differ; needs `count`
 *         - nodes: 4-7        # a node, a range, or a list [0, 2, 4-7]
 *           zone: east
 *           speed: 10GFLOP/s
 *     links:
 *       latency: 20us         # latency, bandwidth, stream, overhead, eager, packet, jitter,
 *       bandwidth: 10Gbit/s   # contention, loss, duplicate, reorder, retry: of every link
 *       local:                # inside a node: latency, bandwidth
 *         latency: 500ns
 *       overrides:            # links that differ; the last match wins
 *         - between: [west, east]   # zones, both directions; [west, west]: inside a zone
 *           latency: 30ms
 *         - from: 0                 # one direction between two nodes
 *           to: 3
 *           loss: 1%
 *     detection: 500ms        # until a silent actor is suspected
 *     placement:              # nodes of a role's actors; default: node i for actor i
 *       server: [0, 4]
 *
 * The file is not trusted: it has at most FAST_CLUSTER_FILE_MAX bytes, aliases are refused, nesting
 * is limited by the library, counts by the constants of cluster.h.
 */
#include "transport/sim/cluster.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "transport/sim/fault.h"

#include <stdio.h>
#include <string.h>

#ifndef FAST_HAVE_YAML

fast_err fast__cluster_parse(const char *where, const char *text, size_t size, fast_cluster **out)
{
    (void)text;
    (void)size;
    (void)out;
    return fast__fail(FAST_ENOTSUP,
                      "%s: this build reads no cluster files; install libfyaml-dev and configure "
                      "with -DFAST_YAML=ON",
                      where);
}

#else

#include <libfyaml.h>

enum {
    TEXT_MAX = 64,  /* bytes of a scalar */
    RANGES_MAX = 64 /* ranges in a list of nodes */
};

/* The state of reading a file. */
typedef struct cluster_reader {
    fast_cluster *cluster; /* read so far */
    fast_node_spec node;   /* of every node */
    fast_link_draft link;  /* between nodes */
    fast_link_draft local; /* inside a node */
} cluster_reader;

/* Handles one key of a mapping. */
typedef fast_err key_fn(cluster_reader *r, void *ctx, const char *key, struct fy_node *value);

/* Copy a scalar as text. FAST_EFORMAT. */
static fast_err text_of(const char *what, struct fy_node *node, char text[TEXT_MAX])
{
    size_t size = 0;
    const char *bytes = NULL;

    if (node && fy_node_is_scalar(node) && !fy_node_is_alias(node))
        bytes = fy_node_get_scalar(node, &size);
    if (!bytes || size == 0)
        return fast__fail(FAST_EFORMAT, "%.40s needs a value", what);
    if (size >= TEXT_MAX || memchr(bytes, 0, size))
        return fast__fail(FAST_EFORMAT, "%.40s: the value is too long", what);
    memcpy(text, bytes, size);
    text[size] = 0;
    return FAST_OK;
}

/* Call `set` for each pair of a mapping. */
static fast_err each_key(cluster_reader *r, const char *what, struct fy_node *map, key_fn *set,
                         void *ctx)
{
    void *at = NULL;
    struct fy_node_pair *pair;

    if (!map || !fy_node_is_mapping(map) || fy_node_is_alias(map))
        return fast__fail(FAST_EFORMAT, "%.40s needs keys and values", what);
    while ((pair = fy_node_mapping_iterate(map, &at)) != NULL) {
        char key[TEXT_MAX];
        FAST_TRY(text_of(what, fy_node_pair_key(pair), key));
        FAST_TRY(set(r, ctx, key, fy_node_pair_value(pair)));
    }
    return FAST_OK;
}

static const char *name_at(const void *ctx, int64_t i)
{
    return ((const char *const *)ctx)[i];
}

/* FAST_EINVAL if a key is not one of `names`. */
static fast_err check_key(const char *kind, const char *key, const char *const *names,
                          int64_t count)
{
    return fast__name_find(key, name_at, names, count, NULL) >= 0
               ? FAST_OK
               : fast__name_unknown(kind, key, name_at, names, count);
}

/* Return the number of a zone, made at its first mention. */
static fast_err zone_of(fast_cluster *cluster, const char *name, int *out)
{
    for (int i = 0; i < cluster->zone_count; i++)
        if (strcmp(cluster->zones[i], name) == 0) {
            *out = i;
            return FAST_OK;
        }
    if (strlen(name) >= FAST_ZONE_MAX)
        return fast__fail(FAST_EFORMAT, "the zone \"%.40s\" has a name of over %d bytes", name,
                          FAST_ZONE_MAX - 1);
    if (cluster->zone_count == FAST_CLUSTER_ZONES_MAX)
        return fast__fail(FAST_EFORMAT, "there are over %d zones", FAST_CLUSTER_ZONES_MAX - 1);
    snprintf(cluster->zones[cluster->zone_count], FAST_ZONE_MAX, "%s", name);
    *out = cluster->zone_count++;
    return FAST_OK;
}

/* A range of nodes: 3 or 4-7. */
typedef struct node_range {
    int64_t first, last; /* both are in the range */
} node_range;

/* Parse a range. */
static fast_err range_of(const char *what, struct fy_node *node, node_range *out)
{
    char text[TEXT_MAX];
    FAST_TRY(text_of(what, node, text));
    char *dash = strchr(text, '-');

    if (dash)
        *dash = 0;
    FAST_TRY(fast__parse_int(what, text, &out->first));
    out->last = out->first;
    if (dash)
        FAST_TRY(fast__parse_int(what, dash + 1, &out->last));
    if (out->first < 0 || out->last < out->first || out->last >= FAST_CLUSTER_NODES_MAX)
        return fast__fail(FAST_EFORMAT, "%.40s: %lld-%lld is no range of nodes", what,
                          (long long)out->first, (long long)out->last);
    return FAST_OK;
}

/* Parse a range or a list of ranges. */
static fast_err ranges_of(const char *what, struct fy_node *node, node_range out[RANGES_MAX],
                          int64_t *count_out)
{
    void *at = NULL;
    struct fy_node *item;

    *count_out = 1;
    if (!node || !fy_node_is_sequence(node) || fy_node_is_alias(node))
        return range_of(what, node, &out[0]);
    *count_out = 0;
    while ((item = fy_node_sequence_iterate(node, &at)) != NULL) {
        if (*count_out == RANGES_MAX)
            return fast__fail(FAST_EFORMAT, "%.40s has over %d ranges", what, RANGES_MAX);
        FAST_TRY(range_of(what, item, &out[(*count_out)++]));
    }
    if (*count_out == 0)
        return fast__fail(FAST_EFORMAT, "%.40s is empty", what);
    return FAST_OK;
}

/* nodes: */

/* Set a property of a node; a zone is made at its first mention. */
static fast_err node_value(cluster_reader *r, fast_node_spec *node, const char *key,
                           struct fy_node *value)
{
    char text[TEXT_MAX];
    FAST_TRY(text_of(key, value, text));
    if (strcmp(key, "zone") == 0)
        return zone_of(r->cluster, text, &node->zone);
    return fast__node_set(node, key, text);
}

/* Handle a key of `nodes`: the count, and the properties of every node. */
static fast_err nodes_key(cluster_reader *r, void *ctx, const char *key, struct fy_node *value)
{
    static const char *const names[] = { "count",  "overrides", "speed", "memory",
                                         "jitter", "cores",     "zone",  "capacity" };
    enum { COUNT = sizeof names / sizeof names[0] };
    char text[TEXT_MAX];

    (void)ctx;
    FAST_TRY(check_key("key of nodes", key, names, COUNT));
    if (strcmp(key, "overrides") == 0)
        return FAST_OK; /* read when the other keys are known */
    if (strcmp(key, "count") != 0)
        return node_value(r, &r->node, key, value);
    FAST_TRY(text_of(key, value, text));
    FAST_TRY(fast__parse_int(key, text, &r->cluster->node_count));
    if (r->cluster->node_count < 1 || r->cluster->node_count > FAST_CLUSTER_NODES_MAX)
        return fast__fail(FAST_EFORMAT, "count is out of range: %s; there are 1 to %d nodes", text,
                          FAST_CLUSTER_NODES_MAX);
    return FAST_OK;
}

/* An override of nodes: its ranges are read first, then its values. */
typedef struct node_override {
    node_range ranges[RANGES_MAX]; /* nodes that it changes */
    int64_t count;                 /* number of ranges; 0: not given yet */
    fast_node_spec *node;          /* the node that is changed; NULL: read `nodes` only */
} node_override;

/* Handle a key of an override of nodes: in the first pass `nodes`, then the properties. */
static fast_err node_override_key(cluster_reader *r, void *ctx, const char *key,
                                  struct fy_node *value)
{
    static const char *const names[] = { "nodes", "speed", "memory",  "jitter",
                                         "cores", "zone",  "capacity" };
    enum { COUNT = sizeof names / sizeof names[0] };
    node_override *o = ctx;

    FAST_TRY(check_key("key of nodes", key, names, COUNT));
    if (strcmp(key, "nodes") == 0)
        return o->node ? FAST_OK : ranges_of("nodes", value, o->ranges, &o->count);
    return o->node ? node_value(r, o->node, key, value) : FAST_OK;
}

/* Apply all overrides of nodes in their order. FAST_EFORMAT if one names a node past the count. */
static fast_err node_overrides(cluster_reader *r, struct fy_node *list)
{
    fast_cluster *cluster = r->cluster;
    struct fy_node *item;
    void *at = NULL;

    if (!fy_node_is_sequence(list) || fy_node_is_alias(list))
        return fast__fail(FAST_EFORMAT, "overrides of nodes needs a list");
    while ((item = fy_node_sequence_iterate(list, &at)) != NULL) {
        node_override o = { .count = 0 };
        FAST_TRY(each_key(r, "an override of nodes", item, node_override_key, &o));
        if (o.count == 0)
            return fast__fail(FAST_EFORMAT, "an override of nodes does not say which nodes");
        for (int64_t i = 0; i < o.count; i++)
            for (int64_t n = o.ranges[i].first; n <= o.ranges[i].last; n++) {
                if (n >= cluster->spec_count)
                    return fast__fail(FAST_EFORMAT,
                                      "an override names node %lld, but the count of nodes is %lld",
                                      (long long)n, (long long)cluster->node_count);
                o.node = &cluster->nodes[n];
                FAST_TRY(each_key(r, "an override of nodes", item, node_override_key, &o));
            }
    }
    return FAST_OK;
}

/* links: */

/* Set a property of a link. */
static fast_err link_value(cluster_reader *r, void *ctx, const char *key, struct fy_node *value)
{
    char text[TEXT_MAX];
    (void)r;
    FAST_TRY(text_of(key, value, text));
    return fast__link_set(ctx, key, text);
}

/* Handle a key of `links`: the local link, and the properties of every link. */
static fast_err links_key(cluster_reader *r, void *ctx, const char *key, struct fy_node *value)
{
    static const char *const names[] = { "overrides", "local",      "latency", "bandwidth",
                                         "jitter",    "contention", "loss",    "duplicate",
                                         "reorder",   "retry",      "stream",  "overhead",
                                         "eager",     "packet" };
    enum { COUNT = sizeof names / sizeof names[0] };

    (void)ctx;
    FAST_TRY(check_key("key of links", key, names, COUNT));
    if (strcmp(key, "overrides") == 0)
        return FAST_OK;
    if (strcmp(key, "local") == 0)
        return each_key(r, "local", value, link_value, &r->local);
    return link_value(r, &r->link, key, value);
}

typedef struct link_override {
    fast_sim_link_spec spec; /* its ends */
    fast_link_draft link;    /* its properties */
    bool from, to;           /* these keys are given */
} link_override;

/* Read the two zones of an override of links, which must have nodes. */
static fast_err link_zones(cluster_reader *r, struct fy_node *value, fast_sim_link_spec *spec)
{
    void *at = NULL;
    char text[TEXT_MAX];
    int zones[2] = { 0, 0 };

    if (!value || !fy_node_is_sequence(value) || fy_node_is_alias(value) ||
        fy_node_sequence_item_count(value) != 2)
        return fast__fail(FAST_EFORMAT, "between needs two zones: [west, east]");
    for (int i = 0; i < 2; i++) {
        const int known = r->cluster->zone_count;
        FAST_TRY(text_of("between", fy_node_sequence_iterate(value, &at), text));
        FAST_TRY(zone_of(r->cluster, text, &zones[i]));
        if (zones[i] == known)
            return fast__fail(FAST_EFORMAT, "no node is in the zone \"%s\"", text);
    }
    spec->from = zones[0];
    spec->to = zones[1];
    spec->zones = spec->both = true;
    return FAST_OK;
}

/* Handle a key of an override of links: its ends or a property. */
static fast_err link_override_key(cluster_reader *r, void *ctx, const char *key,
                                  struct fy_node *value)
{
    static const char *const names[] = { "between",   "from",   "to",         "latency",
                                         "bandwidth", "jitter", "loss",       "duplicate",
                                         "reorder",   "retry",  "contention", "stream",
                                         "overhead",  "eager",  "packet" };
    enum { COUNT = sizeof names / sizeof names[0] };
    link_override *o = ctx;
    node_range one;

    FAST_TRY(check_key("key of links", key, names, COUNT));
    if (strcmp(key, "between") == 0)
        return link_zones(r, value, &o->spec);
    if (strcmp(key, "from") != 0 && strcmp(key, "to") != 0)
        return link_value(r, &o->link, key, value);
    FAST_TRY(range_of(key, value, &one));
    if (one.first != one.last)
        return fast__fail(FAST_EFORMAT, "%s is one node", key);
    if (r->cluster->node_count && one.last >= r->cluster->node_count)
        return fast__fail(FAST_EFORMAT, "a link has the node %lld, but there are %lld",
                          (long long)one.last, (long long)r->cluster->node_count);
    if (key[0] == 'f') {
        o->from = true;
        o->spec.from = one.first;
    } else {
        o->to = true;
        o->spec.to = one.first;
    }
    return FAST_OK;
}

/* Read all overrides of links; each starts with the properties of every link. */
static fast_err link_overrides(cluster_reader *r, struct fy_node *list)
{
    fast_cluster *cluster = r->cluster;
    struct fy_node *item;
    void *at = NULL;

    if (!fy_node_is_sequence(list) || fy_node_is_alias(list))
        return fast__fail(FAST_EFORMAT, "overrides of links needs a list");
    const int64_t count = fy_node_sequence_item_count(list);
    if (count > FAST_CLUSTER_LINKS_MAX)
        return fast__fail(FAST_EFORMAT, "there are over %d overrides of links",
                          FAST_CLUSTER_LINKS_MAX);
    FAST_TRY(fast__alloc("links", count, sizeof *cluster->links, &cluster->links));
    while ((item = fy_node_sequence_iterate(list, &at)) != NULL) {
        link_override o = { .link = r->link };
        FAST_TRY(each_key(r, "an override of links", item, link_override_key, &o));
        if (o.spec.zones ? o.from || o.to : !o.from || !o.to)
            return fast__fail(FAST_EFORMAT,
                              "an override of links needs either `between`, or `from` and `to`");
        o.spec.link = fast__link_make(&o.link);
        FAST_ASSERT(cluster->link_count < count);
        cluster->links[cluster->link_count++] = o.spec;
    }
    return FAST_OK;
}

/* placement: */

/* Read the placement of one role: a row for each range of nodes. */
static fast_err place_key(cluster_reader *r, void *ctx, const char *key, struct fy_node *value)
{
    fast_cluster *cluster = r->cluster;
    node_range ranges[RANGES_MAX];
    int64_t count = 0;

    (void)ctx;
    if (strlen(key) >= FAST_ZONE_MAX)
        return fast__fail(FAST_EFORMAT, "the role \"%.40s\" has a name of over %d bytes", key,
                          FAST_ZONE_MAX - 1);
    FAST_TRY(ranges_of(key, value, ranges, &count));
    for (int64_t i = 0; i < count; i++) {
        if (cluster->node_count && ranges[i].last >= cluster->node_count)
            return fast__fail(FAST_EFORMAT, "%s is placed on node %lld, but there are %lld", key,
                              (long long)ranges[i].last, (long long)cluster->node_count);
        if (cluster->place_count == FAST_CLUSTER_PLACES_MAX)
            return fast__fail(FAST_EFORMAT, "the placement has over %d rows",
                              FAST_CLUSTER_PLACES_MAX);
        fast_place_spec *place = &cluster->places[cluster->place_count++];
        snprintf(place->role, sizeof place->role, "%s", key);
        place->first = ranges[i].first;
        place->last = ranges[i].last;
    }
    return FAST_OK;
}

/* Handle a key of the root. Values that depend on others are read later, in any order of keys. */
static fast_err root_key(cluster_reader *r, void *ctx, const char *key, struct fy_node *value)
{
    static const char *const names[] = { "nodes", "links", "detection", "placement" };
    enum { COUNT = sizeof names / sizeof names[0] };
    char text[TEXT_MAX];

    (void)ctx;
    FAST_TRY(check_key("key of a cluster", key, names, COUNT));
    if (strcmp(key, "nodes") == 0)
        return each_key(r, "nodes", value, nodes_key, NULL);
    if (strcmp(key, "links") == 0)
        return each_key(r, "links", value, links_key, NULL);
    if (strcmp(key, "placement") == 0)
        return FAST_OK; /* read when all nodes are known */
    FAST_TRY(text_of(key, value, text));
    FAST_TRY(fast__time_parse(key, text, &r->cluster->detection_ns));
    if (r->cluster->detection_ns < 0)
        return fast__fail(FAST_EFORMAT, "detection is negative: %s", text);
    return FAST_OK;
}

/* Return the value of `key` in the mapping `of` of the root, or in the root if `of` is NULL. */
static struct fy_node *find(struct fy_node *root, const char *of, const char *key)
{
    struct fy_node *map = of ? fy_node_mapping_lookup_by_string(root, of, FY_NT) : root;
    return map ? fy_node_mapping_lookup_by_string(map, key, FY_NT) : NULL;
}

/* Read the root, then the values that depend on the count of nodes and on zones. */
static fast_err read_all(cluster_reader *r, struct fy_node *root)
{
    fast_cluster *cluster = r->cluster;

    cluster->zone_count = 1;
    FAST_TRY(each_key(r, "a cluster", root, root_key, NULL));
    cluster->spec_count = cluster->node_count ? cluster->node_count : 1;
    FAST_TRY(fast__alloc("nodes", cluster->spec_count, sizeof *cluster->nodes, &cluster->nodes));
    for (int64_t i = 0; i < cluster->spec_count; i++)
        cluster->nodes[i] = r->node;
    struct fy_node *part = find(root, "nodes", "overrides");
    if (part && !cluster->node_count)
        return fast__fail(FAST_EFORMAT, "overrides of nodes need a count of nodes");
    if (part)
        FAST_TRY(node_overrides(r, part));
    part = find(root, "links", "overrides");
    if (part)
        FAST_TRY(link_overrides(r, part));
    part = find(root, NULL, "placement");
    if (part) {
        FAST_TRY(fast__alloc("placement", FAST_CLUSTER_PLACES_MAX, sizeof *cluster->places,
                             &cluster->places));
        FAST_TRY(each_key(r, "placement", part, place_key, NULL));
    }
    cluster->link = fast__link_make(&r->link);
    cluster->local = fast__link_make(&r->local);
    return FAST_OK;
}

/* Fail with the library's first error about a file that is not YAML. */
static fast_err not_yaml(struct fy_diag *diag)
{
    void *at = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &at);

    if (!error || !error->msg)
        return fast__fail(FAST_EFORMAT, "it is empty, or not YAML");
    return fast__fail(FAST_EFORMAT, "it is not YAML: line %d: %s", error->line, error->msg);
}

/* Parse the text with the library and read the document. */
static fast_err parse(struct fy_diag *diag, const char *text, size_t size, cluster_reader *r)
{
    const struct fy_parse_cfg config = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG, .diag = diag };
    struct fy_parser *parser = fy_parser_create(&config);
    struct fy_document *document = NULL, *second = NULL;

    if (!parser || fy_parser_set_string(parser, text, size) != 0) {
        fy_parser_destroy(parser);
        return fast__fail(FAST_ENOMEM, "no memory to read it");
    }
    document = fy_parse_load_document(parser);
    if (document)
        second = fy_parse_load_document(parser);
    fast_err err = FAST_OK;
    if (!document || fy_parser_get_stream_error(parser))
        err = not_yaml(diag);
    else if (second)
        err = fast__fail(FAST_EFORMAT, "it has a second document; a file describes one cluster");
    else if (!fy_document_root(document))
        err = fast__fail(FAST_EFORMAT, "it is empty");
    else
        err = read_all(r, fy_document_root(document));
    fy_parse_document_destroy(parser, second);
    fy_parse_document_destroy(parser, document);
    fy_parser_destroy(parser);
    return err;
}

/* FAST_EFORMAT unless the text is UTF-8 without control characters and directives. */
static fast_err check_text(const char *text, size_t size)
{
    int64_t line = 1;

    for (size_t i = 0; i < size;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t length = (size_t)fast__utf8_length(text + i, size - i);
        if (length == 0 || (c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
            return fast__fail(FAST_EFORMAT, "line %lld has a byte that is no text: %#x",
                              (long long)line, c);
        /* Line breaks of other alphabets and byte order marks are not ASCII. */
        const unsigned char last = i ? (unsigned char)text[i - 1] : '\n';
        if (c == '%' && (last == '\n' || last == '\r' || last >= 0x80))
            return fast__fail(FAST_EFORMAT, "line %lld is a directive, which is not needed",
                              (long long)line);
        line += c == '\n';
        i += length;
    }
    return FAST_OK;
}

fast_err fast__cluster_parse(const char *where, const char *text, size_t size, fast_cluster **out)
{
    const struct fy_diag_cfg config = { .level = FYET_ERROR };
    cluster_reader r = { .node = { .speed = 20e9, .memory = 10e9 },
                         .link = { .latency_ns = 20000, .bandwidth = 1.25e9, .contention = true },
                         .local = { .latency_ns = 500, .bandwidth = 10e9 } };
    struct fy_diag *diag;

    if (size == 0)
        return fast__fail(FAST_EFORMAT, "%s: it is empty", where);
    const fast_err text_err = check_text(text, size);
    if (text_err)
        return fast__fail_in(text_err, where);
    FAST_TRY(fast__alloc("a cluster", 1, sizeof *r.cluster, &r.cluster));
    r.cluster->detection_ns = 500000000;
    diag = fy_diag_create(&config);
    if (!diag) {
        fast__cluster_free(r.cluster);
        return fast__fail(FAST_ENOMEM, "no memory for reading %s", where);
    }
    fy_diag_set_collect_errors(diag, true);
    const fast_err err = parse(diag, text, size, &r);
    fy_diag_destroy(diag);
    if (err) {
        fast__cluster_free(r.cluster);
        return fast__fail_in(err, where);
    }
    *out = r.cluster;
    return FAST_OK;
}

#endif
