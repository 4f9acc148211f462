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

/* Return FAST_EINVAL if the data are no images of at least size x size, or have several answers a
 * sample. */
fast_err fast__model_need_images(const char *model, const fast_model_input *input, int64_t size);

/* Return FAST_EINVAL if the data have several answers a sample. */
fast_err fast__model_need_one_answer(const char *model, const fast_model_input *input);
