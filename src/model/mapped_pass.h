/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/* Run a pass whose parameters, state and gradient may be on a device; everything else of it is on
 * the host. They are open to the strategy while it is called back. Fails as run() of the engine. */
fast_err fast__mapped_run(const fast_program *program, fast_workspace *workspace, fast_pass *pass);
