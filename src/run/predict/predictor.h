/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/recipe.h"
#include "engine/engine.h"
#include "fast/predict.h"
#include "learner/figures.h"
#include "tensor/safetensors.h"

/*
 * A saved model in memory. From a file to predictions:
 *
 *   ../model_meta.c   a run -> the metadata of its file
 *   predictor.c       file -> metadata -> recipe, graph -> program, weights; samples in memory
 *   samples.c         new data by the recipe -> batches -> predictions
 *   scores.c          predictions and answers -> loss and figures
 *   generate.c        a prompt -> characters
 */
struct fast_predictor {
    fast_predictor_sizes sizes; /* of the model */
    fast_recipe *recipe;        /* of the inputs */
    fast_graph *graph;          /* of the network */
    const fast_engine *engine;  /* that computes */
    fast_program *program;      /* the graph compiled */
    fast_workspace *workspace;  /* of the program */
    float *w;                   /* parameters */
    float *s;                   /* state */
    float *x;                   /* [batch][inputs]: normalised */
    float *outputs;             /* [batch][positions][outputs] */
    float *probabilities;       /* [batch][positions][outputs] */
    uint32_t *numbers;          /* [batch]: 0, 1, 2, ... */
    char *json;                 /* the description */
    fast_figure_sums *sums;     /* of the last evaluation; or NULL */
    char *scores;               /* JSON of the last evaluation; or NULL */
};

/* Run one pass over predictor->x: `count` samples, whose answers may be NULL. Sets
 * predictor->outputs, on the scale of the source's targets, and *loss_out where it is not NULL. */
fast_err fast__predictor_pass(fast_predictor *predictor, int64_t count, const int32_t *labels,
                              const float *targets, double *loss_out);

/* Softmax of `rows` rows of `count` logits, computed in double. */
void fast__softmax_rows(int64_t rows, int64_t count, const float *logits, float *out);
