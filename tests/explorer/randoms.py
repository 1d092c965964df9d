"""Random programs for the searches to agree on. Imported by the children of these tests."""

import random

ALL = "load store set cas swap add lock try ring wait until choose await notify"


def programs(seed, count, longest, kinds=ALL):
    """Pairs of a program (see stress.scenarios.litmus) and a memory model, the same every time."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        threads = draw.choice((2, 2, 3))
        most = 2 if threads == 3 else 3
        code = [
            [line for _ in range(draw.randint(1, most)) for line in lines(draw, kinds.split())]
            for _ in range(threads)
        ]
        if sum(map(len, code)) <= longest:
            made += 1
            yield code, draw.choice(("sc", "tso"))


def lines(draw, kinds):
    kind, cell, value = draw.choice(kinds), draw.choice("xy"), draw.choice((1, 2))
    match kind:
        case "load":
            return [("load", cell)]
        case "cas":
            return [("cas", cell, draw.choice((0, 1)), value)]
        case "lock":
            inside = draw.choice(([("load", cell)], [("store", cell, value)], []))
            return [("lock", "l"), *inside, ("unlock", "l")]
        case "try":
            return [("try", "l")]
        case "ring" | "wait":
            return [(kind, "b")]
        case "await" | "notify":
            return [(kind, "k")]
        case "choose":
            return [("choose", 2)]
        case "add":
            return [("add", cell, 1)]
        case _:
            return [(kind, cell, value)]
