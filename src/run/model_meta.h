/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/*
 * The metadata of a file of weights, which make the file a model that can be used without its
 * training program:
 *
 *     format         pt
 *     fast_model     the model as --model named it
 *     fast_network   the network's text (docs/networks.md), with its lines `input` and `loss`
 *     fast_data      the recipe of the inputs (data/recipe.h), JSON
 *     fast_codec     the chain of codecs that the parameters are compressed by, where they are
 *     fast_training  how it was trained, JSON: command, seed, strategy, steps, final figures
 *
 * A run whose network is an operator of the caller's own, or a learner, writes the first two only.
 */
typedef struct fast_model_meta {
    const char *pairs[14]; /* key, value, ..., NULL; for fast__tensors_save() */
    char *network;         /* value of fast_network; or NULL */
    char *data;            /* value of fast_data; or NULL */
    char *training;        /* value of fast_training; or NULL */
} fast_model_meta;

/* Describe a run's model. FAST_ENOMEM. */
fast_err fast__model_meta_init(const fast_run *run, fast_model_meta *out);
/* Add a pair of texts, which are borrowed. */
void fast__model_meta_put(fast_model_meta *meta, const char *key, const char *value);
void fast__model_meta_fini(fast_model_meta *meta);
