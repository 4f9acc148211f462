/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CSV: the first byte chooses delimiter, header and task; the rest is the file.
 */
#include "data_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const delimiters[] = {
        "auto", "comma", "semicolon", "tab", "space", "pipe"
    };
    static const char *const headers[] = { "auto", "yes", "no" };
    static const char *const tasks[] = { "auto", "classes", "regression" };
    static const char *const labels[] = { "-1", "0", "a" };
    if (size < 1)
        return 0;
    const unsigned choice = data[0];
    data_file file = data_file_make(data + 1, size - 1);
    char spec[256];
    snprintf(spec, sizeof spec, "csv:file=%s,delimiter=%s,header=%s,task=%s,label=%s", file.path,
             delimiters[choice % 6], headers[choice / 6 % 3], tasks[choice / 18 % 3],
             labels[choice / 54 % 3]);
    data_file_open(spec, size);
    data_file_drop(&file);
    return 0;
}
