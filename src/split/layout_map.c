/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout maps: from "conv=samples,dense=pairs" to entries. A layer without parameters has no name
 * of its own and is named by its operator.
 */
#include "split/layout_map.h"

#include "split/kinds.h"

#include <stdio.h>
#include <string.h>

static const char STANDARD[] = "attention=pairs,dense=pairs,experts=experts,add=branches";

/* Find a kind by its name; FAST_EINVAL with the list of all. */
static fast_err find_kind(const char *name, const fast_split_kind **out)
{
    char list[256] = "";

    for (const fast_split_kind *const *kind = fast__split_kinds; *kind; kind++) {
        const size_t used = strlen(list);

        if (strcmp((*kind)->name, name) == 0) {
            *out = *kind;
            return FAST_OK;
        }
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", (*kind)->name);
    }
    return fast__fail(FAST_EINVAL, "layout: no kind of split \"%.40s\"; there are %s", name, list);
}

/* Parse one entry, "conv=samples" or "samples". */
static fast_err parse_entry(const char *text, fast_layout_entry *out)
{
    const char *kind = strchr(text, '=');
    const int length = kind ? (int)(kind - text) : 0;

    if (kind && (length == 0 || (size_t)length >= sizeof out->layers))
        return fast__fail(FAST_EINVAL,
                          "layout: \"%.40s\" names no layers; write LAYERS=KIND, like conv=samples",
                          text);
    snprintf(out->layers, sizeof out->layers, "%.*s", length, text);
    return find_kind(kind ? kind + 1 : text, &out->kind);
}

/* Names of dimensions, and the layers and kinds that split them. */
static const char *const dimensions[][2] = {
    { "vocab", "embed=vocabulary,output=vocabulary" },
    { "heads", "attention=pairs" },
    { "hidden", "dense=pairs" },
    { "batch", "samples" },
    { "rows", "spatial" },
};

/* Return the entries of a dimension; NULL: the word names none. */
static const char *find_dimension(const char *word)
{
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++)
        if (strcmp(word, dimensions[i][0]) == 0)
            return dimensions[i][1];
    return NULL;
}

/* Append the entries of a text; those of a dimension are texts of their own. */
static fast_err append_entries(const char *text, bool names, fast_layout_map *map)
{
    char entry[FAST_SEGMENT_NAME_MAX + 64];

    for (const char *at = text; at;) {
        const char *comma = strchr(at, ',');
        const int length = comma ? (int)(comma - at) : (int)strlen(at);

        if ((size_t)length >= sizeof entry)
            return fast__fail(FAST_EINVAL, "layout: \"%.40s...\" is too long", at);
        snprintf(entry, sizeof entry, "%.*s", length, at);
        at = comma ? comma + 1 : NULL;
        const char *dimension = names ? find_dimension(entry) : NULL;
        if (dimension) {
            FAST_TRY(append_entries(dimension, false, map));
            continue;
        }
        if (map->count == FAST_LAYOUT_ENTRIES_MAX)
            return fast__fail(FAST_EINVAL, "layout: more than %d entries", FAST_LAYOUT_ENTRIES_MAX);
        FAST_TRY(parse_entry(entry, &map->entries[map->count]));
        map->count++;
    }
    return FAST_OK;
}

fast_err fast__layout_map_parse(const char *text, fast_layout_map *out)
{
    fast_layout_map map = { .count = 0 };

    FAST_TRY(append_entries(text[0] ? text : STANDARD, true, &map));
    *out = map;
    return FAST_OK;
}

/* Is it the last node of the network, not of a stage before the last? */
static bool is_output(const fast_graph *graph, int node)
{
    return node == graph->node_count - 1 && graph->loss_use != FAST_LOSS_ELSEWHERE;
}

/* Does an entry name a node: its operator, its layer, which is LAYER in LAYER.weight, or the last
 * one as output? */
static bool names(const char *layers, const fast_graph *graph, int node)
{
    const fast_node *n = &graph->nodes[node];
    const size_t length = strlen(layers);

    if (length == 0 || strcmp(layers, fast__op_name(n->op)) == 0 ||
        (is_output(graph, node) && strcmp(layers, "output") == 0))
        return true;
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++) {
        const char *name = n->weight[w] >= 0 ? graph->params.segments[n->weight[w]].name : "";

        if (strncmp(name, layers, length) == 0 && name[length] == '.' &&
            !strchr(name + length + 1, '.'))
            return true;
    }
    return false;
}

int fast__layout_map_find(const fast_layout_map *map, const fast_graph *graph, int node)
{
    FAST_ASSERT(node >= 0 && node < graph->node_count);
    for (int i = 0; i < map->count; i++)
        if (names(map->entries[i].layers, graph, node))
            return i;
    return -1;
}

/* Append an operator to a list, unless the list has it. */
static void list_operator(const char *name, char *list, size_t size)
{
    const size_t used = strlen(list), length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ','))
            return;
    snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", name);
}

/* Write the name of the first layer with parameters, which is LAYER in LAYER.weight; "" if the
 * network has no parameters. */
static void first_layer(const fast_graph *graph, char *text, size_t size)
{
    const char *name = graph->params.segment_count > 0 ? graph->params.segments[0].name : "";
    const char *dot = strrchr(name, '.');

    snprintf(text, size, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
}

fast_err fast__layout_map_check(const fast_layout_map *map, const fast_graph *graph)
{
    char operators[256] = "", layer[FAST_SEGMENT_NAME_MAX];

    for (int i = 0; i < map->count; i++) {
        const fast_layout_entry *entry = &map->entries[i];
        bool found = false, counts = false;

        for (int k = 1; k < graph->node_count && !counts; k++) {
            found = found || names(entry->layers, graph, k);
            counts = fast__layout_map_find(map, graph, k) == i;
        }
        if (counts)
            continue;
        if (found)
            return fast__fail(FAST_EINVAL,
                              "layout %s%s%s: entries before it name all of its layers, and the "
                              "first one counts; leave it out, or put it first",
                              entry->layers, entry->layers[0] ? "=" : "", entry->kind->name);
        for (int k = 1; k < graph->node_count; k++)
            list_operator(fast__op_name(graph->nodes[k].op), operators, sizeof operators);
        first_layer(graph, layer, sizeof layer);
        return fast__fail(FAST_EINVAL,
                          "layout %s=%s: the model has no layer %s; it has %s; a layer has a name, "
                          "like %s, and the last one is output",
                          entry->layers, entry->kind->name, entry->layers, operators, layer);
    }
    return FAST_OK;
}
