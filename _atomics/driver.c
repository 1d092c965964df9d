/* Hammers atomics.h, mailbox.h, rings.h and bell.h with threads, without Python: for ThreadSanitizer
 * and AddressSanitizer, from which the interpreter's own synchronisation would hide most races.
 *
 *     cc -std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=thread -pthread driver.c -o driver && ./driver
 *
 * Not part of the extension module. tests/test_sanitizers.py compiles and runs it.
 *
 * Each check has a plain variable that the operations under test must order. A missing order is
 * then a data race, which ThreadSanitizer reports even when the outcome happens to be right; a
 * wrong outcome ends the program with status 1 under any compiler.
 *
 * The PLANT_... switches put a known bug in, so that the tests can see the tools find it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void wait_for_lock(int round);
#define OTV_WAIT_FOR_LOCK(round) wait_for_lock(round)
#include "atomics.h"
#include "bell.h"
#ifdef PLANT_SHARED_SPARES /* one list of emptied nodes for all threads */
#define _Thread_local
#endif
#include "mailbox.h"
#undef _Thread_local
#include "rings.h"
typedef struct { /* as much of a house as a list knows, and something that only its holder may touch */
    void *next_house;
    struct { _Atomic char queued; } cell;
    int64_t turns;
} HouseBase;
#include "house_list.h"

#ifndef ROUNDS
#define ROUNDS 20000
#endif
enum { THREADS = 4 };

/* ---- the planted bugs ---------------------------------------------------------------------- */

static void unlock(otv_cell *lock)
{
#ifdef PLANT_RELAXED_UNLOCK /* frees the lock, publishes nothing */
    atomic_store_explicit(&lock->value, 0, memory_order_relaxed);
#else
    otv_unlock(lock);
#endif
}

static bool try_lock(otv_cell *lock, int64_t me)
{
#ifdef PLANT_TORN_LOCK /* test, then set: two may pass the test */
    if (otv_load(lock) != 0)
        return false;
    otv_set(lock, me);
    return true;
#else
    return otv_try_lock(lock, me);
#endif
}

static void publish(otv_cell *flag, int64_t value)
{
#ifdef PLANT_RELAXED_PUBLISH
    atomic_store_explicit(&flag->value, value, memory_order_relaxed);
#else
    otv_lazy_set(flag, value);
#endif
}

static bool enter(otv_cell *state)
{
#ifdef PLANT_SECOND_RUNNER /* runs the house whether or not the transition was won */
    otv_transition(state, OTV_SCHEDULED, OTV_RUNNING);
    return true;
#else
    return otv_transition(state, OTV_SCHEDULED, OTV_RUNNING);
#endif
}

static bool transition(otv_cell *state, enum otv_state from, enum otv_state to)
{
#ifdef PLANT_BLIND_TRANSITION /* compares and sets without a look */
    return otv_compare_and_set(state, from, to);
#else
    return otv_transition(state, from, to);
#endif
}

static void *pop(otv_mailbox box)
{
#ifdef PLANT_EARLY_FREE /* frees the node, then reads it */
    otv_node *first = atomic_load(&box.out->out);
    if (first == NULL && (first = otv_fetch(box.in)) == NULL)
        return NULL;
    OTV_FREE(first);
    atomic_store(&box.out->out, first->next);
    otv_popped(box.out, 1);
    return first->message;
#else
    return otv_pop(box);
#endif
}

/* ---- the frame: four threads, all at once -------------------------------------------------- */

static void fail(const char *what, long long got, long long wanted)
{
    fprintf(stderr, "driver: %s: %lld instead of %lld\n", what, got, wanted);
    exit(1);
}

static void expect(const char *what, long long got, long long wanted)
{
    if (got != wanted)
        fail(what, got, wanted);
}

static void wait_for_lock(int round)
{
    if (round == 50000) /* seconds: nobody here holds a lock for more than a few instructions */
        fail("rounds of waiting for a lock, a deadlock", round, 0);
    otv_back_off(round);
}

static pthread_barrier_t gate;

typedef void (*work)(int number);

typedef struct {
    work what;
    int number;
} job;

static void *run_job(void *argument)
{
    job *mine = (job *)argument;
    pthread_barrier_wait(&gate);
    mine->what(mine->number);
    return NULL;
}

static void together(work what)
{
    pthread_t thread[THREADS];
    job jobs[THREADS];
    pthread_barrier_init(&gate, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){what, i};
        if (pthread_create(&thread[i], NULL, run_job, &jobs[i]) != 0)
            fail("threads started", i, THREADS);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&gate);
}

/* ---- cells --------------------------------------------------------------------------------- */

static otv_cell sum, rounds_won, swapped;
static int64_t swapped_out[THREADS];

static void cells(int number)
{
    bool wrapped;
    for (int64_t i = 0; i < ROUNDS; i++) {
        otv_get_and_add(&sum, 1, &wrapped);
        otv_compare_and_set(&rounds_won, i, i + 1);
        swapped_out[number] += otv_get_and_set(&swapped, i);
    }
}

static void check_cells(void)
{
    together(cells);
    expect("additions", otv_load(&sum), (long long)THREADS * ROUNDS);
    expect("rounds won", otv_load(&rounds_won), ROUNDS);
    int64_t out = otv_load(&swapped);
    for (int i = 0; i < THREADS; i++)
        out += swapped_out[i];
    expect("sum of what was exchanged", out, (long long)THREADS * ROUNDS * (ROUNDS - 1) / 2);

    bool wrapped;
    otv_set(&sum, INT64_MAX - 1);
    expect("value before the last addition", otv_get_and_add(&sum, 1, &wrapped), INT64_MAX - 1);
    expect("wrapped", wrapped, false);
    expect("value before a refused addition", otv_get_and_add(&sum, 1, &wrapped), INT64_MAX);
    expect("wrapped", wrapped, true);
    expect("value after a refused addition", otv_load(&sum), INT64_MAX);
}

/* ---- publication: a plain variable handed from thread to thread ------------------------------ */

static otv_cell whose_turn;
static int64_t handed_on; /* plain */

static void hand_on(int number)
{
    for (int64_t i = 0; i < ROUNDS / 10; i++) {
        int64_t mine = i * THREADS + number;
        for (int round = 0; otv_load(&whose_turn) != mine; round++)
            otv_back_off(round % OTV_YIELDS);
        expect("what the thread before wrote", handed_on, mine);
        handed_on = mine + 1;
        publish(&whose_turn, mine + 1);
    }
}

/* ---- the spin lock --------------------------------------------------------------------------- */

static otv_cell lock;
static int64_t guarded; /* plain */

static void locking(int number)
{
    int64_t me = number + 1;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2 == 0 || !otv_spin_lock(&lock, me))
            for (int round = 0; !try_lock(&lock, me); round++)
                otv_back_off(round % OTV_YIELDS);
        guarded++;
        unlock(&lock);
    }
}

/* ---- a house: posts, wake-ups, one runner at a time ------------------------------------------ */

/* Every thread posts, and every thread runs the house when it finds it READY. A message is a
 * number, 1 + producer + THREADS * sequence. */
enum { BOXES = 2 };

static otv_cell state;
static otv_inbox in[BOXES];
static otv_outbox out[BOXES];
static const otv_mailbox box[BOXES] = {{&in[0], &out[0]}, {&in[1], &out[1]}};
static int64_t handled;                  /* plain, like all that belongs to the runner */
static int64_t next_from[BOXES][THREADS];
static otv_cell all_handled;
static const int64_t messages = (int64_t)ROUNDS * THREADS;

static void handle(int which, int64_t message)
{
    int64_t producer = (message - 1) % THREADS, sequence = (message - 1) / THREADS;
    expect("next message of a producer", sequence, next_from[which][producer]);
    next_from[which][producer] += BOXES;
    handled++;
}

static void turn(void)
{
    if (!otv_transition(&state, OTV_READY, OTV_SCHEDULED))
        return;
    if (!enter(&state))
        fail("SCHEDULED house entered", 0, 1);
    for (int which = 0; which < BOXES; which++) {
        for (int budget = 8; budget > 0; budget--) {
            void *message = pop(box[which]);
            if (message == NULL)
                break;
            if (budget == 8 && handled % 7 == 0) { /* once more round, through the front door */
                if (!otv_push_front(box[which], message))
                    fail("memory", 0, 1);
                message = pop(box[which]);
            }
            handle(which, (int64_t)(intptr_t)message);
        }
    }
    if (handled == messages)
        otv_set(&all_handled, 1);
    if (handled % 2 == 0) {
        expect("RUNNING house left", otv_transition(&state, OTV_RUNNING, OTV_READY), 1);
        return;
    }
    expect("RUNNING house left", otv_transition(&state, OTV_RUNNING, OTV_WAITING), 1);
    for (int which = 0; which < BOXES; which++)
        if (otv_has_mail(box[which]))
            otv_transition(&state, OTV_WAITING, OTV_READY);
}

static void living(int number)
{
    otv_keep_spares(number % 2 ? 16 : 0); /* half of them use nodes again, half do not */
    for (int64_t i = 0; i < ROUNDS; i++) {
        int64_t message = 1 + number + THREADS * i;
        if (!otv_push(&in[i % BOXES], (void *)(intptr_t)message))
            fail("memory", 0, 1);
        otv_transition(&state, OTV_WAITING, OTV_READY);
        if (i % 3 == 0)
            turn();
    }
    /* From here on nobody posts any more than what is on its way: a lost wake-up would leave the
     * house WAITING with mail, and this loop without an end. So it is bounded. */
    for (int64_t idle = 0; otv_load(&all_handled) == 0; idle++) {
        if (idle == 50 * 1000 * 1000)
            fail("messages handled before the house fell asleep for ever", -1, messages);
        turn();
        if (idle % 100 == 99)
            sched_yield();
    }
    otv_keep_spares(0);
}

static void check_house(void)
{
    for (int which = 0; which < BOXES; which++)
        for (int producer = 0; producer < THREADS; producer++)
            next_from[which][producer] = which;
    otv_set(&state, OTV_WAITING);
    together(living);
    expect("messages handled", handled, messages);
    for (int which = 0; which < BOXES; which++) {
        expect("size of an empty mailbox", otv_size(box[which]), 0);
        expect("mail in an empty mailbox", otv_has_mail(box[which]), false);
    }
}

/* ---- two runners, whom only the transitions keep apart --------------------------------------- */

static otv_cell contested;
static int64_t runs; /* plain, the runner's own */
static otv_cell entered;

static void contest(int number)
{
    (void)number;
    bool wrapped;
    for (int i = 0; i < ROUNDS; i++) {
        otv_transition(&contested, OTV_READY, OTV_SCHEDULED);
        if (enter(&contested)) {
            runs++;
            otv_get_and_add(&entered, 1, &wrapped);
            otv_transition(&contested, OTV_RUNNING, OTV_READY);
        }
    }
}

static void check_contest(void)
{
    otv_set(&contested, OTV_READY);
    together(contest);
    expect("runs", runs, otv_load(&entered));
}

/* ---- a sleeper, and those who ring for it --------------------------------------------------- */

enum { AWAKE, ASLEEP, NOTIFIED, CALLS = ROUNDS / 10 };

static otv_bell bell;
static otv_cell flag, tray;

static void ring(void)
{
#ifdef PLANT_CARELESS_BELL /* the flag without its mutex; the ring proper, so that nobody hangs */
    bell.rung = true;
#endif
    otv_bell_ring(&bell);
}

/* parking.py's protocol. Thread 0 sleeps whenever the tray is empty; the others put work on it. */
static void resting(int number)
{
    bool wrapped;
    if (number != 0) {
        for (int i = 0; i < CALLS; i++) {
            otv_get_and_add(&tray, 1, &wrapped);
            if (otv_get_and_set(&flag, NOTIFIED) == ASLEEP)
                ring();
        }
        return;
    }
    int64_t taken = 0;
    for (int naps = 0; taken < (int64_t)CALLS * (THREADS - 1);) {
        otv_set(&flag, AWAKE);
        taken += otv_get_and_set(&tray, 0);
        if (taken == (int64_t)CALLS * (THREADS - 1))
            break;
        if (otv_load_ordered(&tray) == 0 && otv_compare_and_set(&flag, AWAKE, ASLEEP)) {
            naps++;
            if (naps == 100) /* from now on a selector could watch it */
                expect("a descriptor", otv_bell_descriptor(&bell) >= 0, true);
            if (naps % 3) /* a ring that is lost is waited for by no more than the alarm clock */
                otv_bell_wait(&bell, -1);
            else if (!otv_bell_wait(&bell, 20000))
                taken += otv_get_and_set(&tray, 0);
        }
    }
}

static void check_bell(void)
{
    expect("a new bell", otv_bell_init(&bell), 0);
    expect("a wait that nobody ends", otv_bell_wait(&bell, 1000), false);
    ring();
    ring();
    expect("a wait after two rings", otv_bell_wait(&bell, -1), true);
    expect("the wait after that", otv_bell_wait(&bell, 0), false);
    for (int in_vain = 0; in_vain < OTV_HOPE; in_vain++)
        otv_bell_watch(&bell);
    expect("hope after watching in vain", bell.hope, 0);
    ring();
    for (int naps = 1; naps < OTV_NAPS; naps++) {
        otv_bell_watch(&bell);
        expect("hope of one who does not watch", bell.hope, 0);
    }
    otv_bell_watch(&bell);
    expect("hope after a ring in sight", bell.hope, OTV_HOPE);
    expect("the wait for that ring", otv_bell_wait(&bell, -1), true);
    together(resting);
    otv_bell_silence(&bell);
    ring();
    expect("a ring that the selector has seen", otv_bell_silence(&bell), true);
    expect("the wait after that", otv_bell_wait(&bell, 0), false);
    otv_bell_destroy(&bell);
}

/* ---- rings: each thread has one, and all share another ----------------------------------------- */

/* An item is a plain variable: whoever has taken it is the only one that may touch it. */
enum { ITEMS = 6 * THREADS };

static int64_t item[ITEMS];
static otv_ring local[THREADS], shared;
static otv_cell turns;

static void have_a_turn(int64_t *mine)
{
    bool wrapped;
    ++*mine;
    otv_get_and_add(&turns, 1, &wrapped);
}

/* Neighbours steal from each other, crosswise, and give one back: no ring runs dry for long. */
static void stealing(int number)
{
    otv_ring *own = &local[number], *other = &local[number ^ 1];
    int64_t me = number + 1;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t *mine = otv_ring_steal_half(other, own, me);
        if (mine == NULL)
            mine = otv_ring_pop(i % 2 == 0 ? &shared : own, me);
        if (mine == NULL)
            continue;
        have_a_turn(mine);
        if ((i % 8 == 0 || otv_ring_push(other, mine, me) == 0)
            && !otv_ring_push_growing(&shared, mine, me))
            fail("memory", 0, 1);
    }
}

static int64_t emptied(otv_ring *ring)
{
    int64_t found = 0, *mine;
    while ((mine = otv_ring_pop(ring, 1)) != NULL) {
        found += *mine;
        *mine = INT64_MIN / ITEMS; /* found twice, it spoils the sum */
    }
    expect("count of an empty ring", otv_ring_count(ring), 0);
    free(ring->slots);
    return found;
}

static void check_rings(void)
{
    if (!otv_ring_init(&shared, -1, 1))
        fail("memory", 0, 1);
    for (int i = 0; i < THREADS; i++)
        if (!otv_ring_init(&local[i], i, 8))
            fail("memory", 0, 1);
    for (int i = 0; i < ITEMS; i++)
        if (!otv_ring_push_growing(&shared, &item[i], 1))
            fail("memory", 0, 1);
    expect("slots of a ring that has doubled", shared.capacity, 32);
    together(stealing);
    int64_t found = emptied(&shared);
    for (int i = 0; i < THREADS; i++)
        found += emptied(&local[i]);
    expect("turns of the items in all rings", found, otv_load(&turns));
}

/* ---- a list of houses: its owner pops, the others steal, and all append -------------------------- */

static HouseBase house[6 * THREADS];
static house_list ready;
static otv_cell house_turns;

static void queueing(int number)
{
    bool wrapped;
    for (int i = 0; i < ROUNDS; i++) {
        HouseBase *mine = number == 0 ? house_list_pop(&ready, 1)
                                      : house_list_try_steal(&ready, number + 1);
        if (mine == NULL)
            continue;
        if (mine->next_house != NULL || mine->cell.queued)
            fail("a house that is in a list and out of it", 1, 0);
        mine->turns++;
        otv_get_and_add(&house_turns, 1, &wrapped);
        house_list_append(&ready, mine, number + 1);
    }
}

static void check_list(void)
{
    HouseBase *mine;
    int64_t found = 0, count = 0;
    for (int i = 0; i < 6 * THREADS; i++)
        expect("houses in a list", house_list_append(&ready, &house[i], 1), i + 1);
    together(queueing);
    expect("size of the list", house_list_size(&ready), 6 * THREADS);
    for (; (mine = house_list_pop(&ready, 1)) != NULL; count++) {
        found += mine->turns;
        mine->turns = INT64_MIN / (6 * THREADS); /* found twice, it spoils the sum */
        if (count == 6 * THREADS - 2)
            expect("a theft of the last house", house_list_try_steal(&ready, 2) != NULL, false);
    }
    expect("houses in the end", count, 6 * THREADS);
    expect("turns of the houses", found, otv_load(&house_turns));
}

/* ---- reading comes before writing ------------------------------------------------------------- */

/* In memory that cannot be written, a compare-and-set ends the program even if it fails: it takes
 * the cache line for writing before it compares (on x86-64; a processor that works by load-linked
 * and store-conditional looks first). So what follows shows that whoever comes for nothing, to a
 * busy house, a held lock, an empty mailbox or an empty ring, only reads. */
static void check_reads_first(void)
{
    struct {
        otv_cell state, lock;
        otv_inbox in;
        otv_outbox out;
        otv_ring empty, thief;
        house_list none;
    } *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        fail("memory", 0, 1);
    otv_set(&page->state, OTV_RUNNING);
    otv_set(&page->lock, 1);
    if (mprotect(page, sizeof *page, PROT_READ) != 0)
        fail("memory made read-only", 0, 1);
    for (int from = OTV_CREATED; from < OTV_RUNNING; from++)
        expect("a busy house's transition", transition(&page->state, from, OTV_READY), false);
    expect("a held lock taken", otv_try_lock(&page->lock, 2), false);
    expect("mail in an empty mailbox", otv_pop((otv_mailbox){&page->in, &page->out}) != NULL, false);
    expect("an empty ring's item", otv_ring_pop(&page->empty, 2) != NULL, false);
    expect("a theft from it", otv_ring_steal_half(&page->empty, &page->thief, 2) != NULL, false);
    expect("an empty list's house", house_list_pop(&page->none, 2) != NULL, false);
    expect("a theft from it", house_list_try_steal(&page->none, 2) != NULL, false);
    munmap(page, sizeof *page);
}

int main(void)
{
    check_rings(); /* first: it is the one that some tests run for long */
    check_cells();
    together(hand_on);
    expect("hand-overs", handed_on, (long long)ROUNDS / 10 * THREADS);
    together(locking);
    expect("additions under the lock", guarded, (long long)ROUNDS * THREADS);
    check_contest();
    check_house();
    check_list();
    check_bell();
    check_reads_first();
    puts("driver: all checks passed");
    return 0;
}
