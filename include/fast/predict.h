/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * predict.h - use a saved model: outputs for new samples, text of a language model. The rules of
 * fast.h hold. A file of `fast train --save` describes its network, its inputs, its classes and its
 * training, so its path is all that is needed:
 *
 *     fast_predictor *predictor = NULL;
 *     fast_samples *samples = NULL;
 *     fast_prediction p;
 *     if (fast_predictor_open("iris.safetensors", NULL, &predictor) == FAST_OK &&
 *         fast_samples_open(predictor, "new.csv", false, &samples) == FAST_OK)
 *         while (fast_samples_next(samples, &p) == FAST_OK && p.count > 0)
 *             for (int64_t i = 0; i < p.count; i++)
 *                 printf("%g\n", (double)p.probabilities[i * 3]);
 *     fast_samples_close(samples);
 *     fast_predictor_close(predictor);
 *
 * The same file, samples and batch give the same outputs to the bit; with the engine and the batch
 * of the run that saved the file they are those of the run.
 */

#include "fast/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A saved model, ready to predict. */
typedef struct fast_predictor fast_predictor;

/* How a model is opened. Zero means default. */
typedef struct fast_predictor_options {
    size_t size;        /* bytes of this struct, as in fast.h; 0 means sizeof */
    const void *bytes;  /* the file in memory, borrowed until close; NULL: `path` is read */
    size_t byte_count;  /* bytes of it */
    const char *model;  /* the network, as --model of `fast train`: for a file without one */
    const char *data;   /* the training data, as --data: for a file that does not describe them */
    const char *engine; /* name; NULL: the fastest */
    const char *plan;   /* as --plan; NULL: auto */
    int64_t batch;      /* samples of a pass; 0: as it was trained */
    bool describe;      /* read the description alone: fast_predictor_json() is all that works */
} fast_predictor_options;

/* Open a model file; `path` names it in messages where it is in memory. FAST_EINVAL if it does not
 * describe itself and `options` do not either, or a weight is missing or not finite; FAST_EFORMAT
 * if it is damaged. */
FAST_API FAST_MUST_CHECK fast_err fast_predictor_open(const char *path,
                                                      const fast_predictor_options *options,
                                                      fast_predictor **out);
FAST_API void fast_predictor_close(fast_predictor *predictor);

/* Sizes of a model. */
typedef struct fast_predictor_sizes {
    int64_t inputs;    /* values of a sample */
    int64_t positions; /* answers of a sample: 1, or the length of a sequence */
    int64_t outputs;   /* of an answer: one for each class, or the values of a regression */
    int64_t classes;   /* 0: regression */
    int64_t batch;     /* samples of a pass */
    int64_t params;    /* trained numbers */
    bool text;         /* a language model of characters: fast_predictor_generate() */
} fast_predictor_sizes;

FAST_API const fast_predictor_sizes *fast_predictor_get_sizes(const fast_predictor *predictor);

/* Return the name of a class; NULL where classes are numbers. */
FAST_API const char *fast_predictor_class(const fast_predictor *predictor, int64_t i);

/* Return the file's description as one JSON object: "model", "network", "data" and "training", null
 * where the file has none, and its "tensors" with shapes and types. */
FAST_API const char *fast_predictor_json(const fast_predictor *predictor);

/* Write the network with its weights as an ONNX file, for other programs: inputs are normalised
 * ones, outputs as those of fast_predictor_run(). FAST_ENOTSUP for a network that ONNX cannot
 * hold, FAST_EIO. */
FAST_API FAST_MUST_CHECK fast_err fast_predictor_export(const fast_predictor *predictor,
                                                        const char *path);

/* Compute the outputs of `count` samples, [count][inputs] as the source of the training data holds
 * them (bytes from 0 to 255 as floats, unscaled columns): they are normalised here. `outputs`
 * [count][positions][outputs] are logits of a classification, before the softmax, or values of a
 * regression; `probabilities`, of the same shape or NULL, the softmax of the logits. */
FAST_API FAST_MUST_CHECK fast_err fast_predictor_run(fast_predictor *predictor, int64_t count,
                                                     const float *x, float *outputs,
                                                     float *probabilities);

/* New samples under way through a model. */
typedef struct fast_samples fast_samples;

/* Open samples: a path, "-" for standard input (tables and text), or a data set by name with its
 * options. With `answers` the source must have labels or targets, otherwise they are ignored. One
 * batch is in memory at a time. The predictor is borrowed until close, for these samples alone. */
FAST_API FAST_MUST_CHECK fast_err fast_samples_open(fast_predictor *predictor, const char *source,
                                                    bool answers, fast_samples **out);
FAST_API void fast_samples_close(fast_samples *samples);

/* Predictions of one batch; all arrays are lent until the next call. */
typedef struct fast_prediction {
    int64_t first;              /* number of the first sample, from 0 */
    int64_t count;              /* samples; 0: no sample is left */
    const float *outputs;       /* [count][positions][outputs]: logits, or values of a regression */
    const float *probabilities; /* [count][positions][outputs]; NULL: regression */
    const int32_t *labels;      /* [count][positions]; NULL without answers, and in a regression */
    const float *targets;       /* [count][outputs]; NULL without answers, and for classes */
    double loss;                /* mean over the batch; NAN without answers */
} fast_prediction;

/* Read and predict the next batch. FAST_EFORMAT names the place in the source. */
FAST_API FAST_MUST_CHECK fast_err fast_samples_next(fast_samples *samples, fast_prediction *out);

/* Return the name of a sample that was predicted, by its number from 0: the path of a picture. Lent
 * until close; NULL where samples have no names. */
FAST_API const char *fast_samples_name(const fast_samples *samples, int64_t sample);

/* Loss and figures of a model on samples with answers. */
typedef struct fast_scores {
    int64_t samples;      /* of the source */
    double loss;          /* mean over the samples, as in training */
    fast_figures figures; /* accuracy, F1, AUC; or MAE, R2. Its arrays are lent until close */
    const char *json;     /* all of it as one JSON object in one line; lent until close */
} fast_scores;

/* Predict all samples of a source, which has answers, and compare. As fast_samples_open() and
 * fast_samples_next(); FAST_EFORMAT if the source has no sample. */
FAST_API FAST_MUST_CHECK fast_err fast_predictor_evaluate(fast_predictor *predictor,
                                                          const char *source, fast_scores *out);

/* How text is generated. */
typedef struct fast_generate_options {
    size_t size;        /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *prompt; /* text to continue; at least one character that the model knows */
    int64_t length;     /* characters to generate */
    double temperature; /* divides the logits; 0: always the most probable character */
    int64_t top_k;      /* draw among the k most probable characters; 0: among all */
    int64_t seed;       /* of the draws: the same seed gives the same text */
} fast_generate_options;

/* Called with each character as it is generated; false ends the generation. */
typedef bool fast_generate_fn(void *ctx, char character);

/* Continue a text. FAST_ENOTSUP for a model that is no language model of characters, FAST_EINVAL
 * for a prompt with other characters. */
FAST_API FAST_MUST_CHECK fast_err fast_predictor_generate(fast_predictor *predictor,
                                                          const fast_generate_options *options,
                                                          fast_generate_fn *put, void *ctx);

#ifdef __cplusplus
}
#endif
