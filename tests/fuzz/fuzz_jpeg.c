/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG: the input is a file without its first 3 bytes.
 */
#include "picture_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t magic[] = { 0xff, 0xd8, 0xff };
    picture_input(magic, sizeof magic, data, size);
    return 0;
}
