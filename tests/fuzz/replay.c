/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a corpus: runs the fuzz target that it is linked with on every file of the folders named
 * on the command line, in the order of their names, and says how many there were. No file at all is
 * a failure, or a wrong folder would pass. It replaces libFuzzer for
 * other compilers, and under any sanitizer.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_SIZE = 4096 };

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Run one file. The bytes are a block of exactly their size, so that a sanitizer sees one more. */
static int replay_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode))
        return 0;
    FILE *file = fopen(path, "rb");
    const size_t size = (size_t)info.st_size;
    uint8_t *bytes = malloc(size ? size : 1);
    if (!file || !bytes || fread(bytes, 1, size, file) != size) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    return 1;
}

static int replay_folder(const char *folder)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_visible, alphasort);
    if (count < 0) {
        fprintf(stderr, "cannot read the folder %s\n", folder);
        exit(1);
    }
    int ran = 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_SIZE];
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (length > 0 && length < PATH_SIZE)
            ran += replay_file(path);
        free(entries[i]);
    }
    free(entries);
    return ran;
}

int main(int argc, char **argv)
{
    int ran = 0;
    for (int i = 1; i < argc; i++)
        ran += replay_folder(argv[i]);
    printf("%d inputs\n", ran);
    return ran > 0 ? 0 : 1;
}
