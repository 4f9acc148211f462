/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher that has started this process as one rank of several: mpirun or srun, by the
 * variables that they set. A batch script of Slurm is no rank, although it sees some of them: only
 * srun sets SLURM_STEP_NUM_TASKS.
 *
 * On the machine of mpirun its command line is that of the parent process, in /proc, so the command
 * that continues a run has its hosts and settings too. Elsewhere the number of ranks has to do:
 *
 *   mpirun --host a,b -n 2 fast train ...
 *   continue with: mpirun --host a,b -n 2 fast train ... --resume run.safetensors
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 65536 }; /* bytes of a command line that are read */

/* A whole number that a launcher has set; `none` without it. */
static int variable(const char *name, int none)
{
    const char *text = getenv(name);
    return text && text[0] ? atoi(text) : none;
}

int cli_ranks(void)
{
    return variable("OMPI_COMM_WORLD_SIZE", variable("SLURM_STEP_NUM_TASKS", 1));
}

int cli_rank(void)
{
    return variable("OMPI_COMM_WORLD_RANK", variable("SLURM_PROCID", 0));
}

/* True if `word` is mpirun or another name of it, in any folder. */
static bool is_mpirun(const char *word)
{
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    return strcmp(name, "mpirun") == 0 || strcmp(name, "mpiexec") == 0 ||
           strcmp(name, "orterun") == 0;
}

/* Read the words of the parent's command line, each with a zero byte; their bytes, or 0. */
static size_t read_parent(char words[WORDS_MAX])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)getppid());
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    const size_t size = fread(words, 1, WORDS_MAX - 1, file);
    fclose(file);
    words[size] = '\0';
    return is_mpirun(words) ? size : 0;
}

/* Write mpirun's words before the program's, whose last `argc` words are the command and its
 * flags. False if the parent is no mpirun, or runs several programs. */
static bool put_parent(FILE *file, int argc, char **argv)
{
    char words[WORDS_MAX];
    const char *first[WORDS_MAX / 64];
    const int room = (int)(sizeof first / sizeof first[0]);
    const size_t size = read_parent(words);
    int count = 0;

    for (size_t at = 0; at < size && count < room; at += strlen(words + at) + 1)
        first[count++] = words + at;
    const int own = count - argc; /* the program is one word before its command */
    if (own < 2 || count == room || strcmp(first[own], argv[0]) != 0)
        return false;
    for (int i = 0; i < own - 1; i++)
        if (strcmp(first[i], ":") == 0)
            return false;
    for (int i = 0; i < own - 1; i++) {
        cli_put_quoted(file, first[i]);
        fputc(' ', file);
    }
    return true;
}

void cli_put_launcher(FILE *file, int argc, char **argv)
{
    if (cli_ranks() < 2)
        return;
    if (!getenv("OMPI_COMM_WORLD_SIZE"))
        fprintf(file, "srun -n %d ", cli_ranks());
    else if (!put_parent(file, argc, argv))
        fprintf(file, "mpirun -n %d ", cli_ranks());
}
