/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deep stacking networks: modules of one hidden layer, each of which answers the whole task from
 * the input and the answers of all modules before it.
 *
 *     x ----+----------------+-------------------------------+
 *           +- module 1: y_1 -+- module 2, of (x, y_1): y_2 -+- module 3, of (x, y_1, y_2): y_3
 *
 * Each module has a loss of its own. With detach, which is the paper's way, no gradient passes
 * from a module to those before it, so all modules learn at once, each as if those below it stood
 * still; without it the losses are minimised together. The last module's answer is evaluated. A
 * module's hidden layer has sigmoids, its answer is linear, as there; the paper fits the upper
 * weights of a module in closed form, here both layers follow the gradient.
 *
 * One tensor passes between two modules, (x, y_1 .. y_k): a pipeline has a module on each stage.
 *
 * Deng, Yu and Platt, "Scalable Stacking and Learning for Building Deep Architectures", 2012.
 */
#include "model/models.h"

#include <stddef.h>

typedef struct dsn_config {
    int64_t modules;   /* number of modules */
    int64_t hidden;    /* units of a module's hidden layer */
    int64_t embedding; /* width of a token's vector */
    bool detach;       /* modules learn by themselves */
} dsn_config;

static const fast_option dsn_options[] = {
    FAST_OPT_INT(dsn_config, modules, "3", 1, 256, "modules, each on top of those before it"),
    FAST_OPT_INT(dsn_config, hidden, "256", 1, 1 << 20, "units of a module's hidden layer"),
    FAST_OPT_INT(dsn_config, embedding, "32", 1, 65536, "width of a token's vector"),
    FAST_OPT_BOOL(dsn_config, detach, "yes",
                  "modules learn by themselves; no: from the losses above them too"),
    FAST_OPT_END
};

/* Is a sample one vector, which answers can stand beside? */
static bool is_vector(const fast_model_input *input)
{
    return input->rank == 1 && !input->tokens;
}

/* Write a module, and what the next one reads. */
static fast_err add_module(const dsn_config *c, int k, const fast_model_input *input,
                           fast_text *text)
{
    FAST_TRY(fast__text_add(text,
                            "module%d.lower: dense %lld\nmodule%d.hidden: sigmoid\n"
                            "module%d.upper: dense %lld\n",
                            k, (long long)c->hidden, k, k, (long long)input->outputs));
    if (k == (int)c->modules)
        return FAST_OK;
    FAST_TRY(fast__text_add(text, "module%d.head: head\nmodule%d.y: %s from module%d.upper\n", k, k,
                            c->detach ? "detach" : "map affine", k));
    return k == 1 ? fast__text_add(text, "stack1: concat %s module1.y\n",
                                   is_vector(input) ? "input" : "x")
                  : fast__text_add(text, "stack%d: concat stack%d module%d.y\n", k, k - 1, k);
}

/* Write the modules. */
static fast_err dsn_write(const fast_model *model, const void *config,
                          const fast_model_input *input, fast_text *text)
{
    const dsn_config *c = config;

    FAST_TRY(fast__model_need_one_answer(model->name, input));
    if (input->tokens)
        FAST_TRY(fast__text_add(text, "embed %lld\n", (long long)c->embedding));
    if (!is_vector(input))
        FAST_TRY(fast__text_add(text, "x: flatten\n"));
    for (int k = 1; k <= (int)c->modules; k++)
        FAST_TRY(add_module(c, k, input, text));
    return FAST_OK;
}

const fast_model fast__model_dsn = {
    .name = "dsn",
    .summary = "deep stacking network: modules on the input and all answers below",
    .options = dsn_options,
    .config_size = sizeof(dsn_config),
    .write = dsn_write,
};
