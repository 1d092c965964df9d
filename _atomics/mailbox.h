/* A mailbox: many producers, one consumer at a time. Plain C11, no Python.
 *
 * Lineage: Treiber's stack for the way in, taken whole by the consumer and reversed (the "way
 * out"), as in many MPSC designs. Because the consumer always takes *all* of it with one exchange
 * and nobody ever pops a single node from the shared side, the ABA problem cannot arise.
 *
 *     producers ──push──▶ in: c → b → a          (newest first, shared, atomic)
 *                                │ exchange with NULL, reverse
 *     consumer ◀──pop──── out: a → b → c          (oldest first, the consumer's own)
 *
 * Guarantees: no message lost or doubled; messages of one producer leave in the order they came;
 * across producers the order of the pushes. `push` is lock-free, `pop` is wait-free but for the
 * reversal, which costs O(1) a message over its life.
 *
 * Assumptions: one consumer at a time (the house's RUNNING state sees to it). Two consumers would
 * corrupt `out`.
 *
 * Why not collections.deque: 760 bytes when empty, and an actor has six mailboxes. This is 32.
 */
#ifndef OTV_MAILBOX_H
#define OTV_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "marks.h"

#ifndef OTV_ALLOC
#include <stdlib.h>
#define OTV_ALLOC malloc
#define OTV_FREE free
#endif

typedef struct otv_node {
    void *message;
    struct otv_node *next;
} otv_node;

/* Nodes that this thread has emptied and may fill again. A node is emptied by another thread than the
 * one that filled it, as often as not, and to give memory back across threads costs several times
 * what it costs in one. This way a node stays where it was emptied, and goes out with the next message
 * from there. Only for threads that both send and receive for long: others keep none. */
typedef struct {
    otv_node *first;
    int room; /* how many more it keeps */
} otv_spares;

static _Thread_local otv_spares otv_my_spares;

/* From now on this thread keeps so many at most; it begins with none. To be called with 0 before the
 * thread ends: nobody else knows of them. */
static inline void otv_keep_spares(int most)
{
    otv_node *node = otv_my_spares.first;
    while (node != NULL) {
        otv_node *next = node->next;
        OTV_FREE(node);
        node = next;
    }
    otv_my_spares = (otv_spares){NULL, most};
}

static inline otv_node *otv_new_node(void *message)
{
    otv_spares *spares = &otv_my_spares;
    otv_node *node = spares->first;
    if (node != NULL) {
        spares->first = node->next;
        spares->room++;
    } else if ((node = (otv_node *)OTV_ALLOC(sizeof(otv_node))) == NULL) {
        return NULL;
    }
    node->message = message;
    return node;
}

static inline void otv_free_node(otv_node *node)
{
    otv_spares *spares = &otv_my_spares;
    if (spares->room > 0) {
        spares->room--;
        node->next = spares->first;
        spares->first = node;
    } else {
        OTV_FREE(node);
    }
}

/* The two ends, apart: where both are in one cache line, every message is fetched from one core to the
 * other and back, for the sender to add the next and for the consumer to take the last. This way a
 * consumer touches the senders' line when it takes all that has come in, and no more. */
typedef struct { /* the senders' end */
    _Atomic(otv_node *) in;
    _Atomic int64_t pushed; /* how many ever */
} otv_inbox;

typedef struct { /* the consumer's end */
    /* Only the consumer writes `out`. It is atomic all the same, because a consumer that has just
     * given the house up looks whether mail is left while its successor may already be popping. */
    _Atomic(otv_node *) out;
    _Atomic int64_t popped; /* how many ever, less those that were put in front */
} otv_outbox;

typedef struct { /* both, wherever they are */
    otv_inbox *in;
    otv_outbox *out;
} otv_mailbox;

/* The sender's half of the wake-up handshake: seq-cst, so that the look at the state that follows
 * cannot overtake it. Counting before linking keeps the size from ever going below zero. */
static inline bool otv_push(otv_inbox *box, void *message)
{
    otv_node *node = otv_new_node(message);
    if (node == NULL)
        return false;
    atomic_fetch_add_explicit(&box->pushed, 1, memory_order_relaxed);
    OTV_STEP(); /* counted, but not to be found */
    node->next = atomic_load_explicit(&box->in, memory_order_relaxed);
    OTV_STEP(); /* another producer may link its own in front of that, or the consumer take it */
    while (!atomic_compare_exchange_weak_explicit(
        &box->in, &node->next, node, memory_order_seq_cst, memory_order_relaxed))
        ;
    OTV_STEP(); /* to be found, and nobody has been told */
    return true;
}

/* How many wait, about now; any thread. First what was popped, with an acquire that pairs with the
 * pop's release: what has been popped has been pushed before, so it is never below zero. */
static inline int64_t otv_size(otv_mailbox box)
{
    int64_t popped = atomic_load_explicit(&box.out->popped, memory_order_acquire);
    return atomic_load_explicit(&box.in->pushed, memory_order_relaxed) - popped;
}

/* Only the consumer writes it, so a load and a store do. The load is relaxed: it reads what this
 * thread has stored, or a consumer before it, and then the house's transitions lie between. The
 * store is a release: it pairs with the acquire in otv_size. */
static inline void otv_popped(otv_outbox *box, int64_t n)
{
    int64_t popped = atomic_load_explicit(&box->popped, memory_order_relaxed);
    atomic_store_explicit(&box->popped, popped + n, memory_order_release);
}

/* Consumer only, with `out` empty: takes all that has come in and returns it oldest first. */
static inline otv_node *otv_fetch(otv_inbox *box)
{
    /* Read before the exchange: an empty mailbox costs no write to a shared line. The acquire of
     * the exchange pairs with the push's compare-and-set. */
    if (atomic_load_explicit(&box->in, memory_order_relaxed) == NULL)
        return NULL;
    OTV_STEP(); /* more may come in before all of it is taken */
    otv_node *taken = atomic_exchange_explicit(&box->in, NULL, memory_order_acquire);
    otv_node *first = NULL;
    while (taken != NULL) {
        otv_node *next = taken->next;
        taken->next = first;
        first = taken;
        taken = next;
    }
    return first;
}

/* Consumer only: in front of everything that waits. Counted first, as in otv_push. The load of `out`
 * is relaxed, for only the consumer writes it; the store is a release, which pairs with the acquire
 * in otv_has_mail: who finds a node there finds it whole. */
static inline bool otv_push_front(otv_mailbox box, void *message)
{
    otv_node *node = otv_new_node(message);
    if (node == NULL)
        return false;
    otv_popped(box.out, -1);
    otv_node *first = atomic_load_explicit(&box.out->out, memory_order_relaxed);
    /* `out` being empty does not mean that the mailbox is: fetch what has come in, so that
     * "front" is the front of everything. */
    if (first == NULL)
        first = otv_fetch(box.in);
    node->next = first;
    atomic_store_explicit(&box.out->out, node, memory_order_release);
    return true;
}

/* Consumer only. NULL when empty. The orders on `out` are those of otv_push_front. Its store comes
 * before that of the count, which is a release: who sees the message counted as popped (otv_size)
 * does not find it in `out` any more. */
static inline void *otv_pop(otv_mailbox box)
{
    otv_node *first = atomic_load_explicit(&box.out->out, memory_order_relaxed);
    if (first == NULL && (first = otv_fetch(box.in)) == NULL)
        return NULL;
    void *message = first->message;
    OTV_STEP(); /* a second consumer would take the same one here */
    atomic_store_explicit(&box.out->out, first->next, memory_order_release);
    otv_popped(box.out, 1);
    otv_free_node(first);
    return message;
}

/* Any thread. Seq-cst on `in`: the consumer's half of the handshake, after run_to_waiting. */
static inline bool otv_has_mail(otv_mailbox box)
{
    return atomic_load_explicit(&box.in->in, memory_order_seq_cst) != NULL
        || (OTV_STEP(), /* mail may come in now, and a successor carry it from `in` to `out` */
            atomic_load_explicit(&box.out->out, memory_order_acquire) != NULL);
}

#endif
