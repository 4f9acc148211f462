/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PNG: the input is a file without its first 8 bytes. Checksums of chunks are as they are in the
 * input: libpng refuses most changes by them, and the corpus has files whose checksums are right.
 */
#include "picture_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t magic[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    picture_input(magic, sizeof magic, data, size);
    return 0;
}
