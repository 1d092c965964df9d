"""Savina-style workloads: the same small programs, written for every contender.

catalogue.py   what there is to run: names, sizes, units
common.py      what the programs of all contenders share
otavia.py      the workloads as actors of this package (more of them in otavia_jobs.py)
otavia_load.py our side of the latency, and wake-ups
growth.py      does a message cost more with more actors, or with more messages waiting?
peers.py       the workloads as callbacks, for all that can spawn a callback with a mailbox
kits.py        those: threads, asyncio; kits_executor.py, kits_others.py: Pykka and Thespian
erlang/        the workloads as Erlang processes
floor.py       what no message can be cheaper than
latency.py     the open loop behind the latency figures
stranger.py    two of it are the control of the CPU map

__main__.py    one contender in a child process, told by its stdin what to run
host.py        the other side: starts, feeds and watches the children
turn.py        one contender at one workload: how much, how often, what came out

bars.py        what the figures are held against
report.py      tables, docs/performance.md; plot.py: the picture
"""
