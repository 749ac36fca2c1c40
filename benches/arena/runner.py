"""Runs the methods on parts of tables, and measures them."""
import json
import sys
from functools import lru_cache
from threading import Lock

import numpy as np

import measures
import ours
import peers
import tables

OURS, TOLD = "ours", "ours told"
# Our methods, with the options that they add; the last two only run if they are named.
MINE = {OURS: [], TOLD: [], "ours exact": ["--model", "exact"], "ours counts": ["--model", "counts"]}
SLOW = {"CP-APR", "NN-PARAFAC"}  # two seeds only, and one for held-out places and halves
TENTHS = range(1, 10)
SCORED = 500  # held-out places of all splits of a table: fewer say little
BATCH = ["school", "school_hour", "school_20min", "school_slots", "enron", "tickets", "mail"]
MADE = ["contacts", "contacts_20min", "trips", "trips_week", "flights", "desk", "desk_week"]  # run if they are named
STREAMS = ["tickets_week", "mail_month", "planted", "planted_bursty", "planted_change", "planted_thin"]


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

    def splits(self, name):
        """Returns how many splits the check needs: as many as score SCORED places, 5 at least and 40 at most."""
        held_out = len(self.table(name).places()) // 5
        return int(np.clip(-(-SCORED // max(held_out, 1)), 5, 40))

    def fit(self, name, method, m, seed, part="all"):
        """Returns the patterns of a method from one part of a table."""
        table = self.table(name)
        chosen = self.part(name, part, seed)
        if method in MINE:
            return attempt(ours.learn, table, chosen, seed, m if method == TOLD else None, MINE[method])
        kind = "groups" if method in peers.GROUPS else "batch"
        job = {"method": f"{kind} {method}", "m": m, "seed": seed, "shape": table.shape, "graph": table.graph}
        job["fibers"], job["places"] = table.fibers(chosen)
        return self.peers.run(job, [table.digest, part, "" if part == "all" else seed])

    def follow(self, name, method, m, seed):
        """Returns the patterns of a method at the tenths of a stream."""
        table = self.table(name)
        ends = tenths(table.shape[3])
        if method in MINE:
            return attempt(ours.follow, table, seed, m if method == TOLD else None, ends, MINE[method])
        job = {"method": f"stream {method}", "m": m, "seed": seed, "shape": table.shape}
        fibers, places = table.fibers(by_step=True)
        cells = places[:, 0] * table.shape[2] + places[:, 1]
        known = np.unique(cells)
        steps = [places[:, 2] == step for step in range(table.shape[3])]
        job["steps"] = [fibers[step] for step in steps]
        job["step_places"] = [np.searchsorted(known, cells[step]) for step in steps]
        job["all_places"] = len(known)
        result = self.peers.run(job, [table.digest, "stream"])
        if "along" in result:
            result["patterns"] = result["along"][-1]
            result["along"] = [result["along"][end - 1] for end in [*ends, table.shape[3]]]
        return result

    def groups(self, name, result):
        """Returns the agreement of the groups of a result with the known groups, and how many people are in one."""
        table = self.table(name)
        axis = table.axes[0 if table.grouped == "feature" else 1]
        if "members" in result:
            found = [result["members"].get(label) for label in axis]
        elif "groups" in result:
            found = result["groups"]
        elif table.grouped == "feature":
            found = measures.feature_groups(result["patterns"], table.fibers()[0])
        elif "rows" in result:
            found = result["rows"].argmax(0)
        else:
            found = measures.row_groups(result["patterns"], *table.fibers(), len(axis))
        inside = [group is not None for label, group in zip(axis, found) if label in table.classes]
        found = ["none" if group is None else str(group) for group in found]
        return measures.nmi(axis, found, table.classes), float(np.mean(inside))

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
            record |= {key: result[key] for key in ("cpu", "memory", "reading", "above") if key in result}
            if table.classes:
                record["nmi"], record["inside"] = self.groups(name, result)
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

    def stream(self, name, method, m, seed):
        """Returns the record of a method on a stream: how well the steps of the next tenth are predicted."""
        table = self.table(name)
        result = self.follow(name, method, m, seed)
        record = {"table": name, "method": method, "seed": seed}
        if "failed" in result:
            return record | {"failed": result["failed"]}
        record |= {key: result[key] for key in ("cpu", "memory", "reading", "above") if key in result}
        record |= {"patterns": len(result["patterns"]), "_found": result["patterns"]}
        record["numbers"] = [len(patterns) for patterns in result["along"]]
        if table.planted is not None:
            record["planted"] = measures.matched(result["patterns"], table.planted).tolist()
        ends = [*tenths(table.shape[3]), table.shape[3]]
        scores = []
        for begin, end, patterns in zip(ends, ends[1:], result["along"]):
            past, _ = table.fibers(table.cells[:, 3] < begin)
            ahead, _ = table.fibers(ours.between(table, begin, end), by_step=True)
            scores.append(measures.shares(patterns, past, ahead, begin))
        record["deviances"], record["errors"] = (list(values) for values in zip(*scores))
        record["deviance"], record["error"] = map(measures.geometric, (record["deviances"], record["errors"]))
        return record


def tenths(steps):
    """Returns the numbers of steps after which a stream is measured, up to nine."""
    return sorted({max(1, round(steps * tenth / 10)) for tenth in TENTHS})


def attempt(call, *arguments):
    """Returns the result of a run of our program, or why it failed."""
    try:
        return call(*arguments)
    except ours.Failed as why:
        return {"failed": str(why)}


def write(out, record):
    if out:
        record = {key: value for key, value in record.items() if not key.startswith("_")}
        out.write(json.dumps(record) + "\n")
        out.flush()
