/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/* Output of `fast help` for other programs, from the tables. Return exit codes. */
int cli_manual(FILE *out);                      /* fast(1), in man(7) roff */
int cli_markdown(FILE *out);                    /* docs/options.md */
int cli_complete(FILE *out, const char *shell); /* "bash", "zsh", "fish" */
