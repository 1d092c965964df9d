"""Mutants of what meets the world outside: the memory monitor, the reactor, Ctrl-C.

The explorer has no such world, so real threads have to notice all of them.
"""

from __future__ import annotations

from stress.mutants import Mutant, by

__all__ = ["MUTANTS"]

PRESSURE = "otavia_ft.pressure"
REACTOR = "otavia_ft.schedule.reactor"
THREAD = "otavia_ft.schedule.thread"
SHUTDOWN = "otavia_ft.shutdown"


MUTANTS = (
    Mutant(
        "busy-drops-notices",
        breaks="a notice from outside is dropped while memory is short",
        patches=by(
            PRESSURE,
            """\
                time.sleep(system.config.memory_sleep_ms / 1000)
""",
            """\
                time.sleep(system.config.memory_sleep_ms / 1000)
                return
""",
        ),
        workload="pressure",
    ),
    Mutant(
        "busy-slows-actors",
        breaks="notices of actors wait for memory, too",
        patches=by(PRESSURE, "        if me() is None:\n", "        if True:\n"),
        workload="pressure",
    ),
    Mutant(
        "brake-stays-on",
        breaks="a system that stops while memory is short goes on slowing all others",
        patches=by(PRESSURE, "        self._set(False)\n", ""),
        workload="pressure",
    ),
    Mutant(
        "rebuild-forgets-one",
        breaks="a new selector does not get the last channel of the old one",
        patches=by(
            REACTOR,
            "for key in list(old.get_map().values()):\n",
            "for key in list(old.get_map().values())[:-1]:\n",
        ),
        workload="channels",
    ),
    Mutant(
        "busy-never-polls",
        breaks="a thread looks at its channels only when it has nothing else to do",
        patches=by(THREAD, "served = self.reactor.poll()\n", "served = 0\n"),
        workload="channels",
    ),
    Mutant(
        "unregistered-is-called",
        breaks="a channel that another's handler has just unregistered is called once more",
        patches=by(
            REACTOR,
            """\
            if watched.get(key.fd) is not key:
                continue
""",
            "",
        ),
        workload="channels",
    ),
    Mutant(
        "no-grace",
        breaks="a first Ctrl-C buries what waits, as only a second one may",
        patches=by(
            SHUTDOWN,
            """\
            self._wait_quiet(grace)
            told""",
            """\
            told""",
        ),
        workload="signals",
    ),
    Mutant(
        "second-ctrl-c-unheard",
        breaks="a second Ctrl-C ends no grace that is under way",
        patches=by(SHUTDOWN, "        self._hurry.set(1)\n", "        pass\n"),
        workload="signals",
    ),
)
