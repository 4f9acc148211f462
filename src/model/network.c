/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network language: text to layers, a line at a time.
 *
 *     line    = [name ":"] layer {word} {key "=" value} ["from" name {name}] ["#" comment]
 *     name    = letter or "_", then letters, digits, "_", "-", "."
 *
 * A bare word sets the layer's main option (conv 20 = conv outputs=20); for add and concat bare
 * words are inputs; for input they are the shape. A layer without `from` reads the layer above.
 * Layers without a name get operator and ordinal: conv1, conv2, dense1. Everything that does not
 * depend on shapes is checked here, at once; build.c does the rest when the data are known.
 *
 * A line is parsed into a draft, and the draft is appended only if all of it is correct:
 *
 *     split_words -> take_line: name, layer -> take_words: options, inputs -> check_line -> append
 *
 * Text is untrusted: every length and count has a limit, and only printable ASCII is accepted.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "model/layer.h"
#include "model/network_text.h"

#include <stdio.h>
#include <string.h>

/* A line under construction: it enters the network only if all of it is correct. */
typedef struct network_draft {
    fast_network *network;       /* network that the line will extend */
    int line;                    /* its number, from 1 */
    char text[FAST_LINE_MAX];    /* copy of the line, cut into words */
    char *words[FAST_WORDS_MAX]; /* words, in `text` */
    int word_count;              /* number of words */
    fast_layer layer;            /* result so far */
    uint64_t seen;               /* bit i: option i of the layer's table was set */
    char where[64];              /* "line 3: conv", for messages of the option parser */
} network_draft;

/* A letter or an underscore. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A character that a name may contain. */
static bool is_name_char(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

/* Tell whether a text has a suffix. */
static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text);
    const size_t m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Name of layer `i`, for fast__name_find(). */
static const char *layer_label(const void *ctx, int64_t i)
{
    return ((const fast_network *)ctx)->layers[i].label;
}

/* Return the layer of this name, or -1. fast__name_find() also looks for similar names, which is
 * too slow for a search at every line. */
static int find_label(const fast_network *network, const char *name)
{
    const uint64_t hash = fast__hash(name, strlen(name), 0);

    for (int i = network->layer_count - 1; i >= 0; i--)
        if (network->layers[i].hash == hash && strcmp(network->layers[i].label, name) == 0)
            return i;
    return -1;
}

/* Copy the line without its comment, and split it into words. */
static fast_err split_words(network_draft *d, const char *line, size_t size)
{
    bool inside = false;
    size_t n = 0;

    for (; n < size && line[n] != '#'; n++) {
        const unsigned char c = (unsigned char)line[n];
        const bool space = c == ' ' || c == '\t' || c == '\r';
        if (n + 1 >= FAST_LINE_MAX)
            return fast__fail(FAST_EINVAL, "line %d: longer than %d bytes", d->line,
                              FAST_LINE_MAX - 1);
        if (!space && (c <= ' ' || c > '~'))
            return fast__fail(FAST_EINVAL, "line %d: byte %zu is 0x%02x; only ASCII text is read",
                              d->line, n + 1, c);
        d->text[n] = space ? '\0' : (char)c;
        if (!space && !inside) {
            if (d->word_count == FAST_WORDS_MAX)
                return fast__fail(FAST_EINVAL, "line %d: more than %d words", d->line,
                                  FAST_WORDS_MAX);
            d->words[d->word_count++] = d->text + n;
        }
        inside = !space;
    }
    d->text[n] = '\0';
    return FAST_OK;
}

/* Name the layer; FAST_EINVAL if the name is malformed or in use. */
static fast_err set_label(network_draft *d, const char *name)
{
    int other = 0;

    if (!is_letter(name[0]))
        return fast__fail(FAST_EINVAL, "line %d: \"%.40s\" is no name; begin with a letter",
                          d->line, name);
    for (const char *c = name; *c; c++)
        if (!is_name_char(*c))
            return fast__fail(FAST_EINVAL,
                              "line %d: no '%c' in a name (\"%.40s\"); use letters, digits, _ - .",
                              d->line, *c, name);
    if (strlen(name) >= FAST_LABEL_MAX)
        return fast__fail(FAST_EINVAL, "line %d: the name \"%.20s...\" is longer than %d bytes",
                          d->line, name, FAST_LABEL_MAX - 1);
    /* Such names would give a weight the name of another layer's weight. */
    if (strcmp(name, "from") == 0 || ends_with(name, ".position") || ends_with(name, ".out_proj"))
        return fast__fail(FAST_EINVAL,
                          "line %d: the name \"%s\" is taken by the language; choose "
                          "another",
                          d->line, name);
    other = find_label(d->network, name);
    if (other >= 0)
        return fast__fail(FAST_EINVAL, "line %d: the name \"%s\" is taken by line %d", d->line,
                          name, d->network->layers[other].line);
    memcpy(d->layer.label, name, strlen(name) + 1);
    d->layer.hash = fast__hash(name, strlen(name), 0);
    return FAST_OK;
}

/* Name the layer by operator and ordinal: conv1, conv2. */
static fast_err set_default_label(network_draft *d, const char *op_name)
{
    char name[FAST_LABEL_MAX + 16];

    if (d->layer.op == FAST_OP_INPUT)
        return set_label(d, "input");
    snprintf(name, sizeof name, "%.40s%d", op_name, d->network->ordinal[d->layer.op] + 1);
    return set_label(d, name);
}

/* Add an input by name. */
static fast_err add_input(network_draft *d, const char *name)
{
    const fast_network *network = d->network;
    const char *nearest = NULL;
    const int i = find_label(network, name);

    if (i < 0)
        fast__name_find(name, layer_label, network, network->layer_count, &nearest);
    if (i < 0 && nearest)
        return fast__fail(FAST_EINVAL, "%s: no layer is named \"%.40s\"; did you mean \"%s\"?",
                          d->where, name, nearest);
    if (i < 0)
        return fast__fail(FAST_EINVAL, "%s: no layer above is named \"%.40s\"", d->where, name);
    if (d->layer.input_count == FAST_INPUTS_MAX)
        return fast__fail(FAST_EINVAL, "%s: more than %d inputs", d->where, FAST_INPUTS_MAX);
    for (int j = 0; j < d->layer.input_count; j++)
        if (d->layer.inputs[j] == i)
            return fast__fail(FAST_EINVAL, "%s: \"%s\" is named twice", d->where, name);
    d->layer.inputs[d->layer.input_count++] = i;
    return FAST_OK;
}

/* Add a dimension of the `input` line. */
static fast_err add_dimension(network_draft *d, const char *word)
{
    char what[96];
    int64_t n = 0;

    snprintf(what, sizeof what, "%s", d->where);
    FAST_TRY(fast__parse_int(what, word, &n));
    if (n < 1 || n >= FAST_COUNT_MAX)
        return fast__fail(FAST_EINVAL, "%s: a dimension of %lld; at least 1", d->where,
                          (long long)n);
    if (d->layer.rank == 3)
        return fast__fail(FAST_EINVAL, "%s: more than 3 dimensions", d->where);
    d->layer.shape[d->layer.rank++] = n;
    return FAST_OK;
}

/* Set an option, at most once. */
static fast_err set_option(network_draft *d, const fast_option *table, const char *name,
                           const char *value)
{
    FAST_TRY(fast__options_set(d->where, table, &d->layer.config, name, value));
    for (int i = 0; table && table[i].name; i++) {
        if (strcmp(table[i].name, name) != 0)
            continue;
        if (d->seen >> i & 1)
            return fast__fail(FAST_EINVAL, "%s: %s is given twice", d->where, name);
        d->seen |= (uint64_t)1 << i;
    }
    return FAST_OK;
}

/* A word that is neither key=value nor after `from`. */
static fast_err take_word(network_draft *d, const fast_option *table, const char *word)
{
    const fast_layer_kind *kind = fast__layer_kind(d->layer.op);

    if (d->layer.op == FAST_OP_INPUT)
        return add_dimension(d, word);
    if (kind->inputs_max > 1)
        return add_input(d, word);
    if (!kind->positional)
        return fast__fail(FAST_EINVAL, "%s: \"%.40s\" is one word too many; write \"%s\"", d->where,
                          word, kind->example);
    if (d->seen & 1)
        return fast__fail(FAST_EINVAL, "%s: \"%.40s\" is one word too many; options are key=value",
                          d->where, word);
    return set_option(d, table, kind->positional, word);
}

/* The words after the layer's name. */
static fast_err take_words(network_draft *d, const fast_option *table, int first)
{
    bool from = false;

    for (int i = first; i < d->word_count; i++) {
        char *word = d->words[i];
        char *equals = strchr(word, '=');
        if (equals) {
            *equals = '\0';
            FAST_TRY(set_option(d, table, word, equals + 1));
        } else if (strcmp(word, "from") == 0 && !from) {
            from = true;
            if (fast__layer_kind(d->layer.op)->inputs_max == 0)
                return fast__fail(FAST_EINVAL, "%s: takes no inputs", d->where);
            if (i + 1 == d->word_count)
                return fast__fail(FAST_EINVAL, "%s: from which layer?", d->where);
        } else if (from) {
            FAST_TRY(add_input(d, word));
        } else {
            FAST_TRY(take_word(d, table, word));
        }
    }
    return FAST_OK;
}

/* Check the line as a whole: a shape for input, enough inputs for add and concat, the option that
 * has no useful default. */
static fast_err check_line(network_draft *d)
{
    const fast_layer_kind *kind = fast__layer_kind(d->layer.op);
    fast_layer *layer = &d->layer;

    if (layer->op == FAST_OP_INPUT && layer->rank == 0)
        return fast__fail(FAST_EINVAL, "%s: needs a shape, as in \"%s\"", d->where, kind->example);
    if (layer->op == FAST_OP_INPUT && layer->config.tokens > 0 && layer->rank != 1)
        return fast__fail(FAST_EINVAL,
                          "%s: tokens have one dimension, as in \"input 64 tokens=96\"", d->where);
    if (kind->inputs_max > 1 && layer->input_count < 2)
        return fast__fail(FAST_EINVAL, "%s: needs two layers or more, as in \"%s\"", d->where,
                          kind->example);
    if (kind->inputs_max == 1 && layer->input_count > 1)
        return fast__fail(FAST_EINVAL, "%s: takes one layer", d->where);
    if (kind->positional && !(d->seen & 1) &&
        (strcmp(kind->positional, "outputs") == 0 || strcmp(kind->positional, "kernel") == 0))
        return fast__fail(FAST_EINVAL, "%s: needs %s, as in \"%s\"", d->where, kind->positional,
                          kind->example);
    return FAST_OK;
}

/* Append the layer. Nothing can fail after the memory is allocated. */
static fast_err append(fast_network *network, const fast_layer *layer)
{
    const int64_t nodes = layer->config.layers > 1 ? layer->config.layers : 1;
    const int needed = network->layer_count + 2; /* an implicit input, and this one */

    if (network->node_count + nodes + 1 > FAST_LAYERS_MAX)
        return fast__fail(FAST_EINVAL, "line %d: more than %d layers", layer->line,
                          FAST_LAYERS_MAX);
    if (needed > network->layer_capacity) {
        const int capacity = network->layer_capacity ? 2 * network->layer_capacity : 16;
        fast_layer *layers = NULL;
        FAST_TRY(fast__alloc("a network's layers", capacity, sizeof *layers, &layers));
        if (network->layer_count > 0)
            memcpy(layers, network->layers, (size_t)network->layer_count * sizeof *layers);
        fast__free(network->layers);
        network->layers = layers;
        network->layer_capacity = capacity;
    }
    network->layers[network->layer_count++] = *layer;
    network->node_count += (int)nodes;
    network->ordinal[layer->op]++;
    return FAST_OK;
}

/* Start a network whose first line is not `input` with the data's shape. */
static fast_err append_implicit_input(fast_network *network)
{
    const fast_layer input = { .op = FAST_OP_INPUT,
                               .label = "input",
                               .hash = fast__hash("input", strlen("input"), 0) };

    return network->layer_count > 0 ? FAST_OK : append(network, &input);
}

/* Take over the `loss` line. */
static fast_err take_loss(network_draft *d)
{
    const fast_layer_config *config = &d->layer.config;

    if (d->network->layer_count < 2)
        return fast__fail(FAST_EINVAL, "%s: comes last, after the layers", d->where);
    if (config->kind == FAST_LOSS_MSE && config->smoothing > 0)
        return fast__fail(FAST_EINVAL, "%s: smoothing belongs to cross_entropy", d->where);
    d->network->loss_given = true;
    d->network->loss = (fast_loss)config->kind;
    d->network->label_smoothing = (float)config->smoothing;
    d->network->evaluated = !config->train;
    return FAST_OK;
}

/* Restore an empty network after its first line failed. */
static fast_err undo_implicit_input(fast_network *network, bool was_empty, fast_err err)
{
    if (err && was_empty) {
        network->layer_count = 0;
        network->node_count = 0;
        network->ordinal[FAST_OP_INPUT] = 0;
    }
    return err;
}

/* Parse a line that is not empty, and append its layer. */
static fast_err take_line(network_draft *d)
{
    fast_network *network = d->network;
    const size_t length = strlen(d->words[0]);
    const fast_part *part = NULL;
    int64_t part_count = 0;
    int first = 0;

    if (d->words[0][length - 1] == ':') {
        d->words[0][length - 1] = '\0';
        first = 1;
        if (d->word_count == 1)
            return fast__fail(FAST_EINVAL, "line %d: a name without a layer", d->line);
    }
    FAST_TRY(fast__layer_find(d->words[first], d->line, &d->layer.op));
    if (network->loss_given)
        return fast__fail(FAST_EINVAL, "line %d: loss is the last line; \"%s\" follows it", d->line,
                          d->words[first]);
    part = &fast__layer_list(&part_count)[d->layer.op];
    snprintf(d->where, sizeof d->where, "line %d: %s", d->line, part->name);
    d->layer.line = d->line;
    fast__options_default(part->options, &d->layer.config);
    if ((int)d->layer.op == FAST_LAYER_LOSS && first == 1)
        return fast__fail(FAST_EINVAL, "%s: has no name", d->where);
    if (d->layer.op == FAST_OP_INPUT && network->layer_count > 0)
        return fast__fail(FAST_EINVAL, "%s: must be the first line, and there is one only",
                          d->where);
    if (d->layer.op != FAST_OP_INPUT)
        FAST_TRY(append_implicit_input(network));
    if (first == 1)
        FAST_TRY(set_label(d, d->words[0]));
    else if ((int)d->layer.op != FAST_LAYER_LOSS)
        FAST_TRY(set_default_label(d, part->name));
    FAST_TRY(take_words(d, part->options, first + 1));
    FAST_TRY(check_line(d));
    if ((int)d->layer.op == FAST_LAYER_LOSS)
        return take_loss(d);
    if (d->layer.input_count == 0 && d->layer.op != FAST_OP_INPUT)
        d->layer.inputs[d->layer.input_count++] = network->layer_count - 1;
    return append(network, &d->layer);
}

/* Add one line of `size` bytes, without its line feed. */
static fast_err add_line(fast_network *network, const char *line, size_t size)
{
    network_draft d = { .network = network, .line = network->line + 1 };
    const bool was_empty = network->layer_count == 0;

    FAST_TRY(split_words(&d, line, size));
    if (d.word_count > 0)
        FAST_TRY(undo_implicit_input(network, was_empty, take_line(&d)));
    network->line++;
    return FAST_OK;
}

/* Add every line of a text. */
static fast_err add_text(fast_network *network, const char *text, size_t size)
{
    while (size > 0) {
        const char *feed = memchr(text, '\n', size);
        const size_t length = feed ? (size_t)(feed - text) : size;
        FAST_TRY(add_line(network, text, length));
        text += length + (feed != NULL);
        size -= length + (feed != NULL);
    }
    return FAST_OK;
}

/* Make a network without lines. */
fast_err fast_network_new(fast_network **out)
{
    fast_network *network = NULL;

    FAST_TRY(fast__alloc("a network", 1, sizeof *network, &network));
    *out = network;
    return FAST_OK;
}

/* Free the layers; operators and their configurations are the caller's. */
void fast_network_free(fast_network *network)
{
    if (!network)
        return;
    fast__free(network->layers);
    fast__free(network);
}

/* Parse one line and append its layer. FAST_EINVAL names the line; the network is then as it
 * was. */
fast_err fast_network_add(fast_network *network, const char *line)
{
    FAST_ASSERT(network != NULL);
    FAST_ASSERT(line != NULL);
    if (strchr(line, '\n'))
        return fast__fail(FAST_EINVAL, "line %d: has a line feed; add one line at a time",
                          network->line + 1);
    return add_line(network, line, strlen(line));
}

/* Append the layer of a user's operator. */
static fast_err take_operator(network_draft *d, const char *name, const char *inputs)
{
    FAST_TRY(append_implicit_input(d->network));
    FAST_TRY(name ? set_label(d, name) : set_default_label(d, d->layer.custom->name));
    FAST_TRY(split_words(d, inputs ? inputs : "", inputs ? strlen(inputs) : 0));
    for (int i = 0; i < d->word_count; i++)
        FAST_TRY(add_input(d, d->words[i]));
    if (d->layer.input_count == 0)
        d->layer.inputs[d->layer.input_count++] = d->network->layer_count - 1;
    return append(d->network, &d->layer);
}

/* Append a layer of the caller's. The operator and its configuration are borrowed until the
 * graph is freed. */
fast_err fast_network_add_operator(fast_network *network, const char *name, const fast_operator *op,
                                   const void *config, const char *inputs)
{
    network_draft d = { .network = network, .line = network->line + 1 };
    const bool was_empty = network->layer_count == 0;

    if (op)
        FAST_TRY(fast__check_size("fast_operator", op->size, sizeof *op));
    if (!op || !op->name || !op->shape || !op->forward || !op->backward)
        return fast__fail(FAST_EINVAL,
                          "line %d: an operator needs a name, shape, forward and backward", d.line);
    if (network->loss_given)
        return fast__fail(FAST_EINVAL, "line %d: loss is the last line; \"%.40s\" follows it",
                          d.line, op->name);
    snprintf(d.where, sizeof d.where, "line %d: %.40s", d.line, op->name);
    d.layer.op = FAST_OP_CUSTOM;
    d.layer.line = d.line;
    d.layer.custom = op;
    d.layer.custom_config = config;
    FAST_TRY(undo_implicit_input(network, was_empty, take_operator(&d, name, inputs)));
    network->line++;
    return FAST_OK;
}

/* Parse a whole text. FAST_EINVAL names the first wrong line. */
fast_err fast__network_parse(const char *text, size_t size, fast_network **out)
{
    fast_network *network = NULL;
    fast_err err = FAST_OK;

    if (size > FAST_TEXT_MAX)
        return fast__fail(FAST_EINVAL, "the network's text has more than %d bytes", FAST_TEXT_MAX);
    FAST_TRY(fast_network_new(&network));
    err = add_text(network, text, size);
    if (err) {
        fast_network_free(network);
        return err;
    }
    *out = network;
    return FAST_OK;
}

/* Read a network file; messages begin with its path. */
fast_err fast_network_open(const char *path, fast_network **out)
{
    char *text = NULL;
    size_t size = 0;
    fast_err err = FAST_OK;

    FAST_TRY(fast__file_read(path, FAST_TEXT_MAX, &text, &size));
    err = fast__network_parse(text, size, out);
    fast__free(text);
    return err == FAST_EINVAL ? fast__fail_in(err, path) : err;
}
