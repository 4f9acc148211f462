/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* XXH64 of `size` bytes: for identity of parameters and plans, not for security. */
uint64_t fast__hash(const void *bytes, size_t size, uint64_t seed);
