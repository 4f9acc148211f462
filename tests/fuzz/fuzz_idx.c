/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX: the first two bytes say how much of the rest is the file of samples; what remains is the
 * file of labels. Either may be gzipped.
 */
#include "data_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const size_t rest = size - 2;
    size_t split = (size_t)data[0] | (size_t)data[1] << 8;
    split = split < rest ? split : rest;
    data_file x = data_file_make(data + 2, split);
    data_file y = data_file_make(data + 2 + split, rest - split);
    char spec[256];
    snprintf(spec, sizeof spec, "idx:images=%s,labels=%s,normalize=standard", x.path, y.path);
    data_file_open(spec, size);
    data_file_drop(&x);
    data_file_drop(&y);
    return 0;
}
