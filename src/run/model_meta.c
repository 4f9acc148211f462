/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata of a file of weights: everything that a prediction needs besides the weights, and
 * how the model was trained. Two runs of one command write the same text, so that equal runs write
 * equal files.
 */
#include "run/model_meta.h"

#include "base/memory.h"
#include "data/recipe.h"

#include <string.h>

void fast__model_meta_put(fast_model_meta *meta, const char *key, const char *value)
{
    int i = 0;

    while (meta->pairs[i])
        i += 2;
    FAST_ASSERT(i + 2 < (int)(sizeof meta->pairs / sizeof *meta->pairs));
    meta->pairs[i] = key;
    meta->pairs[i + 1] = value;
}

/* How the model was trained. */
static fast_err write_training(const fast_run *run, char **out)
{
    const fast_run_config *c = &run->config;
    const fast_result *r = &run->result;
    const fast_figures *f = fast_run_figures(run);
    json_t *tree = json_object();

    fast__json_set(&tree, "command", fast__json_text(run->text.command));
    fast__json_set(&tree, "version", fast__json_text(fast_version()));
    fast__json_set(&tree, "model", fast__json_text(c->model));
    fast__json_set(&tree, "data", fast__json_text(c->data));
    fast__json_set(&tree, "engine", fast__json_text(c->engine));
    fast__json_set(&tree, "strategy", fast__json_text(c->strategy));
    fast__json_set(&tree, "workers", json_integer(c->workers));
    fast__json_set(&tree, "seed", json_integer(c->seed));
    fast__json_set(&tree, "batch", json_integer(c->batch));
    fast__json_set(&tree, "epochs", json_integer(c->epochs));
    fast__json_set(&tree, "steps", json_integer(r->steps));
    fast__json_set(&tree, "samples", json_integer(r->samples));
    fast__json_set(&tree, "loss", fast__json_real(r->loss));
    fast__json_set(&tree, "train_accuracy", fast__json_real(r->train_accuracy));
    fast__json_set(&tree, "test_loss", fast__json_real(r->test_loss));
    fast__json_set(&tree, "test_accuracy", fast__json_real(r->test_accuracy));
    if (f && f->classes > 0) {
        fast__json_set(&tree, "test_f1", fast__json_real(f->f1));
        fast__json_set(&tree, "test_auc", fast__json_real(f->auc));
    } else if (f) {
        fast__json_set(&tree, "test_r2", fast__json_real(f->r2));
    }
    return fast__json_print(&tree, out);
}

/* The network's text; a comment of its file need not be UTF-8, but metadata are. */
static fast_err write_network(const fast_run *run, char **out)
{
    const size_t size = fast_text_utf8(run->text.model, NULL, 0) + 1;

    FAST_TRY(fast__alloc("a network's text", (int64_t)size, 1, out));
    fast_text_utf8(run->text.model, *out, size);
    return FAST_OK;
}

fast_err fast__model_meta_init(const fast_run *run, fast_model_meta *out)
{
    fast_model_meta meta = { .data = NULL };

    fast__model_meta_put(&meta, "format", "pt");
    fast__model_meta_put(&meta, "fast_model", run->config.model);
    if (run->foreign || !run->text.model) {
        *out = meta;
        return FAST_OK;
    }
    fast_err err = fast__recipe_write(run->data.train, &meta.data);
    if (err == FAST_ENOTSUP) { /* inputs of millions of columns are described by their data alone */
        *out = meta;
        return FAST_OK;
    }
    if (!err)
        err = write_network(run, &meta.network);
    if (!err)
        err = write_training(run, &meta.training);
    if (err) {
        fast__model_meta_fini(&meta);
        return err;
    }
    fast__model_meta_put(&meta, "fast_network", meta.network);
    fast__model_meta_put(&meta, "fast_data", meta.data);
    fast__model_meta_put(&meta, "fast_training", meta.training);
    *out = meta;
    return FAST_OK;
}

void fast__model_meta_fini(fast_model_meta *meta)
{
    fast__free(meta->network);
    fast__free(meta->data);
    fast__free(meta->training);
}
