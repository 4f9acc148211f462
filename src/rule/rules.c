/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of update rules. A new rule is a file of its own and a line here; the tests that
 * loop over this list then cover it.
 */
#include "rule/kernel.h"

const fast_rule *const fast__rules[] = {
    &fast__rule_sgd,      &fast__rule_momentum,
    &fast__rule_nesterov, &fast__rule_adagrad,
    &fast__rule_rmsprop,  &fast__rule_adam,
    &fast__rule_adamw,    &fast__rule_lars,
    &fast__rule_lamb,     NULL,
};
