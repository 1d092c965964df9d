"""The explorer: the runtime's own code, run under every interleaving of its threads.

Lineage. Stateless model checking in the manner of VeriSoft, CHESS and Nidhugg: a program is not
translated into a model, it is run again and again from its beginning, and each run follows another
schedule. Partial-order reduction is source-DPOR with sleep sets (Abdulla, Aronis, Jonsson and
Sagonas), the sampling mode is PCT (Burckhardt, Kothari, Musuvathi and Nagarakatte), the memory
model beside sequential consistency is x86's (TSO: Owens, Sarkar and Sewell).

How it works. Runtime code takes all that crosses threads from `otavia_ft.doors`. `loading.py`
imports a second, private copy of the runtime with another module in that place, whose objects
(`cells.py`) stop before each operation and tell a `World` (`world.py`) what they are about to do. A
world is one run of one scenario: its threads are greenlets, so one OS thread carries them all, and
a *picker* decides after each operation who goes next. A picker is one way of searching:

    dpor.py       all schedules, but one of each class that differs only in the order of
                  independent operations; complete under sequential consistency and TSO
    search.py     all states, by remembering the ones seen; also with a bound on preemptions
    sampling.py   random schedules: uniformly, or with PCT's guarantee

Around them: `scenario.py` (what a scenario states), `races.py` (plain fields without a lock),
`linear.py` (linearizability), `replay.py` (tokens, minimisation), `table.py` (the printed
counterexample), `engine.py` (one call that ties them together).

Guaranteed: a run is a function of its schedule, so each failure can be run again; a search that
says it is complete has covered all schedules of the scenario at its sizes, up to the step limit.

Assumed: scenario and runtime are deterministic but for the doors (the explorer notices when a
replayed prefix behaves differently, and says so); threads share nothing but what lies behind the
doors, and plain fields that those protect (the race check looks at the classes that a scenario
names); operations of the doors are as atomic as `_atomics` makes them.

Not modelled: reorderings weaker than TSO (ARM's), spurious failures of compare-and-set, running out
of memory, signals, the selector of an IO thread.
"""

from stress.explorer.engine import MODES, Result, explore
from stress.explorer.scenario import Scenario, Violation, scenario, scenarios

__all__ = ["MODES", "Result", "Scenario", "Violation", "explore", "scenario", "scenarios"]
