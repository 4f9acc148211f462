/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains by name: "significance+topk:ratio=0.01+zstd:level=3" is selections of elements, one codec,
 * which may be lossy, and then lossless stages over its bytes. "none", or stages alone, send floats
 * as they are. Selections without a codec are followed by `nonzero`.
 */
#include "codec/chain.h"

#include "base/memory.h"

#include <string.h>

enum { NAME_MAX_SIZE = 64 };

/* Return name i of all, codecs before stages, for messages. */
static const char *name_at(const void *ctx, int64_t i)
{
    const int64_t codecs = *(const int64_t *)ctx;

    return i < codecs ? fast__codecs[i]->name : fast__stages[i - codecs]->name;
}

/* Return the error for an unknown name: the package that this build lacks, or the nearest name
 * of the list. */
static fast_err unknown(const char *name)
{
    int64_t codecs = 0;
    int64_t stages = 0;

    if (fast__stage_package(name))
        return fast__fail(FAST_EINVAL,
                          "codec %s: this build is without its library; install %s and build again",
                          name, fast__stage_package(name));
    while (fast__codecs[codecs])
        codecs++;
    while (fast__stages[stages])
        stages++;
    return fast__name_unknown("codec", name, name_at, &codecs, codecs + stages);
}

/* Make a configuration from the text of its options; the caller owns *out. */
static fast_err configure(const char *name, const fast_option *options, size_t size,
                          const char *text, void **out)
{
    char where[NAME_MAX_SIZE + 8] = "codec ";
    void *config = NULL;

    strncat(where, name, NAME_MAX_SIZE);
    if (!options)
        return text && *text ? fast__fail(FAST_EINVAL, "%s has no options, not \"%s\"", where, text)
                             : FAST_OK;
    FAST_TRY(fast__alloc("options of a codec", (int64_t)size, 1, &config));
    fast__options_default(options, config);
    const fast_err err = fast__options_parse(where, options, config, text);
    if (err)
        fast__free(config);
    else
        *out = config;
    return err;
}

/* Make the configuration of a codec or stage, which may be the caller's filter. */
static fast_err configure_part(const fast_chain *chain, const char *name,
                               const fast_option *options, size_t size, const char *text,
                               void **out)
{
    if (chain->filter && strcmp(name, chain->filter->name) == 0)
        return fast__filter_configure(chain->filter, text, out);
    return configure(name, options, size, text, out);
}

/* Append a selection. FAST_EINVAL beyond FAST_SELECTIONS_MAX, and behind anything else. */
static fast_err add_selection(fast_chain *chain, const fast_codec *codec, const char *text)
{
    if (chain->codec || chain->stage_count > 0)
        return fast__fail(FAST_EINVAL, "codec %s: %s selects elements, and must come before %s",
                          chain->text, codec->name,
                          chain->codec ? chain->codec->name : chain->stages[0]->name);
    if (chain->select_count == FAST_SELECTIONS_MAX)
        return fast__fail(FAST_EINVAL, "codec %s: more than %d selections", chain->text,
                          FAST_SELECTIONS_MAX);
    FAST_TRY(configure_part(chain, codec->name, codec->options, codec->config_size, text,
                            &chain->select_configs[chain->select_count]));
    chain->selects[chain->select_count++] = codec;
    return FAST_OK;
}

/* Set the chain's codec. FAST_EINVAL if it has one, a stage before it, or a selection that leaves
 * out elements which the codec needs. */
static fast_err add_codec(fast_chain *chain, const fast_codec *codec, const char *text)
{
    const unsigned all = FAST_CODEC_ACCUMULATES | FAST_CODEC_VOTES;

    if (codec->select)
        return add_selection(chain, codec, text);
    if (chain->codec)
        return fast__fail(FAST_EINVAL, "codec %s: %s encodes already, and %s cannot do it again",
                          chain->text, chain->codec->name, codec->name);
    if (chain->stage_count > 0)
        return fast__fail(FAST_EINVAL, "codec %s: %s must come before %s", chain->text, codec->name,
                          chain->stages[0]->name);
    if (chain->select_count > 0 && (codec->rounds || (codec->traits & all)))
        return fast__fail(FAST_EINVAL, "codec %s: %s encodes all elements; leave out %s",
                          chain->text, codec->name, chain->selects[0]->name);
    FAST_TRY(configure(codec->name, codec->options, codec->config_size, text, &chain->config));
    chain->codec = codec;
    return FAST_OK;
}

/* Append a lossless stage. FAST_EINVAL beyond FAST_STAGES_MAX. */
static fast_err add_stage(fast_chain *chain, const fast_stage *stage, const char *text)
{
    if (chain->stage_count == FAST_STAGES_MAX)
        return fast__fail(FAST_EINVAL, "codec %s: more than %d stages", chain->text,
                          FAST_STAGES_MAX);
    FAST_TRY(configure_part(chain, stage->name, stage->options, stage->config_size, text,
                            &chain->stage_configs[chain->stage_count]));
    chain->stages[chain->stage_count++] = stage;
    return FAST_OK;
}

/* Add one part, "name:key=value,..."; "none" adds nothing. */
static fast_err add_part(fast_chain *chain, const char *part)
{
    char name[NAME_MAX_SIZE];
    const char *text = NULL;

    FAST_TRY(fast__spec_split(part, name, sizeof name, &text));
    if (strcmp(name, "none") == 0 && !text)
        return FAST_OK;
    for (int i = 0; fast__codecs[i]; i++)
        if (strcmp(fast__codecs[i]->name, name) == 0)
            return add_codec(chain, fast__codecs[i], text);
    for (int i = 0; fast__stages[i]; i++)
        if (strcmp(fast__stages[i]->name, name) == 0)
            return add_stage(chain, fast__stages[i], text);
    if (chain->filter && strcmp(chain->filter->name, name) == 0)
        return chain->filter->select ? add_codec(chain, &chain->own_select, text)
                                     : add_stage(chain, &chain->own_stage, text);
    return unknown(name);
}

/* Take over a filter of the caller. */
static fast_err take_filter(fast_chain *chain, const fast_filter *filter)
{
    bool taken = false;

    for (int i = 0; filter->name && fast__codecs[i]; i++)
        taken |= strcmp(fast__codecs[i]->name, filter->name) == 0;
    for (int i = 0; filter->name && fast__stages[i]; i++)
        taken |= strcmp(fast__stages[i]->name, filter->name) == 0;
    FAST_TRY(fast__filter_check(filter, taken));
    chain->filter = filter;
    fast__filter_wrap(filter, &chain->own_select, &chain->own_stage);
    return FAST_OK;
}

fast_err fast__chain_open(const char *spec, fast_chain **out)
{
    return fast__chain_open_with(spec, NULL, out);
}

fast_err fast__chain_open_with(const char *spec, const fast_filter *filter, fast_chain **out)
{
    char parts[FAST_CHAIN_TEXT_MAX];
    fast_chain *chain = NULL;
    fast_err err = FAST_OK;

    if (strlen(spec) >= sizeof parts)
        return fast__fail(FAST_EINVAL, "codec: more than %d characters", FAST_CHAIN_TEXT_MAX - 1);
    FAST_TRY(fast__alloc("codec", 1, sizeof *chain, &chain));
    memcpy(chain->text, spec, strlen(spec) + 1);
    memcpy(parts, spec, strlen(spec) + 1);
    if (filter)
        err = take_filter(chain, filter);
    for (char *part = parts, *next; part && !err; part = next) {
        next = strchr(part, '+');
        /* 1e+5 is a number, not two parts. */
        while (next && next > part && (next[-1] == 'e' || next[-1] == 'E') && next[1] >= '0' &&
               next[1] <= '9')
            next = strchr(next + 1, '+');
        if (next)
            *next++ = '\0';
        err = add_part(chain, part);
    }
    if (!err && chain->select_count > 0 && !chain->codec) {
        chain->codec = &fast__codec_nonzero;
        chain->only_selects = chain->stage_count == 0;
    }
    if (err)
        fast__chain_close(chain);
    else
        *out = chain;
    return err;
}

void fast__chain_close(fast_chain *chain)
{
    if (!chain)
        return;
    for (int i = 0; i < FAST_STAGES_MAX; i++)
        fast__free(chain->stage_configs[i]);
    for (int i = 0; i < chain->select_count; i++)
        fast__free(chain->select_configs[i]);
    fast__free(chain->config);
    fast__free(chain);
}

const fast_codec *fast__chain_codec(const fast_chain *chain)
{
    return chain->codec;
}

/* The traits of one codec with its options. */
static unsigned traits_of(const fast_codec *codec, const void *config)
{
    return codec->traits | (codec->more ? codec->more(config) : 0);
}

unsigned fast__chain_codec_traits(const fast_chain *chain)
{
    return chain->codec ? traits_of(chain->codec, chain->config)
                        : FAST_CODEC_LOSSLESS | FAST_CODEC_RAW;
}

unsigned fast__chain_traits(const fast_chain *chain)
{
    const unsigned whole =
        FAST_CODEC_LOSSLESS | FAST_CODEC_RAW | FAST_CODEC_UNBIASED | FAST_CODEC_PLAIN;
    unsigned traits = fast__chain_codec_traits(chain);

    for (int i = 0; i < chain->select_count; i++) {
        const unsigned select = traits_of(chain->selects[i], chain->select_configs[i]);

        traits |= select & (FAST_CODEC_MODEL | FAST_CODEC_DEFERS);
        if (!(select & FAST_CODEC_LOSSLESS))
            traits &= ~whole;
    }
    return traits;
}

float fast__chain_scale(const fast_chain *chain, int64_t n, const float *x)
{
    FAST_ASSERT(chain->codec && chain->codec->scale);
    return chain->codec->scale(chain->config, n, x);
}

const char *fast__chain_text(const fast_chain *chain)
{
    return chain->text;
}

bool fast__chain_is_none(const fast_chain *chain)
{
    return !chain->codec && chain->stage_count == 0;
}

bool fast__chain_selects(const fast_chain *chain)
{
    return chain->select_count > 0;
}

bool fast__chain_selects_exactly(const fast_chain *chain)
{
    return chain->select_count > 0 && chain->codec == &fast__codec_nonzero;
}

bool fast__chain_only_fades(const fast_chain *chain)
{
    for (int i = 0; i < chain->select_count; i++)
        if (chain->selects[i] != &fast__codec_decay)
            return false;
    return chain->select_count > 0 && (!chain->codec || chain->codec == &fast__codec_nonzero);
}

bool fast__chain_only_selects(const fast_chain *chain)
{
    return chain->only_selects;
}
