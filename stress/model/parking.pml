/* Falling asleep against being woken: one sleeper, WAKERS wakers with ITEMS pieces of work each.
 *
 * Safety: nobody sleeps for ever while work waits (`quiet`).
 * Liveness: all work gets done, if every process that can go on does (weak fairness).
 *
 * Deliberate bugs, each chosen with -D: BUG_WAKE_BEFORE_PUT, BUG_NO_WAKE, BUG_LOOK_FIRST,
 * BUG_SLEEP_ANYWAY, BUG_LOAD_THEN_RING and BUG_LAZY_AWAKE (the last three in parker.pml).
 */

#ifndef WAKERS
#define WAKERS 2
#endif
#ifndef ITEMS
#define ITEMS 2
#endif

#include "parker.pml"

byte work = 0; /* what waits in the sleeper's queues */
byte done = 0;

active [WAKERS] proctype waker() {
    byte left = ITEMS;
    mtype seen = AWAKE;
    do
    :: left > 0 ->
        left--;
#ifdef BUG_WAKE_BEFORE_PUT
        call(seen);
        work++
#else
        work++;
#ifndef BUG_NO_WAKE
        call(seen)
#endif
#endif
    :: else -> break
    od
}

active proctype sleeper() {
    bool slept;
    bool found;
end_looking:
    do
    :: true ->
#ifdef BUG_LOOK_FIRST
        found = (work > 0);
        start_looking();
#else
        start_looking();
        found = (work > 0);
#endif
        if
        :: found -> d_step { work--; done++ } /* at least one thing for each look that found some */
        :: else ->
            fall_asleep(slept);
            if
            :: slept ->
end_asleep:     wait_for_bell()
            :: else
            fi
        fi;
        d_step { slept = false; found = false }
    od
}

active proctype quiet() {
end:
    timeout -> assert(work == 0 && done == WAKERS * ITEMS)
}

ltl all_done { <> (done == WAKERS * ITEMS) }
