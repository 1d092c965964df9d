"""A shop whose clerks fail in different ways, and what becomes of each of them.

Run it: python docs/examples/supervision.py
"""

import logging

from otavia_ft import ActorSystem, Directive, StateActor, Supervisor, Terminated, on


class OutOfStock(Exception):
    """Nothing is wrong with the clerk."""


class Confused(Exception):
    """The clerk's notes are in disorder; a fresh start helps."""


class Clerk(StateActor):
    def pre_start(self):
        self.sold = []

    def restart(self):
        self.sold.clear()

    @on(str)
    def sell(self, item):
        if item == "unicorn":
            raise OutOfStock(item)
        if item == "riddle":
            raise Confused(item)
        if item == "fire":
            raise RuntimeError(item)
        self.sold.append(item)

    @on(list)
    def report(self, _):
        return list(self.sold)


class Shop(StateActor):
    supervisor = (
        Supervisor(Directive.STOP, max_retries=3, window=60)
        .directive(OutOfStock, Directive.RESUME)
        .directive(Confused, Directive.RESTART)
    )

    def after_mount(self):
        self.closed = []
        self.waiting = True

    @on(int)
    def hire(self, count):
        clerks = [self.build_child(Clerk) for _ in range(count)]
        for clerk in clerks:
            self.watch(clerk)
        return clerks

    @on(Terminated)
    def terminated(self, message):
        self.closed.append(str(message.reason))
        self.waiting = False
        self.unstash_all()

    @on(str)
    def who_left(self, _):
        if self.waiting:
            self.stash()  # answered later, when somebody has left
            return None
        return self.closed


def main():
    logging.getLogger("otavia_ft.actor").setLevel(logging.CRITICAL)  # the failures are expected
    with ActorSystem(workers=2) as system:
        shop = system.build_actor(Shop)
        patient, confused, burnt = system.ask(shop, 3).result(10)
        left = system.ask(shop, "who left?")
        for clerk, trouble in ((patient, "unicorn"), (confused, "riddle"), (burnt, "fire")):
            for item in ("apple", trouble, "pear"):
                clerk.notice(item)
        print("who left:", *left.result(10))
        # An ask overtakes notices, so let each clerk finish its queue first.
        while system.ask(patient, []).result(10) != ["apple", "pear"]:
            pass
        while system.ask(confused, []).result(10) != ["pear"]:
            pass
        print("resumed: ", *system.ask(patient, []).result(10))
        print("restarted:", *system.ask(confused, []).result(10))


if __name__ == "__main__":
    main()
