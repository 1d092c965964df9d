"""Plain fields: two threads, one of them writing, and nothing that orders them.

The classes that a scenario names get descriptors in front of their slots (or of the attributes
that it names) for as long as the private copy of the runtime lives. Each access is compared, by
vector clocks, with the last write and with the reads since. Clocks advance along the doors: what
releases (a store, a read-modify-write, an unlock, a ring) publishes, what acquires learns.

A race is reported in every schedule in which the two accesses are not ordered, not only in those
in which they collide. So one run finds each "forgot the lock" on its path, and accesses need no
stop of their own. What a list or a deque in a field contains is not looked at.
"""

from __future__ import annotations

from typing import Any

from stress.explorer.world import Thread, Violation, World, current

__all__ = ["watch"]


class _Watched:
    """A data descriptor that checks and then does what the one before it did."""

    def __init__(self, owner: str, name: str, inner: Any) -> None:
        self.title = f"{owner}.{name}"
        self.name = name
        self.inner = inner  # a slot's descriptor; None for an ordinary attribute

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        world = current()
        if world is not None and world.running is not None:
            self._check(world, world.running, instance, False)
        if self.inner is not None:
            return self.inner.__get__(instance, owner)
        try:
            return instance.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None

    def __set__(self, instance: Any, value: Any) -> None:
        world = current()
        if world is not None and world.running is not None:
            self._check(world, world.running, instance, True)
        if self.inner is not None:
            self.inner.__set__(instance, value)
        else:
            instance.__dict__[self.name] = value

    def _check(self, world: World, t: Thread, instance: Any, writes: bool) -> None:
        clock = t.clock
        if clock is None:
            return
        fields = world.plain.setdefault(id(instance), (instance, {}))[1]
        seen = fields.get(self.name)
        if seen is None:
            seen = fields[self.name] = (None, {})
        last, reads = seen
        if last is not None and last[0] != t.tid and clock[last[0]] < last[1]:
            self._report(world, t, last[0], "writes" if writes else "reads", "wrote")
        if not writes:
            reads[t.tid] = clock[t.tid]
            return
        for other, when in reads.items():
            if other != t.tid and clock[other] < when:
                self._report(world, t, other, "writes", "read")
        fields[self.name] = ((t.tid, clock[t.tid]), {})

    def _report(self, world: World, t: Thread, other: int, does: str, did: str) -> None:
        before = world.threads[other].name
        text = f"{t.name} {does} {self.title}, which {before} {did}; nothing orders the two"
        if world.log is not None:
            world.log.append((t.tid, f"{does} {self.title} (race)", None))
        world.fail(Violation("race", text))


def watch(runtime: Any, names: tuple[str, ...]) -> None:
    """Watch `module.Class` (its slots) or `module.Class.field` in a private copy of the runtime."""
    for name in names:
        module, class_name, *field = name.split(".")
        cls = getattr(getattr(runtime, module), class_name)
        chosen = field or [
            slot
            for slot in cls.__dict__.get("__slots__", ())
            if slot not in ("__weakref__", "__dict__")
        ]
        if not chosen:
            raise ValueError(f"{name} has no slots: name the fields to watch, as {name}.field")
        for slot in chosen:
            inner = cls.__dict__.get(slot)
            if not isinstance(inner, _Watched):
                if inner is not None and not hasattr(inner, "__set__"):
                    inner = None  # a class-level default of an ordinary attribute
                setattr(cls, slot, _Watched(class_name, slot, inner))
