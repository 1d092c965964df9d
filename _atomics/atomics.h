/* The atomic word, the spin lock and the house's state machine: plain C11, no Python.
 *
 * Everything here is `static inline` on a caller's memory, so that the extension module and the
 * ThreadSanitizer driver (driver.c) compile the very same lines.
 *
 * Memory orders, and why there are three of them:
 *
 *   acquire load      sees everything that the matching release published. Enough for reading.
 *   lazy set          a release store: publishes what came before, but a *later* load of another
 *                     word may still overtake it (on x86-64 too: the store waits in the store
 *                     buffer). Right for giving something up, such as unlocking; wrong for half of
 *                     a handshake in which each side writes its own word and then reads the other's.
 *   seq-cst           everything else. A handshake needs it on both sides: "I wrote mine before I
 *                     read yours" must hold for both, or both may miss each other and sleep.
 */
#ifndef OTV_ATOMICS_H
#define OTV_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sched.h>
#include <time.h>

#include "marks.h"

/* ---- a 64-bit cell ------------------------------------------------------------------------ */

typedef struct { _Atomic int64_t value; } otv_cell;

/* Acquire: whoever sees a value that a release stored sees all that was written before it. For
 * reading what somebody published; not for the second half of a handshake. */
static inline int64_t otv_load(otv_cell *c)
{
    return atomic_load_explicit(&c->value, memory_order_acquire);
}

/* Seq-cst: a load that takes part in the one order of all seq-cst operations. The second half of a
 * handshake must use this one: on ARM an acquire load may still overtake an earlier store. */
static inline int64_t otv_load_ordered(otv_cell *c)
{
    OTV_STEP(); /* this side's word is written, and the other side may act on it before the look */
    return atomic_load_explicit(&c->value, memory_order_seq_cst);
}

/* Release: pairs with the acquire loads above and in otv_try_lock. No more than that, because a full
 * store waits for the store buffer to empty, and who gives something up has no need to. */
static inline void otv_lazy_set(otv_cell *c, int64_t v)
{
    atomic_store_explicit(&c->value, v, memory_order_release);
}

/* Seq-cst: the first half of a handshake. With a release store, this thread's next look at the
 * other's word could come before its own word is there to be seen. */
static inline void otv_set(otv_cell *c, int64_t v)
{
    OTV_STEP(); /* what was looked at before may be another by now */
    atomic_store_explicit(&c->value, v, memory_order_seq_cst);
    OTV_STEP(); /* all see it, and what has to follow is not done yet */
}

/* Seq-cst, because the losers look at other words next and must not do so too early; that is also
 * why a failure, which is only a load, has the full order. */
static inline bool otv_compare_and_set(otv_cell *c, int64_t expected, int64_t desired)
{
    OTV_STEP(); /* between a look that was right and this, somebody else may be faster */
    bool won = atomic_compare_exchange_strong_explicit(
        &c->value, &expected, desired, memory_order_seq_cst, memory_order_seq_cst);
    OTV_STEP(); /* all see the change, and what the winner has to do is not done yet */
    return won;
}

/* Seq-cst: both halves at once. It publishes as a release, sees as an acquire, and no later look of
 * this thread overtakes it. */
static inline int64_t otv_get_and_set(otv_cell *c, int64_t v)
{
    OTV_STEP(); /* what this is about has happened, and whom to tell is not known yet */
    int64_t before = atomic_exchange_explicit(&c->value, v, memory_order_seq_cst);
    OTV_STEP(); /* only this thread knows what it has taken out */
    return before;
}

/* Seq-cst, as get_and_set: counters wake sleepers when they reach a bound. The look before it may be
 * relaxed, for the compare-and-set finds out whether it was right.
 *
 * Adds and returns the value before. Refuses to wrap: on overflow nothing changes and *wrapped is
 * set. A compare-and-set loop instead of one fetch-add, because a wrapped value must not be seen
 * by anybody, not even for an instant. */
static inline int64_t otv_get_and_add(otv_cell *c, int64_t n, bool *wrapped)
{
    int64_t seen = atomic_load_explicit(&c->value, memory_order_relaxed);
    int64_t sum;
    *wrapped = false;
    OTV_STEP(); /* others count as well: only the compare-and-set knows the number */
    do {
        if (__builtin_add_overflow(seen, n, &sum)) {
            *wrapped = true;
            return seen;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &c->value, &seen, sum, memory_order_seq_cst, memory_order_relaxed));
    return seen;
}

/* ---- spin lock ---------------------------------------------------------------------------- */

/* The word holds a number that stands for the holder, 0 when free. */

enum { OTV_SPINS = 100, OTV_YIELDS = 100, OTV_NAP_NS = 1000 };

/* Orders nothing: it tells the processor that this is a spin loop. */
static inline void otv_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

/* Acquire when it succeeds: the new holder sees what the last one wrote before its otv_unlock. A
 * failure promises nothing, so it is relaxed, and so is the look before. */
static inline bool otv_try_lock(otv_cell *c, int64_t me)
{
    /* Read before the compare-and-set: a loser then shares the cache line instead of taking it
     * away from the holder. */
    int64_t expected = 0;
    return atomic_load_explicit(&c->value, memory_order_relaxed) == 0
        && (OTV_STEP(), /* somebody else may have seen it free, too */
            atomic_compare_exchange_strong_explicit(
                &c->value, &expected, me, memory_order_acquire, memory_order_relaxed));
}

/* First stage of waiting: a bounded spin with the processor's pause hint. Orders as otv_try_lock. */
static inline bool otv_spin_lock(otv_cell *c, int64_t me)
{
    for (int i = 0; i < OTV_SPINS; i++) {
        if (otv_try_lock(c, me))
            return true;
        otv_pause();
    }
    return false;
}

/* Later stages: give the core away, then sleep a microsecond at a time. `round` counts calls. Orders
 * nothing: otv_try_lock does, once the wait is over. */
static inline void otv_back_off(int round)
{
    if (round < OTV_YIELDS) {
        sched_yield();
    } else {
        struct timespec nap = {0, OTV_NAP_NS};
        nanosleep(&nap, NULL);
    }
}

/* What a thread does that has to wait long for a lock. The extension module detaches there: see the
 * rules at the top of types.c. */
#ifndef OTV_WAIT_FOR_LOCK
#define OTV_WAIT_FOR_LOCK(round) otv_back_off(round)
#endif

/* All stages, one after the other. Orders as otv_try_lock. */
static inline void otv_lock(otv_cell *c, int64_t me)
{
    if (otv_spin_lock(c, me))
        return;
    for (int round = 0; !otv_try_lock(c, me); round++)
        OTV_WAIT_FOR_LOCK(round);
}

/* Release. Unlock is the lazy set's home: the store pairs with the acquire in otv_try_lock, and
 * nobody who unlocks goes on to check whether somebody waits. */
static inline void otv_unlock(otv_cell *c)
{
    otv_lazy_set(c, 0);
    OTV_STEP(); /* the next one is in, and whoever has put something has told nobody yet */
}

/* ---- the house's state machine ------------------------------------------------------------ */

/* The one table: states and transitions. The Python types, the documentation, the tests, the
 * explorer's model and the SPIN model are all checked against it. */

#define OTV_STATES(X) \
    X(CREATED, 0) X(MOUNTING, 1) X(WAITING, 2) X(READY, 3) X(SCHEDULED, 4) X(RUNNING, 5)

/*  name             from        to         runner mark: KEEP, TAKE (on entry), GIVE (on exit) */
#define OTV_TRANSITIONS(X) \
    X(begin_mount,    CREATED,   MOUNTING,  KEEP) \
    X(end_mount,      MOUNTING,  WAITING,   KEEP) \
    X(try_ready,      WAITING,   READY,     KEEP) \
    X(try_schedule,   READY,     SCHEDULED, KEEP) \
    X(try_run,        SCHEDULED, RUNNING,   TAKE) \
    X(run_to_ready,   RUNNING,   READY,     GIVE) \
    X(run_to_waiting, RUNNING,   WAITING,   GIVE)

enum otv_state {
#define X(name, number) OTV_##name = number,
    OTV_STATES(X)
#undef X
};

/* Every transition is a read followed by a compare-and-set that runs only if the read looked
 * right. Many senders to one busy actor then share its cache line; an unconditional
 * compare-and-set would make each of them fetch it for writing, only to fail.
 *
 * The read is seq-cst: in try_ready it is the sender's half of the wake-up handshake ("I put my
 * message, then I look whether you sleep"), whose other half is run_to_waiting followed by the
 * re-check of the mailboxes. */
static inline bool otv_transition(otv_cell *c, enum otv_state from, enum otv_state to)
{
    return otv_load_ordered(c) == from && otv_compare_and_set(c, from, to);
}

#endif
