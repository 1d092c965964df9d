"""Mutants of the C lane, which users run: patches of `_atomics`, met by real threads with stalls.

Their twins in the Python lane are in the other modules; the explorer searches those. Not here is
what real threads cannot show: a lazily stored WAITING (a stall drains the store buffer; the
explorer has `lazy-waiting`), and what breaks no rule of this engine: a missing owner mark, no bug
alone (tests/test_atomic_parallel.py), and a pill that waits (tests/pool/test_guarantees.py).
"""

from __future__ import annotations

from stress.mutants import Mutant

__all__ = ["MUTANTS"]

_RECHECK = """\
    if (has_mail(house, mask))
        return ready_if(house_try_ready(&house->cell), house);
    return 0;
"""

_RECLAIM = """\
    if (!has_mail(house, mask))
        return 0;
    int reclaimed = house_try_ready(&house->cell);
    return reclaimed > 0 ? take_for_processing(house) : reclaimed;
"""

_POST = """\
    if (!otv_push(inbox_of(self, box), message)) {
        Py_DECREF(message);
        PyErr_NoMemory();
        return -1;
    }
    return otv_transition(&self->state, OTV_WAITING, OTV_READY);
"""

_LOOK_FIRST = """\
    int won = otv_transition(&self->state, OTV_WAITING, OTV_READY);
    return otv_push(inbox_of(self, box), message) ? won : -1;
"""

_LINK = """\
    while (!atomic_compare_exchange_weak_explicit(
        &box->in, &node->next, node, memory_order_seq_cst, memory_order_relaxed))
        ;
"""

_POP = """\
    otv_lock(&list->lock, me);
    HouseBase *head = house_list_unlink(list);
    otv_unlock(&list->lock);
    return head;
"""

_YIELD = """\
    if (house_run_to_ready(&house->cell) < 0)
        return -1;
    SeatBase *seat = (SeatBase *)context->seat;
    if (seat != NULL && PyObject_TypeCheck((PyObject *)seat, seat_base_type) && seat->desk != NULL)
        return desk_push((Desk *)seat->desk, (PyObject *)house);
"""

_YIELD_LATE = """\
    SeatBase *seat = (SeatBase *)context->seat;
    if (seat != NULL && seat->desk != NULL) {
        int failed = desk_push((Desk *)seat->desk, (PyObject *)house);
        return house_run_to_ready(&house->cell) < 0 ? -1 : failed;
    }
    if (house_run_to_ready(&house->cell) < 0)
        return -1;
"""

_HIGH = """\
    if ((house = list_pop(&queue->high)) != NULL) {
"""

_NORMAL = """\
    if ((house = list_pop(&queue->normal)) != NULL)
        return house;
"""

_RING_IN = """\
    otv_ring_lock(ring, me);
    int64_t count = otv_ring_held(ring);
    if (count > 0) { /* else it was taken since the look */
"""

_RING_OUT = """\
    }
    otv_ring_unlock(ring);
    return item;
"""

_CLOSED = """\
    if (otv_load_ordered(cell_of(seat->closed)))
        return call_and_drop(call_method(seat, "bury", NULL));
"""


def _by(file: str, *patches: tuple[str, str]) -> dict[str, list[tuple[str, str]]]:
    return {file: list(patches)}


MUTANTS = (
    Mutant(
        "c-no-recheck",
        breaks="complete() in C does not look again after WAITING",
        native=_by("turn.c", (_RECHECK, "    return 0;\n")),
        workload="count",
        scheduler="pinned",
    ),
    Mutant(
        "c-always-enqueue",
        breaks="complete() in C queues the house whether or not it won READY",
        native=_by(
            "turn.c",
            (
                "return ready_if(house_try_ready(&house->cell), house);",
                "{ house_try_ready(&house->cell); return ready_if(1, house); }",
            ),
        ),
        workload="count",
        scheduler="pinned",
    ),
    Mutant(
        "c-no-reclaim",
        breaks="the pool's turn in C ends without a look at what came meanwhile",
        native=_by("pool.c", (_RECLAIM, "    (void)mask;\n    return 0;\n")),
        workload="tokens",
        scheduler="pool",
    ),
    Mutant(
        "c-look-before-put",
        breaks="a sender in C looks at the state before its message is in the mailbox",
        native=_by("house.c", (_POST, _LOOK_FIRST)),
        workload="count",
    ),
    Mutant(
        "c-store-for-cas",
        breaks="a transition in C looks at the state and then stores, without comparing",
        native=_by(
            "atomics.h",
            ("== from && otv_compare_and_set(c, from, to);", "== from && (otv_set(c, to), true);"),
        ),
        workload="count",
    ),
    Mutant(
        "c-put-without-cas",
        breaks="a sender in C links its message by a load and a store: two at once lose one",
        native=_by("mailbox.h", (_LINK, "    atomic_store(&box->in, node);\n")),
        workload="count",
    ),
    Mutant(
        "c-lifo-mailbox",
        breaks="a mailbox in C hands out the newest of what has come in first",
        native=_by(
            "mailbox.h",
            (
                "    otv_node *first = NULL;\n    while (taken != NULL) {",
                "    otv_node *first = taken;\n    while (false) {",
            ),
        ),
        workload="count",
    ),
    Mutant(
        "c-unlocked-pop",
        breaks="the owner takes a house from the list in C without its lock",
        native=_by("house_list.h", (_POP, "    return house_list_unlink(list);\n")),
        workload="parts",
    ),
    Mutant(
        "c-steal-the-last",
        breaks="a thief in C takes the last house of a list as well",
        native=_by(
            "house_list.h",
            ("if (house_list_size(list) <= 1 ||", "if (house_list_size(list) <= 0 ||"),
            (
                "HouseBase *head = list->head != list->tail ? house_list_unlink(list) : NULL;",
                "HouseBase *head = house_list_unlink(list);",
            ),
        ),
        workload="parts",
    ),
    Mutant(
        "c-normal-first",
        breaks="the queue in C hands out normal houses before those of high priority",
        native=_by("queue.c", (_HIGH, _NORMAL + _HIGH)),
        workload="parts",
    ),
    Mutant(
        "c-no-ageing",
        breaks="the queue in C lets high-priority houses go first for ever",
        native=_by(
            "queue.c",
            ("    if (queue->high_in_a_row >= queue->ageing_limit) {", "    if (false) {"),
        ),
        workload="parts",
    ),
    Mutant(
        "c-wake-by-load",
        breaks="whoever wakes an owner in C looks at its flag instead of exchanging it",
        native=_by(
            "send.c",
            (
                "otv_get_and_set(cell_of(seat->flag), NOTIFIED) == ASLEEP)",
                "otv_load(cell_of(seat->flag)) == ASLEEP)",
            ),
        ),
        workload="count",
        scheduler="pinned",
    ),
    Mutant(
        "c-closed-not-looked-at",
        breaks="whoever queues a house in C does not look whether its owner has closed",
        native=_by("send.c", (_CLOSED, "")),
        workload="shutdown",
        scheduler="pinned",
    ),
    Mutant(
        "c-io-in-business",
        breaks="an IO actor waits in C where thieves may take it",
        native=_by(
            "send.c",
            (
                "if (seat->business == NULL || ((PlanBase *)house->plan)->channels)",
                "if (seat->business == NULL)",
            ),
        ),
        workload="stealing",
        scheduler="pinned",
    ),
    Mutant(
        "c-notices-before-asks",
        breaks="a pass in C goes to the notices before the asks",
        native=_by(
            "turn.c",
            (
                "for (int box = BOX_ask; box <= BOX_notice && !failed; box++) {",
                "for (int box = BOX_notice; box >= BOX_ask && !failed; box--) {",
            ),
        ),
        workload="shutdown",
    ),
    Mutant(
        "c-queue-before-ready",
        breaks="a pooled house that yields in C is in a ring before it is READY",
        native=_by("pool.c", (_YIELD, _YIELD_LATE)),
        workload="count",
        scheduler="pool",
    ),
    Mutant(
        "c-lost-loot",
        breaks="a thief in C does not count what it has put into its own ring",
        native=_by("rings.h", ("        otv_ring_grew(thief, own + kept);\n", "")),
        workload="parts",
    ),
    Mutant(
        "c-unlocked-ring",
        breaks="a ring in C is emptied without its lock",
        native=_by(
            "rings.h",
            (_RING_IN, _RING_IN.split("\n", 1)[1]),
            (_RING_OUT, "    }\n    return item;\n"),
        ),
        workload="parts",
    ),
    Mutant(
        "c-turn-without-end",
        breaks="a turn in C goes on for as long as there is mail, whatever the budget",
        native=_by(
            "turn.c",
            (
                "    int64_t left = house_work(house, context, context->budget);\n",
                """\
    int64_t left = house_work(house, context, INT64_MAX);
    left = left - INT64_MAX + context->budget;
""",
            ),
        ),
        workload="flood",
        scheduler="pinned",
    ),
    Mutant(
        "c-global-ring-last",
        breaks="a worker in C looks at the global ring only when its own is empty",
        native=_by(
            "rings.c",
            (
                "    if (++desk->takes >= queue->poll_interval) { /* number 7 */\n",
                "    if (++desk->takes >= INT64_MAX) {\n",
            ),
        ),
        workload="flood",
        scheduler="pool",
    ),
    Mutant(
        "c-theft-not-given",
        breaks="a ring in C does not count what is stolen from it",
        native=_by(
            "rings.h",
            (
                """\
        atomic_store_explicit(&victim->given, atomic_load(&victim->given) + 1,
                              memory_order_relaxed);
""",
                "",
            ),
        ),
        workload="stealing",
        scheduler="pool",
    ),
)
