/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of update rules. A new rule is a file of its own that defines fast__rule_<name>, and
 * a line here; the tests that loop over this list then cover it.
 */
#include "rule/rule.h"

/* clang-format off */
#define RULES(X) \
    X(sgd)       \
    X(momentum)  \
    X(nesterov)  \
    X(adagrad)   \
    X(adadelta)  \
    X(rmsprop)   \
    X(adam)      \
    X(adamw)     \
    X(lars)      \
    X(lamb)      \
    X(lion)      \
    X(muon)      \
    X(yellowfin)
/* clang-format on */

#define DECLARE(name) extern const fast_rule fast__rule_##name;
#define ADDRESS(name) &fast__rule_##name,

RULES(DECLARE)

const fast_rule *const fast__rules[] = { RULES(ADDRESS) NULL };
