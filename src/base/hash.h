/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Return XXH64 of `size` bytes: identifies parameters and plans; not for security. */
uint64_t fast__hash(const void *bytes, size_t size, uint64_t seed);
