/* The house's states and its arrows, one line each: the table of the C code.
 *
 * tests/stress/test_model.py compares these lines with otavia_ft.atomic.TRANSITIONS, name by name,
 * and makes sure that nothing else in the model assigns the state. So a model that SPIN has proved
 * right is a model of the table that the runtime uses.
 *
 * An arrow is a compare-and-set. The code reads the state before it tries (many senders share that
 * cache line), but a look that finds another state is a compare-and-set that fails at that moment,
 * so one step says it all.
 */

mtype = { CREATED, MOUNTING, WAITING, READY, SCHEDULED, RUNNING }

mtype state = CREATED;

inline move(source, target, won) {
    d_step {
        won = (state == source);
        if
        :: won -> state = target
        :: else
        fi
    }
}

#define begin_mount(won)     move(CREATED, MOUNTING, won)
#define end_mount(won)       move(MOUNTING, WAITING, won)
#define try_ready(won)       move(WAITING, READY, won)
#define try_schedule(won)    move(READY, SCHEDULED, won)
#define try_run(won)         move(SCHEDULED, RUNNING, won)
#define run_to_ready(won)    move(RUNNING, READY, won)
#define run_to_waiting(won)  move(RUNNING, WAITING, won)
