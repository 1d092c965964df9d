/* The parker: a flag and a bell, as in otavia_ft/parking.py.
 *
 * One flag for each sleeper. `nap` is what the sleeper does when it has found nothing to do; `call`
 * is what a waker does after it has put work where the sleeper looks. Both stop between any two
 * operations that another thread could notice.
 *
 * The flag's store buffer (BUG_LAZY_AWAKE only): a lazy store waits in `late_awake` until the
 * process `buffer` writes it to memory; a read-modify-write of the same thread waits until the
 * buffer is empty. That is x86's model, as far as one store needs it.
 */

mtype = { AWAKE, ASLEEP, NOTIFIED }

mtype flag = AWAKE;
bool bell = false;       /* sticky: it may ring before the sleeper has reached the wait */
bool late_awake = false; /* a store of AWAKE that has not left the buffer yet */

inline start_looking() {
#ifdef BUG_LAZY_AWAKE
    late_awake = true;
#else
    flag = AWAKE;
#endif
}

inline fall_asleep(slept) {
#ifdef BUG_SLEEP_ANYWAY
    flag = ASLEEP;
    slept = true;
#else
    d_step {
        !late_awake -> slept = (flag == AWAKE);
        if
        :: slept -> flag = ASLEEP
        :: else
        fi
    }
#endif
}

inline wait_for_bell() {
    d_step { bell -> bell = false }
}

inline call(seen) {
#ifdef BUG_LOAD_THEN_RING
    seen = flag;          /* "is it asleep?", by a plain load, and no mark if it is not */
#else
    d_step { seen = flag; flag = NOTIFIED }
#endif
    if
    :: seen == ASLEEP -> bell = true
    :: else
    fi;
    seen = AWAKE          /* a scratch variable; equal values keep the states few */
}

#ifdef BUG_LAZY_AWAKE
active proctype buffer() {
end:
    do
    :: d_step { late_awake -> flag = AWAKE; late_awake = false }
    od
}
#endif
