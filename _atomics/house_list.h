/* A list of READY houses under one spin lock, linked through the houses. Plain C11, no Python.
 *
 * The twin of HouseList in otavia_ft/schedule/queues.py, where the rules are explained. The includer
 * has said what a HouseBase is: something with a `next_house`, which is NULL outside of all lists, and
 * with a flag `queued` in its `cell`. The driver compiles these lines for the sanitizers, as it does
 * atomics.h, mailbox.h and rings.h.
 *
 * Nothing between lock and unlock can run Python code, so the count is part of what the lock protects;
 * others read it without.
 */
#ifndef OTV_HOUSE_LIST_H
#define OTV_HOUSE_LIST_H

#include "atomics.h"

typedef struct {
    otv_cell lock;
    HouseBase *head;
    HouseBase *tail;
    _Atomic int64_t size;
} house_list;

/* Seq-cst: whoever falls asleep looks here after having said so. */
static inline int64_t house_list_size(house_list *list)
{
    return atomic_load_explicit(&list->size, memory_order_seq_cst);
}

/* To the tail; how many there are then. The size is a read-modify-write for the reason given in
 * queues.py: the enqueuer goes on to look whether somebody sleeps, and whoever falls asleep looks at
 * the size. `queued` is relaxed: it is for those who hold the house, and orders nothing. */
static inline int64_t house_list_append(house_list *list, HouseBase *house, int64_t me)
{
    atomic_store_explicit(&house->cell.queued, 1, memory_order_relaxed);
    otv_lock(&list->lock, me);
    OTV_SEE(queued, house);
    if (list->tail == NULL)
        list->head = house;
    else
        list->tail->next_house = (void *)house;
    list->tail = house;
    int64_t count = atomic_fetch_add_explicit(&list->size, 1, memory_order_seq_cst) + 1;
    otv_unlock(&list->lock);
    return count;
}

/* The house behind the one that runs now. With many actors it is in no cache, and its turn would
 * begin by waiting for memory several times; fetched now, it comes while its predecessor runs. Under
 * the lock, because without it a thief might be ending that very house. */
static inline void house_list_fetch_ahead(HouseBase *house)
{
    for (char *line = (char *)house; line < (char *)(house + 1); line += 64)
        __builtin_prefetch(line, 1);
}

/* With the lock: the head, or NULL. */
static inline HouseBase *house_list_unlink(house_list *list)
{
    HouseBase *head = list->head;
    if (head != NULL) {
        OTV_STEP(); /* whoever comes without the lock takes the same house */
        OTV_SEE(unqueued, head);
        list->head = (HouseBase *)head->next_house;
        head->next_house = NULL;
        atomic_store_explicit(&head->cell.queued, 0, memory_order_relaxed);
        if (list->head == NULL)
            list->tail = NULL;
        else
            house_list_fetch_ahead(list->head);
        atomic_fetch_sub_explicit(&list->size, 1, memory_order_seq_cst);
    }
    return head;
}

/* From the head; NULL when empty. An empty list costs a load and no lock. */
static inline HouseBase *house_list_pop(house_list *list, int64_t me)
{
    if (house_list_size(list) == 0)
        return NULL;
    otv_lock(&list->lock, me);
    HouseBase *head = house_list_unlink(list);
    otv_unlock(&list->lock);
    return head;
}

/* By another thread: never waits, never takes the last one. */
static inline HouseBase *house_list_try_steal(house_list *list, int64_t me)
{
    if (house_list_size(list) <= 1 || !otv_try_lock(&list->lock, me))
        return NULL;
    HouseBase *head = list->head != list->tail ? house_list_unlink(list) : NULL;
    OTV_SEE(stolen, head, house_list_size(list));
    otv_unlock(&list->lock);
    return head;
}

#endif
