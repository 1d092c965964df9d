"""Savina-style workloads: the same small programs, written for every contender.

catalogue.py   what there is to run: names, sizes, units
otavia.py      the workloads as actors of this package
peers.py       the workloads as callbacks, for all that can spawn a callback with a mailbox
kits.py        those: threads, asyncio, Pykka, Thespian, ThreadPoolExecutor
floor.py       what no message can be cheaper than, and what a wake-up costs at least
latency.py     the open loop behind the latency figures
otavia_*.py    more of the same
erlang/        three of the programs as escripts
__main__.py    one contender in a child process, told by its stdin what to run
host.py        the other side: starts, feeds and watches the children
"""
