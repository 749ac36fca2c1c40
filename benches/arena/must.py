"""What must hold: each line has a figure, its threshold, and whether it passes."""
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import amino
import measures
import ours
import tables
from measures import geometric
from runner import BATCH, OURS, STREAMS, TOLD, say, write

SEEDS = range(5)
PEER, STREAM_PEERS = "NMF-KL", ["MiniBatchNMF-KL", "MiniBatchNMF-KL kept"]
NMI = {"school": 0.93, "school_hour": 0.9, "school_20min": 0.9, "school_slots": 0.85}
FOUND = 0.9  # a planted pattern is found if the cosine is at least this, as in `noodl demo`
# Steps of the stream of tickets: by when three patterns are there, and how long the fourth may take (mean, longest).
TICKETS = {"tickets_week": (4, 6, 10), "tickets_day": (42, 56, 84)}


class List:
    """The lines of the list."""

    def __init__(self, out):
        self.out, self.failed, self.count = out, 0, 0
        print("| what | figure | must be | |\n| --- | --- | --- | --- |", flush=True)

    def add(self, what, figure, rule, passed):
        self.failed += not passed
        self.count += 1
        print(f"| {what} | {figure} | {rule} | {'pass' if passed else '**FAIL**'} |", flush=True)
        write(self.out, {"must": what, "figure": str(figure), "rule": rule, "pass": bool(passed)})

    def note(self, what, text):
        print(f"| {what} | {text} | | |", flush=True)


def check(arena, only, jobs, out):
    """Prints the list. Returns 1 if a line fails."""
    lines, begun = List(out), time.time()
    with ThreadPoolExecutor(jobs) as pool:
        for name, call in CHECKS:
            if only and name not in only:
                continue
            say(f"{time.time() - begun:6.0f} s  {name}: {call.__doc__.splitlines()[0]}")
            try:
                call(arena, pool, lines, name)
            except tables.Missing as why:
                lines.note(name, f"skipped: {why}")
            except ours.Failed as why:
                lines.add(name, f"failed: {why}".replace("\n", " "), "no failure", False)
    print(f"\n{lines.failed} of {lines.count} lines fail; {time.time() - begun:.0f} s")
    return int(lines.failed > 0)


def records(pool, call, units):
    """Returns the records of several runs; a failure of our program ends the check."""
    done = list(pool.map(lambda unit: call(*unit), units))
    for record in done:
        if "failed" in record and record["method"] in (OURS, TOLD):
            raise ours.Failed(f"{record['method']}, seed {record['seed']}: {record['failed']}")
    return done


def column(found, key):
    return [record[key] for record in found if record.get(key) is not None]


def spread(values, digits=3):
    return f"{np.mean(values):.{digits}f} ({', '.join(f'{value:.{digits}f}' for value in values)})"


def batch(arena, pool, lines, name):
    """number of patterns, groups, held-out deviance, halves"""
    mine = records(pool, arena.batch, [(name, OURS, None, seed, ("all",)) for seed in SEEDS])
    numbers, found = column(mine, "patterns"), column(mine, "nmi")
    peer = records(pool, arena.batch, [(name, PEER, max(m, 1), seed, ("all",)) for seed, m in zip(SEEDS, numbers)])
    least, most = min(numbers), max(numbers)
    listed = ", ".join(map(str, numbers))
    if name == "school":
        lines.add(f"{name}: patterns, every seed", listed, "9 to 13", least >= 9 and most <= 13)
    elif name == "enron":
        lines.add(f"{name}: patterns, range over seeds", listed, "range at most 3", most - least <= 3)
    else:
        lines.note(f"{name}: patterns", listed)
    if name in NMI:
        lines.add(f"{name}: NMI, mean", spread(found), f"at least {NMI[name]}", np.mean(found) >= NMI[name])
    if name == "school_slots":
        inside = min(column(mine, "inside"))
        lines.add(f"{name}: children in a group", f"{inside:.0%}", "100%", inside == 1)
    if name == "enron":
        theirs = np.mean(column(peer, "nmi"))
        rule = f"at least {theirs + 0.03:.3f}, that is .03 above {PEER} told our number"
        lines.add(f"{name}: NMI, mean", spread(found), rule, np.mean(found) >= theirs + 0.03)
    if name == "mail":
        nine(lines, name, mine)
    splits = range(arena.splits(name))
    told = [(max(numbers[split % len(numbers)], 1), split, ("train", "halves")) for split in splits]
    mine = records(pool, arena.batch, [(name, TOLD, *unit) for unit in told])
    peer = records(pool, arena.batch, [(name, PEER, *unit) for unit in told])
    ratios = np.divide(column(mine, "deviance"), column(peer, "deviance"))
    lines.add(f"{name}: held-out deviance / {PEER}, both told our number", f"{geometric(ratios):.3f}", "at most 1.03",
              geometric(ratios) <= 1.03)
    halves, theirs = np.mean(column(mine, "halves")), np.mean(column(peer, "halves"))
    lines.add(f"{name}: agreement of halves", f"{halves:.3f}", f"at least {theirs:.3f} ({PEER})", halves >= theirs)
    costs(arena, pool, lines, name)


def costs(arena, pool, lines, name):
    """CPU seconds and memory, told the number"""
    known = arena.table(name).known
    [mine] = records(pool, arena.batch, [(name, TOLD, known, 0, ("all",))])
    spent = mine["cpu"] - mine["reading"]
    for peer, share in (("MiniBatchNMF-KL", 1.0), ("CP-APR", 0.1)):
        [theirs] = records(pool, arena.batch, [(name, peer, known, 0, ("all",))])
        if "failed" in theirs:
            lines.note(f"{name}: {peer}", theirs["failed"])
            continue
        lines.add(f"{name}: CPU time without reading / {peer}, both told {known}", f"{spent / theirs['cpu']:.2f}",
                  f"at most {share:g}", spent <= share * theirs["cpu"])
        lines.add(f"{name}: memory / {peer}", f"{mine['memory'] / theirs['memory']:.2f}", "at most 0.2",
                  mine["memory"] <= theirs["memory"] / 5)
    if name == "school_20min":
        [auto] = records(pool, arena.batch, [(name, OURS, None, 0, ("all",))])
        lines.add(f"{name}: CPU seconds from nothing", f"{auto['cpu']:.1f}", "under 5", auto["cpu"] < 5)


def nine(lines, name, mine):
    """Checks that all nine groups of the demo are found with at most ten patterns."""
    hits = [sum(cosine >= FOUND for cosine in record["planted"]) for record in mine]
    numbers = column(mine, "patterns")
    lines.add(f"{name}: groups found, patterns", ", ".join(f"{hit} with {m}" for hit, m in zip(hits, numbers)),
              "9 with at most 10, all seeds", min(hits) == 9 and max(numbers) <= 10)


def stream(arena, pool, lines, name):
    """the next steps at each tenth of a stream"""
    mine = records(pool, arena.stream, [(name, OURS, None, seed) for seed in SEEDS])
    numbers = column(mine, "patterns")
    lines.note(f"{name}: patterns at the end", ", ".join(map(str, numbers)))
    if name == "mail_month":
        nine(lines, name, mine)
    for peer in STREAM_PEERS:
        theirs = records(pool, arena.stream, [(name, peer, max(m, 1), seed) for seed, m in zip(SEEDS, numbers)])
        ratios = np.divide(column(mine, "deviances"), column(theirs, "deviances"))
        along = [geometric(values) for values in ratios.T]
        told = f"{peer} told our number"
        lines.add(f"{name}: deviance of the next steps / {told}", " ".join(f"{ratio:.2f}" for ratio in along),
                  "at most 1.03 at every tenth", max(along) <= 1.03)
        early, late = geometric(along[:3]), geometric(along[-3:])
        lines.add(f"{name}: that ratio, last three tenths and first three", f"{late:.3f}, {early:.3f}",
                  "does not rise (by more than .01)", late <= early + 0.01)
    known = arena.table(name).known
    [told] = records(pool, arena.stream, [(name, TOLD, known, 0)])
    [theirs] = records(pool, arena.stream, [(name, STREAM_PEERS[0], known, 0)])
    spent = told["cpu"] - told["reading"]
    lines.add(f"{name}: CPU time without reading / {STREAM_PEERS[0]}, both told {known}",
              f"{spent / theirs['cpu']:.2f}", "at most 1", spent <= theirs["cpu"])
    lines.add(f"{name}: memory / {STREAM_PEERS[0]}", f"{told['memory'] / theirs['memory']:.2f}", "at most 0.2",
              told["memory"] <= theirs["memory"] / 5)


def tickets(arena, pool, lines, name):
    """tickets as a stream, five tables with five seeds each"""
    by, mean, longest = TICKETS[name]
    runs = [(data, seed) for data in SEEDS for seed in SEEDS]
    if name == "tickets_day":
        runs = [(data, data) for data in SEEDS]
    units = [(arena.table(f"{name}:{data}" if data else name), seed, by) for data, seed in runs]
    done = list(pool.map(lambda unit: growth(*unit), units))
    many, unit = len(done), "week" if name == "tickets_week" else "day"
    ready = sum(one["three"] is not None and one["three"] <= by for one in done)
    lines.add(f"{name}: three patterns by {unit} {by}", f"{ready} of {many} runs", f"{many}", ready == many)
    delays = [one["delay"] for one in done if one["delay"] is not None]
    never = many - len(delays)
    figure = f"mean {np.mean(delays):.1f}, longest {max(delays)}, " if delays else ""
    lines.add(f"{name}: {unit}s until the fourth pattern", f"{figure}never in {never} runs",
              f"mean at most {mean}, longest {longest}",
              never == 0 and np.mean(delays) <= mean and max(delays) <= longest)
    lost = sum(one["lost"] for one in done)
    lines.add(f"{name}: patterns lost in {many} runs", lost, "0", lost == 0)
    extra = sum(one["extra"] for one in done)
    lines.add(f"{name}: spurious patterns in {many} runs", extra, "at most 1", extra <= 1)
    low = min(one["low"] for one in done)
    lines.add(f"{name}: lowest explained share after {unit} {by} / final", f"{low:.2f}", "at least 0.70", low >= 0.7)


def growth(table, seed, by):
    """Follows a stream of tickets; steps count from 0. The explained share is that of the deviance of a step (of the
    last seven days) against the mean of the year; its final value is the mean of the last 28 days."""
    days = 366 / table.shape[3]
    begin = int(tables.FOURTH_DAY // days)
    ends = range(1, table.shape[3]) if days > 6 else range(7, table.shape[3], 7)
    result = ours.follow(table, seed, ends=ends)
    along, steps = result["along"], [end - 1 for end in result["ends"]]
    hits = [measures.matched(patterns, table.planted) >= FOUND for patterns in along]
    three = next((step for step, hit in zip(steps, hits) if hit[:3].all()), None)
    fourth = next((step for step, hit in zip(steps, hits) if step >= begin and hit[3]), None)
    numbers = [len(patterns) for patterns in along]
    true = [3 if step < begin else 4 for step in steps]
    mean, shares = measures.mean_fiber(table.fibers()[0]), []
    for patterns, step in zip(along, steps):
        recent = ours.between(table, step + 1 - round(7 / days), step + 1)
        shares.append(measures.explained(patterns, table.fibers(recent)[0], mean))
    final = np.mean(shares[-4:])
    beginning = range(begin, (begin if fourth is None else fourth) + 1)
    return {
        "three": three,
        "delay": None if fourth is None else fourth - begin,
        "extra": max(0, max(number - most for number, most in zip(numbers, true))),
        "lost": sum(max(0, before - after) for before, after in zip(numbers, numbers[1:])),
        "low": min(share / final for share, step in zip(shares, steps) if step > by and step not in beginning),
    }


def told_numbers(arena, pool, lines, name):
    """--patterns N gives exactly N, or says why not"""
    table = arena.table("tickets")
    for number, get in ((4, 4), (8, 8), (12, 9)):
        result = ours.learn(table, None, 0, number)
        got, code = len(result["patterns"]), result["code"]
        said = " ".join(line for line in result["said"].splitlines() if "written to" not in line)
        rule = f"{get}" if number == get else f"{get}, a sentence with {number}, and an exit code of its own"
        own = number == get and code == 0 or number != get and code > 4 and str(number) in said
        lines.add(f"tickets --patterns {number}", f"{got}, exit code {code}: {said[:200]}".replace("|", "/"), rule,
                  got == get and own)


def aminoacids(arena, pool, lines, name):
    """pure spectra and the number of components"""
    data = amino.load()
    numbers = {of: len(amino.learn(array, 0)["patterns"]) for of, (array, _) in data.items()}
    right = sum(number == amino.COMPONENTS for number in numbers.values())
    lines.add("aminoacids: patterns", ", ".join(f"{number} ({of})" for of, number in numbers.items()),
              "3 in at least two orientations", right >= 2)
    polish = ["--polish"] if "--polish" in ours.options() else []
    for of in ("emission", "excitation", "sample"):
        array, pure = data[of]
        found = [measures.matched(amino.learn(array, seed, amino.COMPONENTS, polish)["patterns"], pure)
                 for seed in SEEDS]
        what = f"aminoacids, {of}: cosines, lowest of five seeds" + ("" if polish else " (no option --polish)")
        figure = ", ".join(f"{cosine:.4f}" for cosine in np.min(found, axis=0))
        if of == "sample":
            lines.note(f"{what} (concentrations)", figure)
        else:
            lines.add(what, figure, "at least 0.999", np.min(found) >= 0.999)


def same_bits(arena, pool, lines, name):
    """threads do not change the bits"""
    for table, step in (("tickets", []), ("tickets_week", ["--step", "step"])):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "table.csv"
            arena.table(table).write(file)
            found = []
            for threads in (1, 2, 4):
                model = Path(folder) / f"{threads}.safetensors"
                said = ours.run(["learn", file, *ours.AXES, *step, "--threads", threads, "-q", "-o", model])
                ours.expect(said, model)
                found.append(ours.load_model(model)[0].tobytes())
        lines.add(f"{table}: patterns with 1, 2 and 4 threads", f"{len(set(found))} different", "1",
                  len(set(found)) == 1)


def bad_values(arena, pool, lines, name):
    """values that are no counts"""
    if "--model" not in ours.options():
        lines.add(name, "no option --model", "a clear error", False)
        return
    for what, value in (("NaN", np.nan), ("negative", -1.0), ("fractional", 0.5)):
        array = np.random.default_rng(0).poisson(2.0, (6, 8, 8)).astype(float)
        array[1, 2, 3] = value
        with tempfile.TemporaryDirectory() as folder:
            file, model = Path(folder) / "array.npy", Path(folder) / "model.safetensors"
            np.save(file, array)
            said = ours.run(["learn", file, "--model", "counts", "-q", "-o", model])
            clear = said[2] == 3 and "array.npy" in said[1] and "panicked" not in said[1] and not model.exists()
        lines.add(f"--model counts with a {what} value", f"exit code {said[2]}: {' '.join(said[1].split())[:200]}",
                  "exit code 3, the file is named, no model is written", clear)


CHECKS = [
    *((name, batch) for name in [*BATCH, "planted", "planted_bursty"]),
    *((name, tickets) for name in TICKETS),
    *((name, stream) for name in STREAMS),
    ("aminoacids", aminoacids),
    ("told", told_numbers),
    ("threads", same_bits),
    ("values", bad_values),
]
NAMES = list(dict.fromkeys(name for name, _ in CHECKS))
