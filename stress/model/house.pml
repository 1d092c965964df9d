/* One house between its senders and its runners, with the real wake-up of its owner.
 *
 * SENDERS send MESSAGES each. The house's owner is worker 0: it takes the house from its queue, runs
 * a turn of at most BUDGET messages, and sleeps by parker.pml's protocol when the queue is empty.
 * Other WORKERS are thieves, and bolder ones than the runtime's: they take whatever they find, the
 * last house too, at any moment. The state machine alone must keep two of them from running it.
 *
 * Safety, as assertions where it can break:
 *   - single runner: the runner's mark is free on entry and one's own on leaving;
 *   - at most one queue entry: whoever enqueues finds the queue empty;
 *   - no message is handled twice, none before the mount has ended;
 *   - when nothing can move any more, every message has been handled (`quiet`).
 * Liveness, under weak fairness: every message is handled in the end.
 *
 * A turn handles a message if there is one. A model in which a turn may handle none, by choice,
 * shows a livelock that the code does not have (BUG_IDLE_TURN is that model).
 *
 * Deliberate bugs, each chosen with -D: BUG_NO_RECHECK, BUG_RECHECK_FIRST, BUG_ALWAYS_ENQUEUE,
 * BUG_PLAIN_READY, BUG_LAZY_WAITING, BUG_SENDER_ENQUEUES, BUG_ENQUEUE_FIRST, BUG_LOOK_BEFORE_PUT,
 * BUG_MOUNT_NO_LOOK, BUG_EARLY_WAITING, BUG_WAKE_BEFORE_ENQUEUE, BUG_IDLE_TURN and those of
 * parker.pml.
 */

#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef BUDGET
#define BUDGET 1
#endif
#define TOTAL (SENDERS * MESSAGES)
#define NOBODY 255

#include "table.pml"
#include "parker.pml"

chan mailbox = [TOTAL] of { byte };      /* a push and a pop are one step each, as in C */
byte queue = 0;                          /* how often the house is in its owner's queue */
bool mounting = false;                   /* the house waits for its start hooks */
bool mounted = false;                    /* they have run */
byte runner = NOBODY;
bool was_handled[TOTAL];
byte handled = 0;

/* ---- the scheduler ---------------------------------------------------------------------------- */

inline enqueue() {
    d_step {
        assert(queue == 0);
        queue++
    }
}

inline ready(seen) {
#ifdef BUG_WAKE_BEFORE_ENQUEUE
    call(seen);
    enqueue()
#else
    enqueue();
    call(seen)
#endif
}

/* The runner's store buffer, for BUG_LAZY_WAITING: the store of WAITING is late until the process
 * `store_buffer` writes it. The runner's next look may overtake it; everything else that it does
 * (compare-and-sets, the queue's lock, the parker's flag) waits until the buffer is empty. */
bool late_waiting = false;
#define drained() (!late_waiting)

/* ---- a turn ----------------------------------------------------------------------------------- */

inline handle(number) {
    d_step {
        mailbox ? number;
        assert(mounted);
        assert(runner == _pid);
        assert(!was_handled[number]);
        was_handled[number] = true;
        handled++;
        number = 0
    }
}

inline look_again(won, seen) {
    if
    :: nempty(mailbox) ->
#ifdef BUG_ALWAYS_ENQUEUE
        try_ready(won);
        ready(seen)
#else
#ifdef BUG_PLAIN_READY
        if
        :: state == WAITING -> state = READY; ready(seen)
        :: else
        fi
#else
        drained();
        try_ready(won);
        if
        :: won -> ready(seen)
        :: else
        fi
#endif
#endif
    :: empty(mailbox) -> drained()
    fi
}

inline go_to_sleep(won) {
    d_step { assert(runner == _pid); runner = NOBODY };
#ifdef BUG_LAZY_WAITING
    late_waiting = true
#else
    run_to_waiting(won);
    assert(won)
#endif
}

inline complete(won, seen) {
    if
    :: nempty(mailbox) ->
        d_step { assert(runner == _pid); runner = NOBODY };
        run_to_ready(won);
        assert(won);
        ready(seen)
    :: empty(mailbox) ->
#ifdef BUG_RECHECK_FIRST
        if
        :: nempty(mailbox) -> go_to_sleep(won); try_ready(won);
            if
            :: won -> ready(seen)
            :: else
            fi
        :: empty(mailbox) -> go_to_sleep(won)
        fi
#else
        go_to_sleep(won);
#ifndef BUG_NO_RECHECK
        look_again(won, seen)
#endif
#endif
    fi
}

inline run_turn(won, seen, left, number) {
    try_schedule(won);
    if
    :: won -> try_run(won)
    :: else
    fi;
    if
    :: won ->
        d_step { assert(runner == NOBODY); runner = _pid };
        left = BUDGET;
        do
#ifdef BUG_IDLE_TURN
        :: break
#endif
        :: left > 0 && nempty(mailbox) -> handle(number); left--
        :: left == 0 || empty(mailbox) -> break
        od;
        left = 0;
        complete(won, seen)
    :: else
    fi
}

inline mount(won, seen) {
#ifdef BUG_EARLY_WAITING
    end_mount(won);
    look_again(won, seen);
    mounted = true
#else
    mounted = true; /* the hooks */
    end_mount(won);
    assert(won);
#ifndef BUG_MOUNT_NO_LOOK
    look_again(won, seen)
#endif
#endif
}

/* ---- the threads ------------------------------------------------------------------------------ */

#define WORK (queue > 0 || mounting)

active [WORKERS] proctype worker() {
    bool won;
    bool slept;
    mtype seen = AWAKE;
    byte left;
    byte number;
    bool owner = (_pid == 0);
end_looking:
    do
    :: d_step { queue > 0 -> queue-- } -> run_turn(won, seen, left, number); won = false
    :: d_step { owner && mounting -> mounting = false } -> mount(won, seen); won = false
    :: owner && !WORK ->
        start_looking();
        if
        :: WORK
        :: !WORK ->
            fall_asleep(slept);
            if
            :: slept ->
end_asleep:     wait_for_bell()
            :: else
            fi
        fi;
        slept = false
    od
}

active [SENDERS] proctype sender() {
    byte sent = 0;
    bool won;
    mtype seen = AWAKE;
    do
    :: sent < MESSAGES ->
#ifdef BUG_LOOK_BEFORE_PUT
        try_ready(won);
        mailbox ! (_pid - WORKERS) * MESSAGES + sent;
        if
        :: won -> ready(seen)
        :: else
        fi;
#else
        mailbox ! (_pid - WORKERS) * MESSAGES + sent;
#ifdef BUG_SENDER_ENQUEUES
        try_ready(won);
        if
        :: state == READY -> ready(seen)
        :: else
        fi;
#else
#ifdef BUG_ENQUEUE_FIRST
        if
        :: state == WAITING -> ready(seen); try_ready(won)
        :: else
        fi;
#else
        try_ready(won);
        if
        :: won -> ready(seen)
        :: else
        fi;
#endif
#endif
#endif
        sent++;
        won = false
    :: else -> break
    od
}

active proctype builder() {
    bool won;
    mtype seen = AWAKE;
    begin_mount(won);
    assert(won);
    mounting = true;
    call(seen)
}

#ifdef BUG_LAZY_WAITING
active proctype store_buffer() {
    bool won;
end:
    do
    :: atomic { late_waiting -> run_to_waiting(won); late_waiting = false }
    od
}
#endif

active proctype quiet() {
end:
    timeout -> assert(handled == TOTAL && queue == 0 && state == WAITING)
}

ltl all_handled { <> (handled == TOTAL) }
