/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast is the allreduce of the MPI library that is installed, between ranks of one machine? The
 * peer of `fast bench allreduce`: started by mpirun, run and compared by bench/allreduce.py.
 *
 * For each length, given in bytes as arguments: calls to warm up, then batches of calls that follow
 * each other, 200 below 1 MiB and 20 above; the median batch counts. Rank 0 prints one JSON object
 * a line with the keys of `fast bench allreduce --json`. Expected: one copy into and one out of
 * shared memory for each rank, so a fraction of the speed of a sum in place.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 5, WARM_UP = 3 };

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

/* One length; rank 0 prints it. False if there is no memory. */
static int measure_bytes(long bytes, int rank, int ranks)
{
    const int count = (int)(bytes / (long)sizeof(float));
    float *in = malloc((size_t)bytes);
    float *out = malloc((size_t)bytes);
    if (in && out) {
        for (int i = 0; i < count; i++) {
            in[i] = (float)(i % 7);
            out[i] = 0;
        }
        const double seconds = measure(in, out, count, bytes < 1 << 20 ? 200 : 20);
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
    for (int i = 1; i < argc && done; i++) {
        const long bytes = strtol(argv[i], NULL, 10);
        done = bytes >= 4 && bytes <= 1L << 30 && measure_bytes(bytes, rank, ranks);
    }
    MPI_Finalize();
    return done ? 0 : 1;
}
