/* A ring of items under a spin lock: the pool's local and global ring. Plain C11, no Python.
 *
 * The twin of LocalRing, GlobalRing and steal_half in otavia_ft/schedule/rings.py. There stands what
 * the rings promise, and which orders could go wrong; the numbers below are those of its list.
 *
 * One thing is simpler here. In Python nothing that is a call may stand between lock and unlock
 * (number 8), so the size that others read without the lock follows after the unlock. Here nothing
 * between lock and unlock can run Python code at all: items are moved as plain pointers, nobody's
 * count of references changes, and memory is asked for and given back outside. So `count` is both,
 * what the lock protects and what others read without it.
 *
 * The driver compiles these lines for the sanitizers, as it does atomics.h and mailbox.h.
 */
#ifndef OTV_RINGS_H
#define OTV_RINGS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "atomics.h"

typedef struct {
    otv_cell lock;
    _Atomic int64_t count; /* written under the lock; without it a hint (number 2) */
    int64_t head;
    int64_t capacity;
    void **slots;
    int64_t index;         /* of a local ring: its place in the order of the locks */
    _Atomic int64_t given; /* how often siblings have stolen from here; written under the lock */
} otv_ring;

static inline bool otv_ring_init(otv_ring *ring, int64_t index, int64_t capacity)
{
    memset(ring, 0, sizeof *ring);
    ring->index = index;
    ring->capacity = capacity;
    ring->slots = (void **)calloc((size_t)capacity, sizeof(void *));
    return ring->slots != NULL;
}

static inline void otv_ring_lock(otv_ring *ring, int64_t me)
{
    otv_lock(&ring->lock, me);
}

static inline void otv_ring_unlock(otv_ring *ring)
{
    otv_unlock(&ring->lock);
}

/* How many there are, about now: a load and no lock. Seq-cst, because the worker that is about to
 * sleep looks here after it has said so (number 3). */
static inline int64_t otv_ring_count(otv_ring *ring)
{
    return atomic_load_explicit(&ring->count, memory_order_seq_cst);
}

/* The count as the holder of the lock sees it. */
static inline int64_t otv_ring_held(otv_ring *ring)
{
    return atomic_load_explicit(&ring->count, memory_order_relaxed);
}

/* Seq-cst: whoever has put something goes on to look for sleepers, and that look must not overtake
 * this store (the pusher's half of number 3). */
static inline void otv_ring_grew(otv_ring *ring, int64_t count)
{
    atomic_store_explicit(&ring->count, count, memory_order_seq_cst);
}

/* Release will do: a count that is too large for a moment costs a lock and nothing else. */
static inline void otv_ring_shrank(otv_ring *ring, int64_t count)
{
    atomic_store_explicit(&ring->count, count, memory_order_release);
}

static inline int64_t otv_ring_place(otv_ring *ring, int64_t nth)
{
    int64_t place = ring->head + nth;
    return place < ring->capacity ? place : place - ring->capacity;
}

/* With the lock, and room. */
static inline int64_t otv_ring_append(otv_ring *ring, void *item)
{
    int64_t count = otv_ring_held(ring);
    OTV_SEE(queued, item);
    OTV_STEP(); /* whoever comes without the lock fills the same slot */
    ring->slots[otv_ring_place(ring, count)] = item;
    otv_ring_grew(ring, count + 1);
    return count + 1;
}

/* LocalRing.push: to the tail; how many there are then, or 0: it is full, and nothing was done. */
static inline int64_t otv_ring_push(otv_ring *ring, void *item, int64_t me)
{
    otv_ring_lock(ring, me);
    int64_t count = otv_ring_held(ring) < ring->capacity ? otv_ring_append(ring, item) : 0;
    otv_ring_unlock(ring);
    return count;
}

/* GlobalRing.push: to the tail; a full ring doubles. False: there is no memory, and nothing was done.
 *
 * The larger slots are got without the lock; by the time it is held again, another thread may have
 * made room, or more of it than this one wanted. */
static inline bool otv_ring_push_growing(otv_ring *ring, void *item, int64_t me)
{
    void **spare = NULL;
    int64_t spare_capacity = 0;
    for (;;) {
        otv_ring_lock(ring, me);
        int64_t count = otv_ring_held(ring), capacity = ring->capacity;
        if (count == capacity && spare_capacity > capacity) {
            /* The oldest to the front again, then as much room once more. */
            int64_t straight = capacity - ring->head;
            memcpy(spare, ring->slots + ring->head, (size_t)straight * sizeof(void *));
            memcpy(spare + straight, ring->slots, (size_t)ring->head * sizeof(void *));
            void **outgrown = ring->slots;
            ring->slots = spare;
            ring->capacity = spare_capacity;
            ring->head = 0;
            spare = outgrown;
        }
        bool room = count < ring->capacity;
        if (room)
            otv_ring_append(ring, item);
        otv_ring_unlock(ring);
        free(spare);
        if (room)
            return true;
        spare_capacity = 2 * capacity;
        spare = (void **)calloc((size_t)spare_capacity, sizeof(void *));
        if (spare == NULL)
            return false;
    }
}

/* With the lock, and not empty. The slot keeps nothing: an actor's life ends with its last
 * reference. */
static inline void *otv_ring_unlink(otv_ring *ring)
{
    void *item = ring->slots[ring->head];
    OTV_STEP(); /* whoever comes without the lock takes the same item */
    OTV_SEE(unqueued, item);
    ring->slots[ring->head] = NULL;
    ring->head = otv_ring_place(ring, 1);
    return item;
}

/* From the head; NULL when empty. An empty ring costs a load and no lock. */
static inline void *otv_ring_pop(otv_ring *ring, int64_t me)
{
    if (otv_ring_count(ring) == 0)
        return NULL;
    void *item = NULL;
    otv_ring_lock(ring, me);
    int64_t count = otv_ring_held(ring);
    if (count > 0) { /* else it was taken since the look */
        item = otv_ring_unlink(ring);
        otv_ring_shrank(ring, count - 1);
    }
    otv_ring_unlock(ring);
    return item;
}

/* steal_half: half of the victim's items, rounded up, oldest first: one to run now, the rest to the
 * thief's tail. What that has no room for stays where it is. NULL if there is nothing to steal. */
static inline void *otv_ring_steal_half(otv_ring *victim, otv_ring *thief, int64_t me)
{
    if (victim == thief || otv_ring_count(victim) == 0)
        return NULL;
    /* Number 1: both locks, in the order of the indexes. */
    otv_ring *first = victim->index < thief->index ? victim : thief;
    otv_ring *second = first == victim ? thief : victim;
    void *item = NULL;
    otv_ring_lock(first, me);
    otv_ring_lock(second, me);
    int64_t count = otv_ring_held(victim), own = otv_ring_held(thief);
    if (count > 0) {
        int64_t kept = (count + 1) / 2 - 1, room = thief->capacity - own;
        if (kept > room)
            kept = room;
        item = otv_ring_unlink(victim);
        for (int64_t i = 0; i < kept; i++) {
            thief->slots[otv_ring_place(thief, own + i)] = otv_ring_unlink(victim);
            OTV_SEE(queued, thief->slots[otv_ring_place(thief, own + i)]);
        }
        /* Number 6: between these two a look may see what was moved in neither ring. The thief is
         * awake, and calls a sleeper after this. */
        otv_ring_shrank(victim, count - 1 - kept);
        OTV_STEP(); /* the look that number 6 is about */
        otv_ring_grew(thief, own + kept);
        atomic_store_explicit(&victim->given, atomic_load(&victim->given) + 1,
                              memory_order_relaxed);
    }
    otv_ring_unlock(second);
    otv_ring_unlock(first);
    return item;
}

#endif
