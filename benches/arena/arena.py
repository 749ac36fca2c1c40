#!/usr/bin/env python3
"""The arena: compares TensorNOODL with other methods on tables of counts and on streams (README.md).

    python benches/arena/arena.py [--tables ...] [--methods ...] [--seeds N] [--out FILE.jsonl]
    python benches/arena/arena.py --must
"""
import argparse
import json
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Lock

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # CPU seconds of all methods are those of one thread

import numpy as np

import measures
import ours
import peers
import tables

OURS, TOLD = "ours", "ours told"
SLOW = {"CP-APR", "NN-PARAFAC"}  # two seeds only, and one for held-out places and halves
BATCH = ["school", "school_hour", "school_20min", "school_slots", "enron", "tickets", "mail"]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Arena:
    """Runs methods on parts of tables and measures them."""

    def __init__(self, cache):
        self.peers = peers.Peers(cache)
        self.lock = Lock()
        self.made = {}

    def table(self, name):
        """Returns a table by its name, such as tickets or tickets:3 (made with seed 3)."""
        with self.lock:
            if name not in self.made:
                stem, _, seed = name.partition(":")
                self.made[name] = tables.make(stem, int(seed or 0))
            return self.made[name]

    @lru_cache(maxsize=None)
    def part(self, name, part, seed):
        """Returns which cells are in a part of the places: all, train (80 %), test, half 0 or half 1."""
        table = self.table(name)
        if part == "all":
            return np.ones(len(table.cells), bool)
        places = table.places()
        order = np.random.default_rng([seed, 80]).permutation(len(places))
        chosen = {
            "train": order < 0.8 * len(places),
            "test": order >= 0.8 * len(places),
            "half 0": order % 2 == 0,
            "half 1": order % 2 == 1,
        }[part]
        return table.where(places[chosen])

    def fit(self, name, method, m, seed, part="all"):
        """Returns the patterns of a method from one part of a table."""
        table = self.table(name)
        chosen = self.part(name, part, seed)
        if method in (OURS, TOLD):
            try:
                return ours.learn(table, chosen, seed, m if method == TOLD else None)
            except ours.Failed as error:
                return {"failed": str(error)}
        kind = "groups" if method in peers.GROUPS else "batch"
        job = {"method": f"{kind} {method}", "m": m, "seed": seed, "shape": table.shape, "graph": table.graph}
        job["fibers"], job["places"] = table.fibers(chosen)
        return self.peers.run(job, [table.digest, part, "" if part == "all" else seed])

    def groups(self, name, result):
        """Returns the agreement of the groups of a result with the known groups."""
        table = self.table(name)
        if "groups" in result:
            found = result["groups"]
        elif table.grouped == "feature":
            found = measures.feature_groups(result["patterns"], table.fibers()[0])
        elif "rows" in result:
            found = result["rows"].argmax(0)
        else:
            return None
        axis = table.axes[0 if table.grouped == "feature" else 1]
        return measures.nmi(axis, found, table.classes)

    def held_out(self, name, result, seed):
        """Returns deviance and squared error of unseen places, as shares of those of the mean."""
        table = self.table(name)
        train, _ = table.fibers(self.part(name, "train", seed))
        test, _ = table.fibers(self.part(name, "test", seed))
        return measures.shares(result["patterns"], train, test, seed)

    def batch(self, name, method, m, seed, parts=("all", "train", "halves")):
        """Returns the record of a method on a table."""
        table = self.table(name)
        record = {"table": name, "method": method, "seed": seed}
        if "all" in parts:
            result = self.fit(name, method, m, seed)
            if "failed" in result:
                return record | {"failed": result["failed"]}
            record |= {"cpu": result["cpu"], "memory": result["memory"]}
            if table.classes:
                record["nmi"] = self.groups(name, result)
            if method in peers.GROUPS:
                return record
            record |= {"patterns": len(result["patterns"]), "_found": result["patterns"]}
            if table.planted is not None:
                record["planted"] = measures.matched(result["patterns"], table.planted).tolist()
        if "train" in parts:
            result = self.fit(name, method, m, seed, "train")
            if "failed" in result:
                return record | {"failed": result["failed"]}
            record["deviance"], record["error"] = self.held_out(name, result, seed)
        if "halves" in parts:
            results = [self.fit(name, method, m, seed, f"half {half}") for half in (0, 1)]
            if all("patterns" in result for result in results):
                record["halves"] = measures.agreement(*(result["patterns"] for result in results))
        return record


def summary(records):
    """Returns the means over the seeds of one table and method, and the agreement of the seeds."""
    alive = [record for record in records if "failed" not in record]
    if not alive:
        return records[0]
    mean = {key: records[0][key] for key in ("table", "method")}
    mean["seeds"] = len(alive)
    for key in ("patterns", "nmi", "deviance", "error", "halves", "cpu", "memory"):
        values = [record[key] for record in alive if record.get(key) is not None]
        if values:
            mean[key] = float(np.mean(values))
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
    ("error", "squared error", 3, "low"),
    ("nmi", "NMI", 3, "high"),
    ("planted", "planted found", 2, "high"),
    ("stable", "seeds agree", 3, "high"),
    ("halves", "halves agree", 3, "high"),
    ("cpu", "CPU s", 2, "low"),
    ("memory", "MB", 0, "low"),
]


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
    for one in [mean for mean in means if mean["method"] in (OURS, TOLD)]:
        cells = []
        for key, _, _, better in columns:
            others = [mean[key] for mean in means if mean["method"] not in (OURS, TOLD) and key in mean]
            if better is None or not others or key not in one:
                cells.append("")
                continue
            best = min(others) if better == "low" else max(others)
            ratio = one[key] / best if best else float("nan")
            wins = ratio <= 1 if better == "low" else ratio >= 1
            cells.append(f"{ratio:.2f} {'win' if wins else 'LOSS'}")
        lines.append(f"| *{one['method']} / best peer* | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def compare(arena, names, methods, seeds, jobs, out):
    """Runs all methods on all tables, writes the records, and prints the tables."""
    begun = time.time()
    for name in names:
        try:
            table = arena.table(name)
        except tables.Missing as why:
            print(f"\n### {name}\n\nskipped: {why}")
            continue
        units = []
        for method in methods:
            if method in peers.GROUPS and table.graph is None:
                continue
            if method in peers.STREAM and method not in peers.BATCH:
                continue
            many = min(seeds, 2) if method in SLOW else seeds
            m = len(set(table.classes.values())) if method in peers.GROUPS else table.known
            for seed in range(many):
                parts = ("all",) if method in SLOW and seed > 0 else ("all", "train", "halves")
                units.append((name, method, m, seed, parts))
        with ThreadPoolExecutor(jobs) as pool:
            records = list(pool.map(lambda unit: progress(arena.batch, unit, begun), units))
        means = [summary([r for r in records if r["method"] == method]) for method in methods
                 if any(r["method"] == method for r in records)]
        for record in records:
            write(out, record)
        for mean in means:
            write(out, {"mean": True} | mean)
        print(markdown(name, means), flush=True)


def progress(call, unit, begun):
    result = call(*unit)
    say(f"{time.time() - begun:6.0f} s  {unit[0]}, {unit[1]}, seed {unit[3]}")
    return result


def write(out, record):
    if out:
        record = {key: value for key, value in record.items() if not key.startswith("_")}
        out.write(json.dumps(record) + "\n")
        out.flush()


def main():
    every = [OURS, TOLD, *peers.BATCH, *peers.GROUPS, *(m for m in peers.STREAM if m not in peers.BATCH)]
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--tables", nargs="+", metavar="TABLE", help=f"of {', '.join(tables.MAKERS)}")
    read.add_argument("--methods", nargs="+", metavar="METHOD", choices=every, default=every, help=", ".join(every))
    read.add_argument("--seeds", type=int, default=3, help="seeds 0 to N - 1 [default: 3; 5 with --must]")
    read.add_argument("--out", help="file of JSON lines to write")
    read.add_argument("--must", action="store_true", help="check what must hold, instead of comparing")
    read.add_argument("--cache", default="/tmp/noodl-arena-peers.jsonl", help="file that keeps the results of peers")
    read.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    given = read.parse_args()
    warnings.simplefilter("ignore")
    arena = Arena(given.cache)
    out = open(given.out, "a") if given.out else None
    if given.must:
        import must

        sys.exit(must.check(arena, given.tables, given.jobs, out))
    compare(arena, given.tables or BATCH, given.methods, given.seeds, given.jobs, out)


if __name__ == "__main__":
    main()
