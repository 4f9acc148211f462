/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An optimizer: a rule with its configuration and state, for one vector of parameters.
 *
 * It does for all rules: finds the rule by name, holds the state on the device, takes the norm of
 * the whole gradient where clip_norm asks for it,
 *
 *   g_scale = min(1, clip_norm / (|g| + 1e-6))
 *
 * maps the vectors for the rule, and cuts a range where weight decay begins or ends, or into whole
 * segments where the rule wants them. All memory is taken by new.
 */
#include "base/memory.h"
#include "rule/kernel.h"
#include "tensor/vector.h"

#include <stdio.h>
#include <string.h>

struct fast_optimizer {
    const fast_rule *rule;             /* from the registry */
    const fast_layout *layout;         /* of the vector; borrowed */
    void *config;                      /* of the rule; begins with a fast_rule_common */
    int slot_count;                    /* state vectors in use */
    float *slots[FAST_RULE_SLOTS_MAX]; /* [layout->count] each */
    float *scratch;                    /* of the host, while an update runs; NULL: none needed */
};

static const char *rule_name_at(const void *ctx, int64_t i)
{
    const fast_rule *const *rules = ctx;

    return rules[i]->name;
}

static fast_err rule_find(const char *name, const fast_rule **out)
{
    int64_t count = 0, i;

    while (fast__rules[count])
        count++;
    i = fast__name_find(name, rule_name_at, fast__rules, count, NULL);
    if (i < 0)
        return fast__name_unknown("optimizer", name, rule_name_at, fast__rules, count);
    *out = fast__rules[i];
    return FAST_OK;
}

/* Updates walk the segments in order: a layout that is not in order is a bug of its maker. */
static void layout_check(const fast_layout *layout)
{
    int64_t end = 0;

    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *segment = &layout->segments[i];

        FAST_ASSERT(segment->count >= 0);
        FAST_ASSERT(segment->offset >= end);
        FAST_ASSERT(segment->count <= layout->count - segment->offset);
        end = segment->offset + segment->count;
    }
}

static fast_err optimizer_configure(fast_optimizer *optimizer, const fast_device *device,
                                    const char *options)
{
    const fast_rule *rule = optimizer->rule;
    char where[64];

    FAST_ASSERT(rule->config_size >= sizeof(fast_rule_common));
    FAST_TRY(fast__alloc("optimizer", 1, rule->config_size, &optimizer->config));
    fast__options_default(rule->options, optimizer->config);
    snprintf(where, sizeof where, "optimizer %s", rule->name);
    FAST_TRY(fast__options_parse(where, rule->options, optimizer->config, options));

    optimizer->slot_count = rule->slots;
    if (rule->slots_needed)
        optimizer->slot_count = rule->slots_needed(optimizer->config);
    FAST_ASSERT(optimizer->slot_count <= FAST_RULE_SLOTS_MAX);
    for (int i = 0; i < optimizer->slot_count; i++)
        FAST_TRY(fast__vector_new(device, "optimizer state", optimizer->layout->count,
                                  &optimizer->slots[i]));
    int64_t largest = 0;
    for (int64_t i = 0; i < optimizer->layout->segment_count; i++)
        if (optimizer->layout->segments[i].count > largest)
            largest = optimizer->layout->segments[i].count;
    if (!rule->scratch)
        return FAST_OK;
    return fast__alloc("scratch of the optimizer", rule->scratch(largest), sizeof(float),
                       &optimizer->scratch);
}

fast_err fast__optimizer_new(const fast_device *device, const char *spec, const fast_layout *layout,
                             fast_optimizer **out)
{
    fast_optimizer *optimizer;
    const fast_rule *rule = NULL;
    const char *options;
    char name[32];
    fast_err err;

    FAST_ASSERT(layout->count >= 0);
    layout_check(layout);
    FAST_TRY(fast__spec_split(spec, name, sizeof name, &options));
    FAST_TRY(rule_find(name, &rule));
    FAST_TRY(fast__alloc("optimizer", 1, sizeof *optimizer, &optimizer));
    optimizer->rule = rule;
    optimizer->layout = layout;
    err = optimizer_configure(optimizer, device, options);
    if (err)
        goto undo_optimizer;
    *out = optimizer;
    return FAST_OK;

undo_optimizer:
    fast__optimizer_free(optimizer);
    return err;
}

void fast__optimizer_free(fast_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int i = 0; i < FAST_RULE_SLOTS_MAX; i++)
        fast__vector_free(optimizer->slots[i]);
    fast__free(optimizer->scratch);
    fast__free(optimizer->config);
    fast__free(optimizer);
}

bool fast__optimizer_by_range(const fast_optimizer *optimizer)
{
    const fast_rule_common *common = optimizer->config;

    return !optimizer->rule->by_segment && !optimizer->rule->observe && common->clip_norm == 0;
}

/* One update with its vectors mapped. */
typedef struct optimizer_pass {
    const fast_optimizer *optimizer; /* whose rule is applied */
    int64_t step;                    /* from 1 */
    double lr;                       /* learning rate */
    float g_scale;                   /* multiplies g */
    float *w;                        /* parameters */
    /* Between w and g: a compiler would load two neighbours at once, which waits until all stores
     * before them, the model's too, have left the processor. */
    int64_t base;                      /* element of the vector that w[0], g[0], state[i][0] are */
    const float *g;                    /* gradient */
    float *state[FAST_RULE_SLOTS_MAX]; /* of the rule */
    float *record;                     /* of a rule that observes; or NULL */
    double *measured;                  /* [segments][FAST_RULE_SQUARES]: to add to; or NULL */
    const double *squares;             /* the same, summed over all ranges; or NULL */
} optimizer_pass;

/* Apply the rule to a range on all or none of which weight decay applies; `rows` of a matrix;
 * `segment` is its number, or -1 for padding or several. */
static void apply_range(const optimizer_pass *pass, int64_t begin, int64_t end, bool decay,
                        int64_t rows, int64_t segment)
{
    const fast_optimizer *optimizer = pass->optimizer;
    const fast_rule_common *common = optimizer->config;
    fast_rule_slice slice = {
        .w = pass->w + (begin - pass->base),
        .g = pass->g + (begin - pass->base),
        .count = end - begin,
        .lr = pass->lr,
        .step = pass->step,
        .g_scale = pass->g_scale,
        .decay = decay ? (float)common->weight_decay : 0.0f,
        .adapt = decay,
        .rows = rows,
        .scratch = optimizer->scratch,
        .record = pass->record,
    };

    if (begin >= end)
        return;
    for (int i = 0; i < optimizer->slot_count; i++)
        slice.state[i] = pass->state[i] + (begin - pass->base);
    if (pass->squares && segment >= 0)
        slice.squares = pass->squares + segment * FAST_RULE_SQUARES;
    if (!pass->measured)
        optimizer->rule->apply(optimizer->config, &slice);
    else if (segment >= 0)
        optimizer->rule->measure(optimizer->config, &slice,
                                 pass->measured + segment * FAST_RULE_SQUARES);
}

/* Let the rule observe the whole gradient. */
static void observe(optimizer_pass *pass, int64_t count)
{
    const fast_optimizer *optimizer = pass->optimizer;
    fast_rule_slice whole = { .w = pass->w,
                              .g = pass->g,
                              .count = count,
                              .lr = pass->lr,
                              .step = pass->step,
                              .g_scale = pass->g_scale };

    FAST_ASSERT(optimizer->rule->record > 0 && optimizer->slot_count > 0);
    if (count >= optimizer->rule->record)
        pass->record = pass->state[optimizer->slot_count - 1];
    whole.record = pass->record;
    for (int i = 0; i < optimizer->slot_count; i++)
        whole.state[i] = pass->state[i];
    optimizer->rule->observe(optimizer->config, &whole);
}

/* The first segment that ends after `offset`. */
static int64_t segment_after(const fast_layout *layout, int64_t offset)
{
    int64_t low = 0, high = layout->segment_count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const fast_segment *segment = &layout->segments[middle];

        if (segment->offset + segment->count > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Apply the rule segment by segment. Elements between segments are padding and do not decay. */
static void apply_segments(const optimizer_pass *pass, int64_t begin, int64_t end)
{
    const fast_layout *layout = pass->optimizer->layout;
    const fast_rule_common *common = pass->optimizer->config;

    for (int64_t i = segment_after(layout, begin); i < layout->segment_count && begin < end; i++) {
        const fast_segment *segment = &layout->segments[i];
        const int64_t segment_end = segment->offset + segment->count;
        const int64_t stop = segment_end < end ? segment_end : end;

        if (segment->offset >= end)
            break;
        if (begin < segment->offset) {
            apply_range(pass, begin, segment->offset, false, 0, -1);
            begin = segment->offset;
        }
        apply_range(pass, begin, stop, segment->decay || common->decay_all,
                    segment->decay && segment->rank > 1 ? segment->shape[0] : 0, i);
        begin = stop;
    }
    apply_range(pass, begin, end, false, 0, -1);
}

bool fast__optimizer_decays(const fast_optimizer *optimizer, int64_t offset, int64_t count)
{
    const fast_layout *layout = optimizer->layout;
    const fast_rule_common *common = optimizer->config;
    int64_t at = offset;

    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= layout->count);
    if (common->weight_decay == 0)
        return false;
    for (int64_t i = segment_after(layout, at); at < offset + count; i++) {
        const fast_segment *segment = &layout->segments[i];

        if (i == layout->segment_count || segment->offset > at ||
            !(segment->decay || common->decay_all))
            return false;
        at = segment->offset + segment->count;
    }
    return true;
}

bool fast__optimizer_clips(const fast_optimizer *optimizer)
{
    const fast_rule_common *common = optimizer->config;

    return common->clip_norm > 0;
}

/* The factor of g with which the whole gradient is no longer than clip_norm. */
float fast__optimizer_clipped(const fast_optimizer *optimizer, float scale, double norm2)
{
    const fast_rule_common *common = optimizer->config;

    if (common->clip_norm == 0)
        return scale;
    const double norm = fabs((double)scale) * sqrt(norm2);
    const double clip = common->clip_norm / (norm + 1e-6);
    return clip < 1.0 ? (float)(clip * (double)scale) : scale;
}

/* Map the vectors and run the rule over the range of a pass, whose w and g are given. */
static void run_pass(optimizer_pass *pass, float *w, const float *g, int64_t count)
{
    const fast_optimizer *optimizer = pass->optimizer;
    const fast_rule_common *common = optimizer->config;
    const int64_t offset = pass->base, end = offset + count;

    FAST_ASSERT(pass->step >= 1);
    FAST_ASSERT(offset >= 0 && end <= optimizer->layout->count);
    pass->w = fast__map(w, count, FAST_ACCESS_UPDATE);
    pass->g = fast__map(g, count, FAST_ACCESS_READ);
    for (int i = 0; i < optimizer->slot_count; i++)
        pass->state[i] = fast__map(optimizer->slots[i] + offset, count, FAST_ACCESS_UPDATE);
    if (optimizer->rule->observe)
        observe(pass, count);
    if (!optimizer->rule->by_segment && (common->weight_decay == 0 || common->decay_all))
        apply_range(pass, offset, end, common->decay_all, 0, -1);
    else
        apply_segments(pass, offset, end);
    for (int i = 0; i < optimizer->slot_count; i++)
        fast__unmap(optimizer->slots[i] + offset, count, FAST_ACCESS_UPDATE);
    fast__unmap(g, count, FAST_ACCESS_READ);
    fast__unmap(w, count, FAST_ACCESS_UPDATE);
}

void fast__optimizer_apply_range(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                 const float *g, float scale, int64_t offset, int64_t count)
{
    const bool clips = fast__optimizer_clips(optimizer);
    optimizer_pass pass = { .optimizer = optimizer, .step = step, .lr = lr, .base = offset };

    FAST_ASSERT(count == optimizer->layout->count || fast__optimizer_by_range(optimizer));
    pass.g_scale =
        clips ? fast__optimizer_clipped(optimizer, scale, fast__vector_norm2(count, g)) : scale;
    run_pass(&pass, w, g, count);
}

bool fast__optimizer_measures(const fast_optimizer *optimizer)
{
    return optimizer->rule->by_segment;
}

bool fast__optimizer_by_slice(const fast_optimizer *optimizer)
{
    return !optimizer->rule->observe &&
           (!optimizer->rule->by_segment || optimizer->rule->measure != NULL);
}

void fast__optimizer_measure_range(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                   const float *g, float scale, int64_t offset, int64_t count,
                                   double *squares)
{
    optimizer_pass pass = { .optimizer = optimizer,
                            .step = step,
                            .lr = lr,
                            .g_scale = scale,
                            .base = offset,
                            .measured = squares };

    FAST_ASSERT(optimizer->rule->measure != NULL && squares != NULL);
    run_pass(&pass, w, g, count);
}

void fast__optimizer_apply_measured(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                    const float *g, float scale, int64_t offset, int64_t count,
                                    const double *squares)
{
    optimizer_pass pass = { .optimizer = optimizer,
                            .step = step,
                            .lr = lr,
                            .g_scale = scale,
                            .base = offset,
                            .squares = squares };

    FAST_ASSERT(fast__optimizer_by_slice(optimizer));
    FAST_ASSERT(squares != NULL || !optimizer->rule->by_segment);
    run_pass(&pass, w, g, count);
}

void fast__optimizer_apply_scaled(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                  const float *g, float scale)
{
    fast__optimizer_apply_range(optimizer, step, lr, w, g, scale, 0, optimizer->layout->count);
}

void fast__optimizer_apply(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                           const float *g, int64_t offset, int64_t count)
{
    fast__optimizer_apply_range(optimizer, step, lr, w + offset, g + offset, 1.0f, offset, count);
}

float *fast__optimizer_slot(const fast_optimizer *optimizer, int i)
{
    FAST_ASSERT(i >= 0);
    return i < optimizer->slot_count ? optimizer->slots[i] : NULL;
}

const fast_rule *fast__optimizer_rule(const fast_optimizer *optimizer)
{
    return optimizer->rule;
}

double fast__optimizer_momentum(const fast_optimizer *optimizer)
{
    const size_t offset = optimizer->rule->momentum_offset;
    double momentum = 0;

    if (offset > 0)
        memcpy(&momentum, (const char *)optimizer->config + offset, sizeof momentum);
    return momentum;
}
