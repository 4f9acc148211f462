/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/network.h"
#include "model/network_text.h"

/* What the files of the models share. models.c writes the lines `input` and `loss` around what a
 * model writes. */
extern const fast_model fast__model_mlp, fast__model_lenet, fast__model_alexnet;
extern const fast_model fast__model_resnet8, fast__model_resnet20, fast__model_resnet56;
extern const fast_model fast__model_densenet, fast__model_gpt;
extern const fast_model fast__model_rnn, fast__model_lstm, fast__model_gru;

/* FAST_EINVAL with one sentence where the data are no images of at least size x size, or ask for
 * more than one answer a sample. */
fast_err fast__model_need_images(const char *model, const fast_model_input *input, int64_t size);

/* Likewise where they ask for more than one answer a sample. */
fast_err fast__model_need_one_answer(const char *model, const fast_model_input *input);
