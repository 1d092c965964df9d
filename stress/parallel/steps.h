/* What the marks of _atomics/marks.h mean in the build for tests: stalls, and rules that only C sees.
 *
 * Included in front of everything by the compiler's -include (stalled.py); the product never sees it.
 * A stall comes between two steps of the C lane, so what follows is late, whatever the others do
 * meanwhile. It keeps the thread attached: a step may be one that the collector must not see half
 * done.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OTV_STEP() otv_stall()
#define OTV_LINGER() otv_stall_often(8)
#define OTV_SEE(what, ...) otv_see_##what(__VA_ARGS__)

/* ---- stalls --------------------------------------------------------------------------------- */

static _Atomic uint32_t otv_permille, otv_seed;
static _Thread_local uint32_t otv_coin; /* a generator for each thread, so that nothing is shared */

/* Called by stalled.py: how many of a thousand steps are followed by a stall. */
void otv_stalls(uint32_t permille, uint32_t seed)
{
    atomic_store(&otv_seed, seed);
    atomic_store(&otv_permille, permille);
}

static uint32_t otv_toss(void)
{
    if (otv_coin == 0) /* threads differ by the place of their own variable */
        otv_coin = (uint32_t)((uintptr_t)&otv_coin >> 6) * 2654435761u
            ^ atomic_load_explicit(&otv_seed, memory_order_relaxed) ^ 1;
    otv_coin ^= otv_coin << 13;
    otv_coin ^= otv_coin >> 17;
    otv_coin ^= otv_coin << 5;
    return otv_coin;
}

static __attribute__((noinline)) void otv_linger(void)
{
    uint32_t how = otv_toss() % 8;
    if (how < 4) {
        sched_yield();
    } else if (how < 6) {
        for (volatile uint32_t i = otv_toss() % 5000; i > 0; i--)
            ;
    } else {
        struct timespec nap = {0, (long)(otv_toss() % 100000)};
        nanosleep(&nap, NULL);
    }
}

/* No atomic but a relaxed load: a fence at every step would hide what is looked for. */
static inline void otv_stall_often(uint32_t often)
{
    uint32_t permille = often * atomic_load_explicit(&otv_permille, memory_order_relaxed);
    if (permille != 0 && otv_toss() % 1000 < permille)
        otv_linger();
}

static inline void otv_stall(void)
{
    otv_stall_often(1);
}

/* ---- the first rule that was broken ------------------------------------------------------------ */

static char otv_text[200];
static _Atomic int otv_told; /* 1: somebody is writing the text, 2: it is there */

static void otv_broken(const char *invariant, const char *what, const void *which)
{
    int nobody = 0;
    if (atomic_compare_exchange_strong(&otv_told, &nobody, 1)) {
        snprintf(otv_text, sizeof otv_text, "%s: %s (%p)", invariant, what, which);
        atomic_store(&otv_told, 2);
    }
}

/* Called by stalled.py: "invariant: text", or nothing. */
const char *otv_seen(void)
{
    return atomic_load(&otv_told) == 2 ? otv_text : NULL;
}

/* ---- one-queue: what is in a queue or a ring ---------------------------------------------------- */

typedef struct otv_place {
    const void *item;
    struct otv_place *next;
} otv_place;

enum { OTV_SHELVES = 256 };

static otv_place *otv_shelf[OTV_SHELVES];
static pthread_mutex_t otv_key[OTV_SHELVES] = {
    [0 ... OTV_SHELVES - 1] = PTHREAD_MUTEX_INITIALIZER};

static otv_place **otv_find(const void *item, size_t shelf)
{
    otv_place **place = &otv_shelf[shelf];
    while (*place != NULL && (*place)->item != item)
        place = &(*place)->next;
    return place;
}

static size_t otv_shelf_of(const void *item)
{
    return ((uintptr_t)item >> 6) % OTV_SHELVES;
}

static void otv_see_queued(const void *item)
{
    size_t shelf = otv_shelf_of(item);
    pthread_mutex_lock(&otv_key[shelf]);
    otv_place **place = otv_find(item, shelf);
    if (*place != NULL)
        otv_broken("one-queue", "something is queued while a queue holds it", item);
    else if ((*place = calloc(1, sizeof **place)) != NULL)
        (*place)->item = item;
    pthread_mutex_unlock(&otv_key[shelf]);
}

static void otv_see_unqueued(const void *item)
{
    size_t shelf = otv_shelf_of(item);
    pthread_mutex_lock(&otv_key[shelf]);
    otv_place **place = otv_find(item, shelf), *gone = *place;
    if (gone != NULL) {
        *place = gone->next;
        free(gone);
    } else {
        otv_broken("one-queue", "something leaves a queue twice", item);
    }
    pthread_mutex_unlock(&otv_key[shelf]);
}

/* ---- steal-rules: the last one stays; the thief still has the lock of the count --------------------- */

static void otv_see_stolen(const void *house, int64_t left)
{
    if (house != NULL && left < 1)
        otv_broken("steal-rules", "a thief has got the last house of a list", house);
}

/* ---- dispatch-order: one pass goes through the mailboxes in the order of their numbers -------------- */

static _Thread_local int otv_last_box;

static inline void otv_see_pass(void)
{
    otv_last_box = -1;
}

static inline void otv_see_mailbox(int box)
{
    if (box < otv_last_box)
        otv_broken("dispatch-order", "a pass goes back to an earlier mailbox", NULL);
    otv_last_box = box;
}
