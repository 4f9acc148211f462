/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast is the allreduce of the MPI library that is installed, between ranks of one machine? The
 * peer of `fast bench allreduce`: started by mpirun, run and compared by bench/allreduce.py.
 *
 * For each length, given in bytes as arguments: calls to warm up, then batches of calls that follow
 * each other, 200 below 1 MiB and 20 above; the median batch counts. Rank 0 prints one JSON object
 * a line with the keys of `fast bench allreduce --json`. After the argument `fresh` each rank
 * writes its whole vector before each of 100 calls that begin together and are timed one by one,
 * and reads it behind it; the median counts. Expected: one copy into and one out of shared memory
 * for each rank, so a fraction of the speed of a sum in place.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 5, WARM_UP = 3, FRESH_CALLS = 100 };

static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Seconds of one call, in the median batch. */
static double measure(const float *in, float *out, int count, int rounds)
{
    double times[BATCHES];
    for (int i = 0; i < WARM_UP; i++)
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int batch = 0; batch < BATCHES; batch++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (int i = 0; i < rounds; i++)
            MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        times[batch] = (MPI_Wtime() - begin) / rounds;
    }
    qsort(times, BATCHES, sizeof times[0], compare);
    return times[BATCHES / 2];
}

/* Seconds of one call with new values, in place; the median. Wrong sums end the program. */
static double measure_fresh(float *x, int count, int rank, int ranks)
{
    double times[FRESH_CALLS];
    for (int call = -WARM_UP; call < FRESH_CALLS; call++) {
        float sums[16] = { 0 };
        for (int i = 0; i < count; i++)
            x[i] = (float)((rank + call + i) & 15);
        for (int i = 0; i < 16; i++)
            for (int other = 0; other < ranks; other++)
                sums[i] += (float)((other + call + i) & 15);
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (call >= 0)
            times[call] = MPI_Wtime() - begin;
        for (int i = 0; i < count; i++)
            if (x[i] < sums[i & 15] || x[i] > sums[i & 15])
                MPI_Abort(MPI_COMM_WORLD, 1);
    }
    qsort(times, FRESH_CALLS, sizeof times[0], compare);
    return times[FRESH_CALLS / 2];
}

/* One length; rank 0 prints it. False if there is no memory. */
static int measure_bytes(long bytes, int fresh, int rank, int ranks)
{
    const int count = (int)(bytes / (long)sizeof(float));
    float *in = malloc((size_t)bytes);
    float *out = malloc((size_t)bytes);
    if (in && out) {
        for (int i = 0; i < count; i++) {
            in[i] = (float)(i % 7);
            out[i] = 0;
        }
        const double seconds = fresh ? measure_fresh(out, count, rank, ranks)
                                     : measure(in, out, count, bytes < 1 << 20 ? 200 : 20);
        if (rank == 0)
            printf("{\"transport\": \"peer\", \"algorithm\": \"MPI_Allreduce\", \"workers\": %d, "
                   "\"bytes\": %ld, \"us\": %.4f, \"gb_per_s\": %.4f}\n",
                   ranks, bytes, seconds * 1e6, (double)bytes / seconds * 1e-9);
    }
    const int done = in && out;
    free(in);
    free(out);
    return done;
}

int main(int argc, char **argv)
{
    int rank = 0, ranks = 0, done = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int fresh = argc > 1 && strcmp(argv[1], "fresh") == 0;
    for (int i = 1 + fresh; i < argc && done; i++) {
        const long bytes = strtol(argv[i], NULL, 10);
        done = bytes >= 4 && bytes <= 1L << 30 && measure_bytes(bytes, fresh, rank, ranks);
    }
    MPI_Finalize();
    return done ? 0 : 1;
}
