/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/network.h"
#include "model/network_text.h"

/* Shared by the files of the models. A model is one file: its options, and a function that writes
 * the layers between the lines `input` and `loss`, which models.c writes. Names of layers in the
 * text become names of parameters, so changing one makes older checkpoints unreadable. */
extern const fast_model fast__model_mlp, fast__model_lenet, fast__model_alexnet;
extern const fast_model fast__model_resnet8, fast__model_resnet20, fast__model_resnet56;
extern const fast_model fast__model_densenet, fast__model_gpt;
extern const fast_model fast__model_rnn, fast__model_lstm, fast__model_gru;
extern const fast_model fast__model_treenet, fast__model_dsn, fast__model_cots;
extern const fast_model fast__model_rollout;

/* Return FAST_EINVAL if the data are no images of at least size x size, or have several answers a
 * sample. */
fast_err fast__model_need_images(const char *model, const fast_model_input *input, int64_t size);

/* Return FAST_EINVAL if the data have several answers a sample. */
fast_err fast__model_need_one_answer(const char *model, const fast_model_input *input);

enum { FAST_WIDTHS_MAX = 64 };

/* Parse widths of layers, "512x256" or "none", into widths[FAST_WIDTHS_MAX]. FAST_EINVAL, with
 * `what` in front, for a width that is not a number from 1 to 2^20, and for too many of them. */
fast_err fast__model_widths(const char *what, const char *text, int64_t *widths, int *count_out);

/* Append the layers before a first dense one: tokens are embedded, sequences become vectors. Images
 * need none, since dense takes them as they are. */
fast_err fast__model_add_vector(const fast_model_input *input, int64_t embedding, fast_text *text);

/* Append the `loss` line that fits the answers; `train`: it is minimised. */
fast_err fast__model_add_loss(const fast_model_input *input, bool train, fast_text *text);
