/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NPY and NPZ: the first byte chooses the reading of x; with its highest bit the rest is an NPZ
 * file. Without it, two bytes say how much of the rest is the file of samples, and what remains is
 * the file of labels.
 */
#include "data_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const readings[] = { "image", "sequence", "tokens" };
    if (size < 3)
        return 0;
    const char *reading = readings[(data[0] & 0x7f) % 3];
    char spec[256];
    if ((data[0] & 0x80) != 0) {
        data_file file = data_file_make(data + 1, size - 1);
        snprintf(spec, sizeof spec, "npz:file=%s,as=%s", file.path, reading);
        data_file_open(spec, size);
        data_file_drop(&file);
        return 0;
    }
    const size_t rest = size - 3;
    size_t split = (size_t)data[1] | (size_t)data[2] << 8;
    split = split < rest ? split : rest;
    data_file x = data_file_make(data + 3, split);
    data_file y = data_file_make(data + 3 + split, rest - split);
    snprintf(spec, sizeof spec, "npy:x=%s,y=%s,as=%s", x.path, y.path, reading);
    data_file_open(spec, size);
    data_file_drop(&x);
    data_file_drop(&y);
    return 0;
}
