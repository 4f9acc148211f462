/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of users (fast/plugin.h): a selection or a packing of bytes as a codec or a stage of a
 * chain, so that the coder, spaces and all strategies that encode use it like their own. Its
 * configuration is
 *
 *     pointer to the filter | the filter's own configuration, aligned for any type
 *
 * A selection holds elements back until they are due: it is not asked where all must be sent, so
 * that a bound of staleness and the end of a run do not depend on it. Cost: that of its functions.
 */
#include "base/memory.h"
#include "codec/chain.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The configuration of the codec or stage that stands for a filter. */
typedef struct filter_config {
    const fast_filter *filter;                 /* borrowed */
    _Alignas(max_align_t) unsigned char own[]; /* of the filter: its config_size bytes */
} filter_config;

fast_err fast__filter_check(const fast_filter *filter, bool taken)
{
    FAST_TRY(fast__check_size("fast_filter", filter->size, sizeof *filter));
    if (!filter->name || !filter->name[0] || strcspn(filter->name, ":+,= ") != strlen(filter->name))
        return fast__fail(FAST_EINVAL,
                          "a filter needs a name without spaces, ':', '+', ',' and '='");
    if (taken || strcmp(filter->name, "none") == 0)
        return fast__fail(FAST_EINVAL, "filter %s: there is a codec of this name; use another",
                          filter->name);
    const bool packs = filter->bound && filter->pack && filter->unpack;
    const bool some = filter->bound || filter->pack || filter->unpack;

    if (filter->select ? some : !packs)
        return fast__fail(FAST_EINVAL, "filter %s needs either select, or bound, pack and unpack",
                          filter->name);
    return FAST_OK;
}

/* The arguments of the codec, as plugin.h has them. */
static void select_elements(const void *config, const fast_encoding *e, float *send, float *wait)
{
    const filter_config *c = config;
    const fast_filter_update update = { .count = e->block.count,
                                        .w = e->w,
                                        .rate = e->model->rate,
                                        .step = e->model->taken,
                                        .key = e->key };

    if (!e->model->last && !e->model->due)
        c->filter->select(c->own, &update, send, wait);
}

static size_t bound(const void *config, size_t size)
{
    const filter_config *c = config;

    return c->filter->bound(c->own, size);
}

static size_t pack(const void *config, const uint8_t *in, size_t size, void *scratch, uint8_t *out)
{
    const filter_config *c = config;

    (void)scratch;
    return c->filter->pack(c->own, in, size, out);
}

/* A filter that claims more bytes than there is room for is not believed. */
static fast_err unpack(const void *config, const uint8_t *in, size_t size, void *scratch,
                       uint8_t *out, size_t room, size_t *size_out)
{
    const filter_config *c = config;
    size_t unpacked = 0;

    (void)scratch;
    if (c->filter->unpack(c->own, in, size, out, room, &unpacked) != FAST_OK || unpacked > room)
        return fast__fail(FAST_EFORMAT, "filter %s cannot unpack %zu bytes to at most %zu",
                          c->filter->name, size, room);
    *size_out = unpacked;
    return FAST_OK;
}

void fast__filter_wrap(const fast_filter *filter, fast_codec *select, fast_stage *stage)
{
    FAST_ASSERT(filter->name != NULL);
    *select = (fast_codec){ .name = filter->name,
                            .summary = "a filter of the caller",
                            .traits = FAST_CODEC_DEFERS,
                            .select = filter->select ? select_elements : NULL };
    *stage = (fast_stage){ .name = filter->name,
                           .summary = "a filter of the caller",
                           .bound = bound,
                           .pack = pack,
                           .unpack = unpack };
}

fast_err fast__filter_configure(const fast_filter *filter, const char *text, void **out)
{
    filter_config *config = NULL;
    char where[72];

    snprintf(where, sizeof where, "filter %.60s", filter->name);
    if (!filter->options && text && *text)
        return fast__fail(FAST_EINVAL, "%s has no options, not \"%s\"", where, text);
    FAST_TRY(fast__alloc("options of a filter", (int64_t)(sizeof *config + filter->config_size), 1,
                         &config));
    config->filter = filter;
    if (filter->options) {
        fast__options_default(filter->options, config->own);
        const fast_err err = fast__options_parse(where, filter->options, config->own, text);

        if (err) {
            fast__free(config);
            return err;
        }
    }
    *out = config;
    return FAST_OK;
}
