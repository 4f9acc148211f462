/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: how long does a small message take there and back between two ranks of Open MPI on one
 * machine? The peer of bench/roundtrip.c.
 * Method: as there: rounds of many round trips, best and median. Run it with mpirun -n 2.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 25, TRIPS = 20000, SIZE_MAX_ = 4096 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int rank, int size)
{
    static char bytes[SIZE_MAX_];
    double ns[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (int i = 0; i < TRIPS; i++) {
            if (rank == 0)
                MPI_Send(bytes, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(bytes, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1)
                MPI_Send(bytes, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        ns[round] = (MPI_Wtime() - begin) * 1e9 / TRIPS;
    }
    qsort(ns, ROUNDS, sizeof ns[0], compare);
    if (rank == 0)
        printf("mpi, %4d bytes              %8.1f ns best %8.1f ns median\n", size, ns[0],
               ns[ROUNDS / 2]);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    measure(rank, 0);
    measure(rank, 8);
    measure(rank, 64);
    measure(rank, 4096);
    MPI_Finalize();
    return 0;
}
