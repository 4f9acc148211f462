/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/data.h"

/* Whether the files are where the Debian package puts them. */
bool fast__fashion_mnist_found(void);
