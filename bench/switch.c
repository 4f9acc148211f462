/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch in user space: it connects network namespaces of this machine by links with a delay, a
 * bandwidth and a loss, where the kernel has no netem. It needs root and /dev/net/tun.
 *
 *     bench_switch [--delay MS] [--mbit RATE] [--loss PERCENT] [--seed N] NAMESPACE...
 *
 * Namespace i, counted from 1, gets the device fast0 with the address 10.77.0.i/24. The switch
 * prints "ready" when all devices are up, passes packets until it is ended by a signal, then prints
 * the packets that it passed, lost at random and dropped because a queue was full.
 *
 *     sender    |== m / rate ==|                    a port sends one packet at a time
 *     wire                      delay ----->|
 *     receiver                              |== m / rate ==|   and receives one at a time
 *
 * Each port has a queue of QUEUE_MAX packets in either direction, as netem has. A packet is lost
 * with the given probability before it takes its port. Without a rate a packet takes its delay
 * only. The thread runs with a real-time priority, so that packets leave on time (within 0.1 ms)
 * on a machine that others use.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    PORTS_MAX = 16,        /* namespaces */
    PACKET_MAX = 1600,     /* bytes of a packet */
    PACKETS_MAX = 1 << 15, /* packets in the switch at a time */
    QUEUE_MAX = 1000,      /* packets that wait for one port in one direction */
    FRAME = 38             /* bytes of Ethernet around a packet: preamble, header, check, gap */
};

typedef struct switch_packet {
    int64_t due;   /* when its next event happens, ns */
    int64_t order; /* events at the same time happen in this order */
    int to;        /* port of the receiver */
    int from;      /* port of the sender */
    int stage;     /* 0: leaves its port; 1: reaches the other port; 2: is received */
    int size;      /* bytes of data */
    unsigned char data[PACKET_MAX]; /* an IPv4 packet */
} switch_packet;

/* One namespace's port. */
typedef struct switch_port {
    int fd;           /* its device */
    int64_t out_free; /* when the last packet has left it */
    int64_t in_free;  /* when the last packet has arrived at it */
    int out_count;    /* packets that wait to leave */
    int in_count;     /* packets that wait to arrive */
} switch_port;

static switch_packet *heap[PACKETS_MAX];      /* by due and order, the earliest first */
static int heap_count;                        /* packets in the heap */
static switch_packet *unused;                 /* a stack of free packets, linked by their data */
static switch_port ports[PORTS_MAX];          /* of the namespaces */
static int port_count;                        /* number of namespaces */
static int64_t delay_ns;                      /* of the wire, one way */
static double ns_per_byte;                    /* of a port; 0: no limit */
static double loss;                           /* probability */
static uint64_t draws;                        /* state of the random numbers */
static int64_t passed, lost, dropped, orders; /* counters */
static volatile sig_atomic_t ended;           /* a signal came */

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_switch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A random number in [0, 1): splitmix64. */
static double draw(void)
{
    uint64_t z = draws += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int is_before(const switch_packet *a, const switch_packet *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void heap_push(switch_packet *packet)
{
    int i = heap_count++;
    packet->order = orders++;
    for (; i > 0 && is_before(packet, heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = packet;
}

static switch_packet *heap_pop(void)
{
    switch_packet *first = heap[0], *last = heap[--heap_count];
    int i = 0;
    for (int child = 1; child < heap_count; child = 2 * i + 1) {
        if (child + 1 < heap_count && is_before(heap[child + 1], heap[child]))
            child++;
        if (!is_before(heap[child], last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return first;
}

/* Open the device fast0 in a namespace and set its address. */
static int port_open(const char *namespace, int i)
{
    struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    char path[256];
    const int home = open("/proc/self/ns/net", O_RDONLY);
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    const int space = open(path, O_RDONLY);
    if (home < 0 || space < 0 || setns(space, CLONE_NEWNET))
        die(path);
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    const int control = socket(AF_INET, SOCK_DGRAM, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "fast0");
    if (fd < 0 || control < 0 || ioctl(fd, TUNSETIFF, &request))
        die("/dev/net/tun");
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(0x0A4D0001u + (uint32_t)i);
    if (ioctl(control, SIOCSIFADDR, &request))
        die("address of fast0");
    address->sin_addr.s_addr = htonl(0xFFFFFF00u);
    if (ioctl(control, SIOCSIFNETMASK, &request))
        die("mask of fast0");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(control, SIOCSIFFLAGS, &request))
        die("fast0 up");
    close(control);
    if (setns(home, CLONE_NEWNET))
        die("own namespace");
    close(home);
    close(space);
    return fd;
}

/* Put a packet that waits for a port behind the packets before it. */
static void occupy(switch_packet *packet, int64_t *free, int64_t now)
{
    const int64_t begin = *free > now ? *free : now;
    *free = begin + (int64_t)((packet->size + FRAME) * ns_per_byte);
    packet->due = *free;
    packet->stage++;
    heap_push(packet);
}

static void forget(switch_packet *packet, int64_t *counter)
{
    memcpy(packet->data, &unused, sizeof unused);
    unused = packet;
    ++*counter;
}

/* Read one packet of a port. Returns 0 if no packet waits. */
static int port_read(int from, int64_t now)
{
    switch_packet *packet = unused;
    if (!packet)
        return 0; /* the device holds it back */
    switch_packet *next;
    memcpy(&next, packet->data, sizeof next);
    const ssize_t size = read(ports[from].fd, packet->data, PACKET_MAX);
    if (size < 0) {
        memcpy(packet->data, &next, sizeof next);
        return 0;
    }
    unused = next;
    const int to = size >= 20 && packet->data[0] >> 4 == 4 ? packet->data[19] - 1 : -1;
    packet->from = from;
    packet->to = to;
    packet->size = (int)size;
    packet->stage = 0;
    if (to < 0 || to >= port_count || to == from || ports[from].out_count == QUEUE_MAX)
        forget(packet, &dropped);
    else if (draw() < loss)
        forget(packet, &lost);
    else {
        ports[from].out_count++;
        occupy(packet, &ports[from].out_free, now);
    }
    return 1;
}

/* Handle the earliest event. */
static void advance(switch_packet *packet)
{
    if (packet->stage == 1) {
        ports[packet->from].out_count--;
        packet->due += delay_ns;
        packet->stage++;
        heap_push(packet);
    } else if (packet->stage == 2 && ports[packet->to].in_count == QUEUE_MAX) {
        forget(packet, &dropped);
    } else if (packet->stage == 2) {
        ports[packet->to].in_count++;
        occupy(packet, &ports[packet->to].in_free, packet->due);
    } else {
        ports[packet->to].in_count--;
        const ssize_t written = write(ports[packet->to].fd, packet->data, (size_t)packet->size);
        forget(packet, written == packet->size ? &passed : &dropped);
    }
}

/* Pass packets until a signal comes. */
static void pass(void)
{
    struct pollfd polls[PORTS_MAX];
    for (int i = 0; i < port_count; i++)
        polls[i] = (struct pollfd){ .fd = ports[i].fd, .events = POLLIN };
    while (!ended) {
        const int64_t wait = heap_count ? heap[0]->due - now_ns() : 1000000000;
        const struct timespec time = { .tv_sec = wait > 0 ? wait / 1000000000 : 0,
                                       .tv_nsec = wait > 0 ? wait % 1000000000 : 0 };
        ppoll(polls, (nfds_t)port_count, &time, NULL);
        int64_t now = now_ns();
        while (heap_count && heap[0]->due <= now)
            advance(heap_pop());
        for (int i = 0; i < port_count; i++)
            while (polls[i].revents && port_read(i, now))
                now = now_ns();
    }
}

int main(int argc, char **argv)
{
    static switch_packet packets[PACKETS_MAX];
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        const double value = atof(argv[at + 1]);
        if (strcmp(argv[at], "--delay") == 0)
            delay_ns = (int64_t)(value * 1e6);
        else if (strcmp(argv[at], "--mbit") == 0)
            ns_per_byte = value > 0 ? 8e3 / value : 0;
        else if (strcmp(argv[at], "--loss") == 0)
            loss = value / 100;
        else if (strcmp(argv[at], "--seed") == 0)
            draws = (uint64_t)value;
        else
            argc = 0;
    }
    if (argc - at < 2 || argc - at > PORTS_MAX) {
        fprintf(stderr, "usage: bench_switch [--delay MS] [--mbit RATE] [--loss PERCENT] "
                        "[--seed N] NAMESPACE NAMESPACE...\n");
        return 2;
    }
    for (int i = 0; i < PACKETS_MAX; i++)
        forget(&packets[i], &passed);
    passed = 0;
    port_count = argc - at;
    for (int i = 0; i < port_count; i++)
        ports[i].fd = port_open(argv[at + i], i);
    signal(SIGINT, end);
    signal(SIGTERM, end);
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 10 }))
        fprintf(stderr, "bench_switch: no real-time priority: packets may be late\n");
    printf("ready\n");
    fflush(stdout);
    pass();
    printf("passed %lld, lost %lld, dropped %lld\n", (long long)passed, (long long)lost,
           (long long)dropped);
    return 0;
}
