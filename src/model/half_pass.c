/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Halves of a backward pass, for learners of stages: the phases of the engine, and their shares of
 * its operations.
 */
#include "model/half_pass.h"

void fast__half_set(fast_stage_half half, fast_pass *pass)
{
    FAST_ASSERT(pass->phase == FAST_PASS_BACKWARD);
    if (half == FAST_STAGE_INPUTS) {
        pass->phase = FAST_PASS_INPUTS;
        pass->grad = NULL;
        pass->report = NULL;
    } else if (half == FAST_STAGE_WEIGHTS) {
        pass->phase = FAST_PASS_WEIGHTS;
        pass->outputs_grad = NULL;
        pass->inputs_grad = NULL;
    }
}

double fast__half_flops(const fast_program *program, fast_stage_half half)
{
    const double all = program->flops_train - program->flops_forward;

    return half == FAST_STAGE_BOTH      ? all
           : half == FAST_STAGE_WEIGHTS ? program->flops_weights
                                        : all - program->flops_weights;
}
