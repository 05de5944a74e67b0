"""Changes that turn a valid file into one that somebody has damaged, edited or written
to do harm.
"""

import copy
import math
import string

ESCAPES = "\x1b[2J\x1b]0;title\x07"
TEXTS = [
    "",
    " ",
    "\0",
    "\n",
    ESCAPES,
    "\u202egnp",
    "\ud800",
    "a\udfffb",
    "=1+1",
    "'",
    '"',
    "`",
    "|",
    "<b>",
    "é" * 300,
]
TEXTS += [
    "nan",
    "None",
    "true",
    "1e400",
    "0x10",
    "\ufeff",
    "💥",
    "a" * 100_000,
    "(" * 900 + "a=1" + ")" * 900,
]
TEXTS += [
    "not " * 900 + "a = 1",
    "age >= 1e999",
    "age > " + "9" * 500,
    "x in [" + "1," * 2000 + "1]",
]
NUMBERS = [
    0,
    -1,
    1,
    2**31,
    2**32,
    2**33 + 1,
    2**62,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    10**4000,
]
NUMBERS += [0.5, -0.0, 1e308, 1e-320, 2.0**53 + 2, math.nan, math.inf, -math.inf]
OTHERS = [None, True, False, [], {}, [[]], [None], {"a": 1}, [[[[1]]]]]
EVERYTHING = [*TEXTS, *NUMBERS, *OTHERS]


def nested(depth, bracket=list):
    value = []
    for _ in range(depth):
        value = [value] if bracket is list else {"a": value}
    return value


def places(value, path=()):
    """The path to every part of nested lists and dicts; of long lists, to the first and
    last few.
    """
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for i in [
            *range(min(len(value), 4)),
            *range(max(len(value) - 2, 4), len(value)),
        ]:
            yield from places(value[i], (*path, i))


def mutated(content, rng):
    """One to four random changes of nested lists and dicts: drop, double, retype, swap,
    nest, or overdo.
    """
    content = copy.deepcopy(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        path = rng.choice([p for p in places(content) if p] or [None])
        if path is None:
            return rng.choice(EVERYTHING)
        parent = content
        for key in path[:-1]:
            parent = parent[key]
        change(parent, path[-1], rng)
    return content


def change(parent, key, rng):
    kind = rng.randrange(7)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, list):
        parent[key:key] = [parent[key]] * rng.choice([1, 2, 50])
    elif kind == 1:
        parent[rng.choice(TEXTS)] = parent[key]
    elif kind == 2 and isinstance(parent, list):
        rng.shuffle(parent)
    elif kind == 3:
        parent[key] = nested(rng.choice([1, 5, 60, 300]), rng.choice([list, dict]))
    elif kind == 4 and isinstance(parent[key], int | float):
        parent[key] = (
            rng.choice(NUMBERS)
            if rng.random() < 0.5
            else parent[key] + rng.choice([-1, 1])
        )
    elif kind == 5 and isinstance(parent[key], str):
        parent[key] = rng.choice(
            [parent[key] + rng.choice(TEXTS), parent[key][:-1], parent[key].upper()]
        )
    else:
        parent[key] = rng.choice(EVERYTHING)


def broken_bytes(data, rng):
    """One to twenty random changes of bytes: flip, cut, double, insert, or put
    something telling there.
    """
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + rng.choice([1, 2, 10, 100])]
        elif kind == 3:
            data[at:at] = data[at : at + rng.choice([1, 10, 1000])]
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.choice([1, 4, 40]))
        else:
            telling = [
                b"\0",
                b"\xff",
                b"\xef\xbb\xbf",
                b'"',
                b"[" * 2000,
                b"{",
                b"-",
                b"1e999",
                b"\r",
                b"\\ud800",
            ]
            data[at : at + 1] = rng.choice(
                [*telling, rng.choice(string.printable).encode()]
            )
    return bytes(data)
