"""What must hold: each line has a figure, its threshold, and whether it passes."""
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import measures
import ours
import peers
import tables
from arena import OURS, say, write

SEEDS = range(5)
PEER = "NMF-KL"


class List:
    """The lines of the list."""

    def __init__(self, out):
        self.out, self.failed = out, 0
        print("| what | figure | must be | |\n| --- | --- | --- | --- |", flush=True)

    def add(self, what, figure, rule, passed):
        self.failed += not passed
        print(f"| {what} | {figure} | {rule} | {'pass' if passed else '**FAIL**'} |", flush=True)
        write(self.out, {"must": what, "figure": figure, "rule": rule, "pass": bool(passed)})

    def skip(self, what, why):
        print(f"| {what} | | | skipped: {why} |", flush=True)


def check(arena, only, jobs, out):
    """Prints the list. Returns 1 if a line fails."""
    lines = List(out)
    with ThreadPoolExecutor(jobs) as pool:
        arena.pool = pool
        for names, call in CHECKS:
            if only and not set(names) & set(only):
                continue
            for name in names:
                if only and name not in only:
                    continue
                say(f"{call.__name__} {name}")
                try:
                    call(arena, lines, name)
                except tables.Missing as why:
                    lines.skip(name, why)
                except ours.Failed as why:
                    lines.add(name, str(why).replace("\n", " "), "no failure", False)
    print(f"\n{lines.failed} lines fail")
    return int(lines.failed > 0)


def runs(arena, name, method, m, parts):
    """Returns the records of all seeds; m is one number, or one for each seed."""
    numbers = m if isinstance(m, list) else [m] * len(SEEDS)
    units = [(name, method, number, seed, parts) for seed, number in zip(SEEDS, numbers)]
    records = list(arena.pool.map(lambda unit: arena.batch(*unit), units))
    broken = [record["failed"] for record in records if "failed" in record]
    if broken and method == OURS:
        raise ours.Failed(broken[0])
    return records


def column(records, key):
    return [record[key] for record in records if record.get(key) is not None]


def spread(values, digits=3):
    values = [round(float(value), digits) for value in values]
    return f"{np.mean(values):.{digits}f} ({', '.join(f'{value:g}' for value in values)})"


def batch(arena, lines, name):
    """Groups, held-out deviance, and agreement of halves on one table."""
    mine = runs(arena, name, OURS, None, ("all", "train", "halves"))
    numbers = column(mine, "patterns")
    told = [max(number, 1) for number in numbers]
    peer = runs(arena, name, PEER, told, ("all", "train", "halves"))
    print(f"| {name}: patterns | {', '.join(map(str, numbers))} | | |", flush=True)
    if name == "school":
        lines.add(f"{name}: patterns, every seed", f"{min(numbers)} to {max(numbers)}", "9 to 13",
                  min(numbers) >= 9 and max(numbers) <= 13)
    if name == "enron":
        lines.add(f"{name}: patterns, range over seeds", max(numbers) - min(numbers), "at most 3",
                  max(numbers) - min(numbers) <= 3)
    least = {"school": 0.93, "school_hour": 0.9, "school_20min": 0.9, "school_slots": 0.85}.get(name)
    found = column(mine, "nmi")
    if least:
        figure = spread(found) if found else "no groups"
        lines.add(f"{name}: NMI, mean", figure, f"at least {least}", bool(found) and np.mean(found) >= least)
    if name == "enron":
        theirs = np.mean(column(peer, "nmi"))
        lines.add(f"{name}: NMI, mean", spread(found), f"at least {theirs + 0.03:.3f} ({PEER} {theirs:.3f} + .03)",
                  np.mean(found) >= theirs + 0.03)
    ratio = np.mean(column(mine, "deviance")) / np.mean(column(peer, "deviance"))
    lines.add(f"{name}: held-out deviance / {PEER} told our number", f"{ratio:.3f}", "at most 1.03", ratio <= 1.03)
    halves, theirs = np.mean(column(mine, "halves")), np.mean(column(peer, "halves"))
    lines.add(f"{name}: agreement of halves", f"{halves:.3f}", f"at least {theirs:.3f} ({PEER})", halves >= theirs)


def stream_of_tickets(arena, lines, name):
    """Tickets by week: five tables, five seeds each."""
    units = [(table, seed) for table in SEEDS for seed in SEEDS]
    done = list(arena.pool.map(lambda unit: weeks(arena, name, *unit), units))
    first = [one["three"] for one in done]
    lines.add(f"{name}: three patterns by week 4", f"{sum(week is not None and week <= 4 for week in first)} of 25 runs",
              "25", all(week is not None and week <= 4 for week in first))
    fourth = [one["fourth"] for one in done]
    missing = sum(week is None for week in fourth)
    delays = [week - tables.FOURTH for week in fourth if week is not None]
    figure = f"mean {np.mean(delays):.1f}, longest {max(delays)}, never in {missing} runs" if delays else "never"
    lines.add(f"{name}: weeks until the fourth", figure, "mean at most 6, longest 10",
              bool(delays) and not missing and np.mean(delays) <= 6 and max(delays) <= 10)
    lost = sum(one["lost"] for one in done)
    lines.add(f"{name}: patterns lost", lost, "0", lost == 0)
    extra = sum(one["extra"] for one in done)
    lines.add(f"{name}: spurious patterns in 25 runs", extra, "at most 1", extra <= 1)
    low = [one["low"] for one in done]
    lines.add(f"{name}: lowest explained share after week 4 / final", f"{min(low):.2f}", "at least 0.70",
              min(low) >= 0.7)


def weeks(arena, name, data_seed, seed):
    """Follows a stream of tickets. Weeks count from 0."""
    table = arena.table(f"{name}:{data_seed}" if data_seed else name)
    result = ours.follow(table, seed, ends=range(1, table.shape[3]))
    along = result["along"]
    found = [(measures.matched(patterns, table.planted) >= 0.9) for patterns in along]
    numbers = [len(patterns) for patterns in along]
    three = next((week for week, hits in enumerate(found) if hits[:3].all()), None)
    fourth = next((week for week, hits in enumerate(found) if week >= tables.FOURTH and hits[3]), None)
    true = [3 if week < tables.FOURTH else 4 for week in range(len(along))]
    extra = max(0, max(number - most for number, most in zip(numbers, true)))
    lost = sum(max(0, a - b) for a, b in zip(numbers, numbers[1:]))
    fibers = [table.fibers(table.cells[:, 3] == week, by_step=True)[0] for week in range(len(along))]
    mean = measures.mean_fiber(table.fibers()[0])
    shares = [measures.explained(patterns, week, mean) for patterns, week in zip(along, fibers)]
    final = np.mean(shares[-4:])
    begins = range(tables.FOURTH, (fourth if fourth is not None else tables.FOURTH) + 1)
    low = min(share / final for week, share in enumerate(shares) if week > 4 and week not in begins)
    return {"three": three, "fourth": fourth, "extra": extra, "lost": lost, "low": low}


def told_numbers(arena, lines, name):
    """--patterns N gives exactly N, or says why not."""
    table = arena.table("tickets")
    for number, get in ((4, 4), (8, 8), (12, 9)):
        result = ours.learn(table, None, 0, number)
        said = " ".join(result["said"].split())[:160].replace("|", "/")
        sentence = number == get or (result["code"] != 0 and str(number) in result["said"])
        lines.add(f"{name} {number}", f"{len(result['patterns'])}, exit code {result['code']}: {said}",
                  f"{get}" + ("" if number == get else ", a sentence and an exit code of its own"),
                  len(result["patterns"]) == get and sentence)


CHECKS = [
    (["school", "enron", "tickets", "school_hour", "school_20min", "mail"], batch),
    (["tickets_week"], stream_of_tickets),
    (["tickets --patterns"], told_numbers),
]
