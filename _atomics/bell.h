/* A bell: what really blocks a thread, and what ends that. Plain C; the protocol that makes it safe
 * to lie down is otavia_ft/parking.py's.
 *
 * A thread that has nothing to watch waits on a condition variable. One that watches channels waits
 * in a selector, so for that one the bell has a file descriptor too, made when it is first wanted.
 * The ring is sticky either way: `rung` is the truth, and what the descriptor says is a copy of it,
 * changed under the same mutex. Before it lies down a thread watches another copy for a moment.
 *
 * Two orders could go wrong, and the mutex rules both out: a ring between the sleeper's look at
 * `rung` and its wait (the look and the wait are one step for whoever holds the mutex), and a ring
 * after `close` that writes to a descriptor which by now is somebody else's (close forgets it under
 * the mutex).
 *
 * Nothing of Python runs while the mutex is held, so neither a signal's handler nor a finaliser that
 * sends a message can come back for it on the same thread.
 */
#ifndef OTV_BELL_H
#define OTV_BELL_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t called;
    bool rung;
    _Atomic bool in_sight; /* a copy of it, for whoever looks without the mutex: otv_bell_watch */
    int reader, writer;    /* -1: nobody has wanted a descriptor yet */
    int hope;              /* the owner's own: how often it may still watch in vain */
    unsigned naps;         /* the owner's own: how often it has slept without watching */
} otv_bell;

enum {
    OTV_WATCH_NS = 20000, /* about what a sleep costs: see otv_bell_watch */
    OTV_HOPE = 8,
    OTV_NAPS = 32,
};

static int otv_bell_init(otv_bell *bell)
{
    pthread_condattr_t attributes;
    bell->rung = false;
    atomic_init(&bell->in_sight, false);
    bell->reader = bell->writer = -1;
    bell->hope = OTV_HOPE;
    bell->naps = 0;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__ /* there the wait takes a duration instead */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    int failed = pthread_cond_init(&bell->called, &attributes);
    pthread_condattr_destroy(&attributes);
    return failed ? failed : pthread_mutex_init(&bell->mutex, NULL);
}

static void otv_bell_tell_descriptor(otv_bell *bell)
{
    static const uint64_t once = 1;
    while (write(bell->writer, &once, sizeof once) < 0 && errno == EINTR)
        ; /* it does not block: one that is full rings already */
}

static void otv_bell_clear_descriptor(otv_bell *bell)
{
    char rings[4096]; /* a pipe holds eight bytes for each */
    while (read(bell->reader, rings, sizeof rings) < 0 && errno == EINTR)
        ;
}

/* End the owner's sleep, or its next one. Any thread. */
static void otv_bell_ring(otv_bell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    bell->rung = true;
    if (bell->writer >= 0)
        otv_bell_tell_descriptor(bell);
    /* Last, because whoever sees it comes for the mutex. */
    atomic_store_explicit(&bell->in_sight, true, memory_order_relaxed);
    pthread_mutex_unlock(&bell->mutex);
    pthread_cond_signal(&bell->called); /* after the unlock: or it would wake up to a locked door */
}

/* Under the mutex: forget all rings; whether there was one. */
static bool otv_bell_take(otv_bell *bell)
{
    bool rung = bell->rung;
    bell->rung = false;
    atomic_store_explicit(&bell->in_sight, false, memory_order_relaxed);
    if (bell->reader >= 0 && rung)
        otv_bell_clear_descriptor(bell);
    return rung;
}

/* The same for the owner, after its selector has seen the ring. */
static bool otv_bell_silence(otv_bell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    bool rung = otv_bell_take(bell);
    pthread_mutex_unlock(&bell->mutex);
    return rung;
}

static inline int64_t otv_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Watch for a ring before lying down. Two threads that answer each other would otherwise sleep and be
 * woken for each message, which costs both of them microseconds, and the answer is often there sooner.
 * Who watches for about as long as a sleep costs has at worst spent twice what the better choice costs.
 *
 * It is given up where it does not pay, as when nobody is in a hurry, or when there is no core left for
 * the one who would ring: each time in vain takes from `hope`, and without hope only every OTV_NAPS-th
 * sleep begins with it. One ring that it sees brings all hope back.
 *
 * The look is relaxed, for nothing follows from it but that the wait will be short: what the ring stands
 * for is seen by whoever takes it, under the mutex. */
static void otv_bell_watch(otv_bell *bell)
{
    if (bell->hope == 0 && ++bell->naps % OTV_NAPS != 0)
        return;
    int64_t until = otv_monotonic_ns() + OTV_WATCH_NS;
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(&bell->in_sight, memory_order_relaxed)) {
                bell->hope = OTV_HOPE;
                return;
            }
            otv_pause();
        }
    } while (otv_monotonic_ns() < until);
    if (bell->hope > 0)
        bell->hope--;
}

/* Block until it rings, or for so many nanoseconds (below zero: for ever), and forget the ring.
 * False: it has not rung. The owner only, detached from the interpreter. */
static bool otv_bell_wait(otv_bell *bell, int64_t nanoseconds)
{
    if (nanoseconds < 0)
        otv_bell_watch(bell);
    struct timespec until = {0, 0};
#ifndef __APPLE__
    if (nanoseconds >= 0)
        clock_gettime(CLOCK_MONOTONIC, &until);
#endif
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec += nanoseconds % 1000000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    int ended = 0;
    pthread_mutex_lock(&bell->mutex);
    while (!bell->rung && ended == 0) {
        if (nanoseconds < 0)
            ended = pthread_cond_wait(&bell->called, &bell->mutex);
        else
#ifdef __APPLE__ /* a spurious wake-up makes it wait the whole time again; the owner looks anyway */
            ended = pthread_cond_timedwait_relative_np(&bell->called, &bell->mutex, &until);
#else
            ended = pthread_cond_timedwait(&bell->called, &bell->mutex, &until);
#endif
    }
    bool rung = otv_bell_take(bell);
    pthread_mutex_unlock(&bell->mutex);
    return rung;
}

static bool otv_bell_open(int *reader, int *writer)
{
#ifdef __linux__
    *reader = *writer = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *reader >= 0;
#else
    int ends[2];
    if (pipe(ends) < 0)
        return false;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    *reader = ends[0];
    *writer = ends[1];
    return true;
#endif
}

/* What a selector can watch: readable while it rings. -1 and errno where there is none to be had. */
static int otv_bell_descriptor(otv_bell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    if (bell->reader < 0 && otv_bell_open(&bell->reader, &bell->writer) && bell->rung)
        otv_bell_tell_descriptor(bell);
    int reader = bell->reader;
    pthread_mutex_unlock(&bell->mutex);
    return reader;
}

/* Give the descriptor back. Whoever rings later only sets the flag. */
static void otv_bell_close(otv_bell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    if (bell->writer >= 0 && bell->writer != bell->reader)
        close(bell->writer);
    if (bell->reader >= 0)
        close(bell->reader);
    bell->reader = bell->writer = -1;
    pthread_mutex_unlock(&bell->mutex);
}

static void otv_bell_destroy(otv_bell *bell)
{
    otv_bell_close(bell);
    pthread_cond_destroy(&bell->called);
    pthread_mutex_destroy(&bell->mutex);
}

#endif
