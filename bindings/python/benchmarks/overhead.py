#!/usr/bin/env python3
"""Overhead of Python: the time of `partial_fit` compared with that of the Rust call, on synthetic tensors of about 100 MB each.

    python overhead.py

The Rust side is crates/tensornoodl-data/examples/learn_step.rs, which cargo builds from this repository; the installed package should
have the same version. Both sides take fibers in memory, check them and learn. They run alternately, each in its own process, and the
smallest time of each tensor counts. Memory is the peak of `partial_fit` above the memory of the process before the input was made,
divided by the size of the input: 1 is the input alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def memory(key: str) -> int:
    """Return VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


def python(given: argparse.Namespace) -> dict[str, Any]:
    """Return for each tensor the seconds of partial_fit, the bytes of its fibers, and the peak memory divided by these bytes."""
    import tensornoodl as tn

    planted = tn.Planted(
        features=given.features, patterns=given.patterns, rows=given.rows, cols=given.cols, alpha=given.alpha, beta=given.alpha,
        seed=given.seed,
    )  # fmt: skip
    model = tn.TensorNOODL(init=planted.start(), n_jobs=given.threads)
    before = memory("VmRSS")
    seconds, sizes, peaks = [], [], []
    for step in range(1, given.steps + 1):
        tensor = planted.tensor(step)
        fibers, places = tensor.fibers, tensor.places
        del tensor
        Path("/proc/self/clear_refs").write_text("5")
        begin = time.perf_counter()
        model.partial_fit(tn.from_fibers(fibers, places, (given.rows, given.cols)))
        seconds.append(time.perf_counter() - begin)
        peaks.append((memory("VmHWM") - before) / fibers.nbytes)
        sizes.append(fibers.nbytes)
        del fibers, places
    return {"seconds": seconds, "bytes": sizes, "peaks": peaks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--patterns", type=int, default=250)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--cols", type=int, default=300)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(python(given)))
        return

    build = ["cargo", "build", "--release", "--quiet", "-p", "tensornoodl-data", "--example", "learn_step"]
    subprocess.run(build, cwd=ROOT, check=True)
    plan = [given.features, given.patterns, given.rows, given.cols, given.alpha, given.seed, given.steps]
    rust = ["cargo", "run", *build[2:], "--", *map(str, plan)]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(given.threads)}
    answers, times = [], []
    for _ in range(given.repeats):
        child = subprocess.run([sys.executable, *sys.argv, "--child"], capture_output=True, text=True, check=True)
        answers.append(json.loads(child.stdout))
        done = subprocess.run(rust, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        times.append([[float(part) for part in line.split()] for line in done.stdout.splitlines()])

    least = [min(at) for at in zip(*(answer["seconds"] for answer in answers))]
    base = [min(sum(parts) for parts in at) for at in zip(*times)]
    check = [min(parts[0] for parts in at) for at in zip(*times)]
    print("| tensor | input (MB) | partial_fit (ms) | Rust (ms) | of which checks | ratio | peak memory / input |")
    print("| --- " * 7 + "|")
    rows = [(str(at + 1), f"{size / 1e6:.1f}", least[at], base[at], check[at]) for at, size in enumerate(answers[0]["bytes"])]
    for at, (name, size, *parts) in enumerate([*rows, ("all", "", sum(least), sum(base), sum(check))]):
        peak = max(max(answer["peaks"][at : at + 1] or answer["peaks"]) for answer in answers)
        cells = [name, size, *(f"{1e3 * part:.1f}" for part in parts), f"{parts[0] / parts[1]:.3f}", f"{peak:.2f}"]
        print(f"| {' | '.join(cells)} |")
    record = {"type": "overhead", "plan": plan, "threads": given.threads, "python": answers, "rust_seconds": times}
    print(json.dumps(record), file=sys.stderr)


if __name__ == "__main__":
    main()
