#!/usr/bin/env python3
"""Comparison of TensorNOODL with other libraries, on the same synthetic stream and from the same start.

    python compare.py                        two streams, without noise and with it; under four minutes on two cores
    python compare.py --patterns 150 --alpha 0.1 --noises 0
    python compare.py --wide --output runs   every setting of methods.py, and all records

Each run has its own process. Settings are tried on one thread. The table shows, for each method, the setting with the smallest
error of A (among settings within 5 % of it, the fastest), so methods are tuned with knowledge of the truth. If a method ended in
time, this setting also runs on all cores, and the faster run counts. Times are those of the method alone. A short run is repeated
until one second is spent, and the smallest time of each tensor counts. A run that exceeds its limit of seconds ends early, and its
row says after which tensor.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from methods import METHODS, Array, Method

OURS = "tensornoodl"
# Errors below this are rounding errors, and count as equal.
FLOOR = 1e-13
# An error reaches a target if it is within this factor of it.
NEAR = 1.05
PACKAGES = ["tensornoodl", "numpy", "scipy", "scikit-learn", "spams-bin", "spams", "tensorly", "sparse", "numba", "pyttb"]
Record = dict[str, Any]


def match(found: Array, truth: Array) -> tuple[float, Any, Any]:
    """Return the relative Frobenius error of A up to order and sign, the order, and the signs."""
    from scipy.optimize import linear_sum_assignment

    found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-300)
    cosines = truth @ found.T
    rows, order = linear_sum_assignment(-np.abs(cosines))
    signs = np.where(cosines[rows, order] < 0, -1.0, 1.0)
    return float(np.linalg.norm(found[order] * signs[:, None] - truth) / np.linalg.norm(truth)), order, signs


def share_right(codes: Array, truth: Array) -> float:
    """Return the share of fibers whose codes have the true support and signs, at the best threshold."""
    active = truth != 0.0
    largest_false = np.where(active, 0.0, np.abs(codes)).max(axis=1)
    smallest_true = np.where(active, codes * np.sign(truth), np.inf).min(axis=1)
    thresholds = np.unique(np.append(largest_false, 0.0))[:, None]
    return float(((largest_false <= thresholds) & (thresholds < smallest_true)).mean(axis=1).max())


def memory(key: str) -> int:
    """Return VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


def stream(plan: Record, tensors: int) -> tuple[Array, Array, list[Any], list[Array]]:
    """Return A, A(0), the tensors and their codes."""
    import tensornoodl as tn

    planted = tn.Planted(**plan)
    steps = range(1, tensors + 1)
    codes = [planted.codes(t).to_scipy().toarray() for t in steps]
    return planted.patterns, planted.start(), [planted.tensor(t) for t in steps], codes


def run(kind: type[Method], task: Record, limit: float) -> Record:
    """Run one method over one stream, in this process."""
    small = {"features": 20, "patterns": 5, "rows": 30, "cols": 30, "alpha": 0.2, "beta": 0.2, "seed": 0}
    truth, start, tensors, codes = stream(small, 2)
    method = kind(start, task["setting"], task["threads"])
    for tensor, known in zip(tensors, codes):  # warm up imports, compilers and thread pools
        method.learn(method.prepare(tensor, known))
    match(method.patterns, truth)

    truth, start, tensors, codes = stream(task["plan"], task["tensors"])
    before, peak = memory("VmRSS"), 0
    seconds: list[float] = []
    errors: list[float] = []
    share = 0.0
    cores: list[float] = []
    spent = 0.0
    while not seconds or (spent < 1.0 and len(seconds) == len(tensors)):
        first = not seconds
        method = kind(start, task["setting"], task["threads"])
        for at, (tensor, known) in enumerate(zip(tensors, codes)):
            Path("/proc/self/clear_refs").write_text("5")
            data = method.prepare(tensor, known)
            begin, busy = time.perf_counter(), time.process_time()
            method.learn(data)
            took, busy = time.perf_counter() - begin, time.process_time() - busy
            spent += took
            if not first:
                seconds[at], cores[at] = min(seconds[at], took), min(cores[at], busy)
                continue
            peak = max(peak, memory("VmHWM") - before)
            seconds.append(took)
            cores.append(busy)
            error, order, signs = match(method.patterns, truth)
            errors.append(error)
            if at + 1 == len(tensors) or sum(seconds) > limit:
                share = max(share_right(found[:, order] * signs, known) for found in method.codes(data))
                break
    return {**task, "seconds": seconds, "cpu_seconds": cores, "errors": errors, "right": share, "peak_bytes": peak}


def seconds_to_reach(record: Record, target: float) -> float:
    """Return the seconds until the error is at most the target, or infinity if it never is."""
    for at, error in enumerate(record["errors"]):
        if error <= target:
            return float(sum(record["seconds"][: at + 1]))
    return np.inf


def best_error(record: Record) -> float:
    """Return the smallest error of a run, or the floor of rounding errors if that is larger."""
    return max(float(min(record["errors"])), FLOOR)


def choose(records: list[Record]) -> Record:
    """Return the run with the smallest error of A; among runs within the factor NEAR of it, the fastest."""
    target = NEAR * min(best_error(record) for record in records)
    return min(records, key=lambda record: seconds_to_reach(record, target))


def attempt(task: Record, limit: float, good: list[Record], notes: list[str], out: TextIO) -> None:
    """Run a task in its own process; append its record to `good`, or a note about the failure to `notes`."""
    threads = str(task["threads"])
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    command = [sys.executable, __file__, "--one", json.dumps(task), "--limit", str(limit)]
    environment = {**os.environ, **dict.fromkeys(names, threads)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60 + 10 * limit)
    except subprocess.TimeoutExpired:
        notes.append(f"- {task['method']}: {json.dumps(task['setting'])} had not ended after {60 + 10 * limit:.0f} s.")
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or [error])[-1]
        notes.append(f"- {task['method']}: {json.dumps(task['setting'])} failed: {why}")
    else:
        good.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps({"type": "run", **good[-1]}), file=out, flush=True)


def versions() -> Record:
    """Return the versions of Python and of the installed packages."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def table(records: list[Record], tensors: int) -> list[str]:
    """Return a row for each method: its time to its best error, beside the time of TensorNOODL on one thread to that error."""
    ours = next((r for r in records if r["method"] == OURS and r["threads"] == 1), None)
    if ours is None:
        return ["No table: tensornoodl itself failed, see below."]
    at = [1, min(5, tensors), tensors]
    lines = [
        f"| method | threads | error of A after {', '.join(map(str, at))} tensors | codes right | ms per tensor (of cores) "
        "| s to its best error | ours, 1 thread | factor | peak memory (MB) |",
        "| --- " * 9 + "|",
    ]
    for r in records:
        errors = [f"{r['errors'][t - 1]:.1e}" for t in at if t <= len(r["errors"])]
        if len(r["errors"]) < tensors:
            errors.append(f"{r['errors'][-1]:.1e} (at {len(r['errors'])}, out of time)")
        target = NEAR * best_error(r)
        theirs, mine = seconds_to_reach(r, target), seconds_to_reach(ours, target)
        beside = [f"{theirs:.3g}", *([f"{mine:.3g}", f"{theirs / mine:.3g}"] if mine < np.inf else ["not reached", ""])]
        if r["method"].startswith((OURS, "oracle")):
            beside[1:] = ["", ""]
        share = "all" if r["right"] == 1.0 else f"{100 * r['right']:.1f} %"
        pace = " ".join(f"{1000 * np.median(r[name]):#.3g}".rstrip(".") for name in ("seconds", "cpu_seconds"))
        cells = [r["method"], r["threads"], ", ".join(errors), share, pace.replace(" ", " (") + ")", *beside]
        lines.append(f"| {' | '.join(map(str, cells))} | {r['peak_bytes'] / 1e6:.0f} |")
    return lines


def compare(given: argparse.Namespace, plan: Record, out: TextIO) -> None:
    """Run all methods on one stream, and print their table."""
    print(f"\n## Noise {plan['noise']:g}\n\n{given.tensors} tensors: {json.dumps(plan)}\n")
    chosen: list[Record] = []
    notes: list[str] = []
    for name, kind in METHODS.items():
        if name != OURS and not any(part.lower() in name.lower() for part in given.methods):
            continue
        missing = [package for package in kind.packages if importlib.util.find_spec(package) is None]
        if missing:
            notes.append(f"- {name} is skipped: {', '.join(missing)} is not installed.")
            continue
        good: list[Record] = []
        task = {"method": name, "plan": plan, "tensors": given.tensors}
        for setting in kind.choices(plan["noise"], given.wide):
            attempt({**task, "threads": 1, "setting": setting}, given.limit, good, notes, out)
        if not good:
            continue
        tried, first = len(good), choose(good)
        if given.threads > 1 and kind.packages and len(first["errors"]) == given.tensors:
            attempt({**task, "threads": given.threads, "setting": first["setting"]}, given.limit, good, notes, out)
        chosen += good if name == OURS else [choose([first, *good[tried:]])]
        notes.append(f"- {name}: {json.dumps(first['setting'])}, of {tried} tried.")
        print(f"{name}: done", file=sys.stderr, flush=True)
    print("\n".join([*table(chosen, given.tensors), "", "Settings:", "", *notes]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=100, help="n [100]")
    parser.add_argument("--patterns", type=int, default=50, help="m; CP methods need at most n patterns [50]")
    parser.add_argument("--rows", type=int, default=100, help="J [100]")
    parser.add_argument("--cols", type=int, default=100, help="K [100]")
    parser.add_argument("--alpha", type=float, default=0.05, help="share of nonzero entries of B and of C [0.05]")
    parser.add_argument("--tensors", type=int, default=20)
    parser.add_argument("--noises", type=float, nargs="+", default=[0.0, 0.3], help="noise levels, one stream for each [0 0.3]")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=7.0, help="seconds of learning after which a run ends early [7]")
    parser.add_argument("--methods", nargs="+", default=[""], help="run only methods whose names contain one of these texts")
    parser.add_argument("--wide", action="store_true", help="try every setting")
    parser.add_argument("--output", type=Path, help="folder for compare.jsonl")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        warnings.simplefilter("ignore")
        print(json.dumps(run(METHODS[given.one["method"]], given.one, given.limit)))
        return
    if importlib.util.find_spec(OURS) is None:
        sys.exit("tensornoodl is not installed, and is needed to generate the streams: pip install tensornoodl")
    begin = time.perf_counter()
    head = {"type": "machine", "command": shlex.join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]), "cores": os.cpu_count(), "versions": versions()}
    print(f"`{head['command']}`, {head['cores']} cores, {json.dumps(head['versions'])}")
    if given.output:
        given.output.mkdir(parents=True, exist_ok=True)
    with open(given.output / "compare.jsonl" if given.output else os.devnull, "w") as out:
        print(json.dumps(head), file=out, flush=True)
        for noise in given.noises:
            plan = {name: getattr(given, name) for name in ("features", "patterns", "rows", "cols", "alpha", "seed")}
            compare(given, {**plan, "beta": given.alpha, "noise": noise}, out)
    print(f"\nThe comparison took {time.perf_counter() - begin:.0f} s.")


if __name__ == "__main__":
    main()
