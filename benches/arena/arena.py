#!/usr/bin/env python3
"""The arena: compares TensorNOODL with other methods on tables of counts and on streams (README.md).

    python benches/arena/arena.py [--tables ...] [--methods ...] [--seeds N] [--out FILE.jsonl]
    python benches/arena/arena.py --must
"""
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported: CPU seconds of all methods are those of one thread

import argparse
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import amino
import measures
import must
import peers
import tables
from measures import geometric
from runner import BATCH, MADE, MINE, OURS, SLOW, STREAMS, TOLD, Arena, say, write


def summary(records):
    """Returns the means over the seeds of one table and method, and the agreement of the seeds."""
    alive = [record for record in records if "failed" not in record]
    if not alive:
        return records[0]
    mean = {key: records[0][key] for key in ("table", "method")}
    mean["seeds"] = len(alive)
    for key in ("patterns", "nmi", "inside", "deviance", "error", "halves", "cpu", "reading", "memory", "above"):
        values = [record[key] for record in alive if record.get(key) is not None]
        if values:
            mean[key] = geometric(values) if key in ("deviance", "error") else float(np.mean(values))
    if "deviances" in alive[0]:
        mean["deviances"] = [geometric(values) for values in zip(*(record["deviances"] for record in alive))]
        mean["early"], mean["late"] = geometric(mean["deviances"][:3]), geometric(mean["deviances"][-3:])
    planted = [np.mean(np.array(record["planted"]) >= 0.9) for record in alive if "planted" in record]
    if planted:
        mean["planted"] = float(np.mean(planted))
    found = [record["_found"] for record in alive if "_found" in record]
    pairs = [measures.agreement(a, b) for i, a in enumerate(found) for b in found[:i]]
    if pairs:
        mean["stable"] = float(np.mean(pairs))
    return mean


COLUMNS = [  # key, title, digits, better
    ("patterns", "patterns", 1, None),
    ("deviance", "deviance", 3, "low"),
    ("early", "first three tenths", 3, "low"),
    ("late", "last three tenths", 3, "low"),
    ("error", "squared error", 3, "low"),
    ("nmi", "NMI", 3, "high"),
    ("planted", "planted found", 2, "high"),
    ("stable", "seeds agree", 3, "high"),
    ("halves", "halves agree", 3, "high"),
    ("cpu", "CPU s", 2, "low"),
    ("memory", "MB", 0, "low"),
]
COSTS = ("cpu", "memory")


def markdown(name, means):
    """Returns the table of one data set, with our ratio to the best peer in each column."""
    columns = [column for column in COLUMNS if any(column[0] in mean for mean in means)]
    lines = [f"\n### {name}\n", "| method | " + " | ".join(column[1] for column in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for mean in means:
        if "failed" in mean:
            lines.append(f"| {mean['method']} | failed: {mean['failed']} |" + " |" * (len(columns) - 1))
            continue
        cells = [f"{mean[key]:.{digits}f}" if key in mean else "" for key, _, digits, _ in columns]
        lines.append(f"| {mean['method']} | " + " | ".join(cells) + " |")
    others = [mean for mean in means if mean["method"] not in MINE]
    for one in [mean for mean in means if mean["method"] in MINE and "failed" not in mean]:
        cells = [versus(one, others, key, better) for key, _, _, better in columns]
        lines.append(f"| *{one['method']} / best peer* | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def versus(one, others, key, better):
    """Returns our ratio to the best peer, and whether we win. Methods that only group people have other costs."""
    values = [mean[key] for mean in others if key in mean and not (key in COSTS and mean["method"] in peers.GROUPS)]
    if better is None or not values or key not in one:
        return ""
    best = min(values) if better == "low" else max(values)
    if best == 0:
        return "win" if one[key] >= 0 and better == "high" else "LOSS"
    ratio = one[key] / best
    level = abs(ratio - 1) < 0.005
    wins = ratio < 1 if better == "low" else ratio > 1
    return f"{ratio:.2f} {'level' if level else 'win' if wins else 'LOSS'}"


def compare(arena, names, methods, seeds, jobs, out):
    """Runs all methods on all tables, writes the records, and prints the tables."""
    begun = time.time()
    for name in names:
        try:
            if name == "aminoacids":
                print(amino.compare(arena, methods, seeds, out), flush=True)
                continue
            table = arena.table(name)
        except tables.Missing as why:
            print(f"\n### {name}\n\nskipped: {why}", flush=True)
            continue
        call = arena.stream if table.streams else arena.batch
        units = list(plan(table, methods, seeds))
        with ThreadPoolExecutor(jobs) as pool:
            records = list(pool.map(lambda unit: progress(call, (name, *unit), begun), units))
        ran = list(dict.fromkeys(record["method"] for record in records))
        means = [summary([record for record in records if record["method"] == method]) for method in ran]
        for record in records:
            write(out, record)
        for mean in means:
            write(out, {"mean": True} | mean)
        print(markdown(name, means), flush=True)
    say(f"{time.time() - begun:.0f} s in all")


def plan(table, methods, seeds):
    """Yields what to run on a table: method, number of patterns, seed, and for batch tables the parts."""
    for method in methods:
        if table.streams:
            if method in MINE or method in peers.STREAM:
                yield from ((method, table.known, seed) for seed in range(seeds))
        elif method in peers.GROUPS:
            if table.graph is not None:
                classes = len(set(table.classes.values()))
                yield from ((method, classes, seed, ("all",)) for seed in range(seeds))
        elif method in MINE or method in peers.BATCH:
            for seed in range(min(seeds, 2) if method in SLOW else seeds):
                slow = method in SLOW and seed > 0
                yield method, table.known, seed, ("all",) if slow else ("all", "train", "halves")


def progress(call, unit, begun):
    result = call(*unit)
    say(f"{time.time() - begun:6.0f} s  {unit[0]}, {unit[1]}, seed {unit[3]}")
    return result


def main():
    default = [OURS, TOLD, *dict.fromkeys([*peers.BATCH, *peers.GROUPS, *peers.STREAM])]
    every = [*default, *(method for method in MINE if method not in default)]
    known = [*BATCH, *STREAMS, "tickets_day", "aminoacids", *MADE]
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--tables", nargs="+", metavar="TABLE", help=f"of {', '.join(known)}; tickets:3 has seed 3")
    read.add_argument("--methods", nargs="+", metavar="METHOD", choices=every, default=default, help=", ".join(every))
    read.add_argument("--seeds", type=int, default=3, help="seeds 0 to N - 1 [default: 3]; --must always takes 5")
    read.add_argument("--out", metavar="FILE", help="write JSON lines to this file")
    read.add_argument("--must", action="store_true", help="check what must hold, instead of comparing")
    read.add_argument("--cache", metavar="FILE", default=f"{tempfile.gettempdir()}/noodl-arena-peers.jsonl",
                      help="file that keeps the results of peers [default: %(default)s]")
    read.add_argument("--jobs", type=int, default=2, help="runs at the same time [default: 2]")
    given = read.parse_args()
    for name in given.tables or []:
        if name.partition(":")[0] not in [*known, *must.NAMES]:
            read.error(f"no table {name}; tables are {', '.join(known)}")
    warnings.simplefilter("ignore")
    arena = Arena(given.cache)
    out = open(given.out, "w") if given.out else None
    if given.must:
        sys.exit(must.check(arena, given.tables, given.jobs, out))
    compare(arena, given.tables or [*BATCH, *STREAMS, "aminoacids"], given.methods, given.seeds, given.jobs, out)


if __name__ == "__main__":
    main()
