"""The program noodl as one of the methods."""
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from safetensors import safe_open

from tables import noodl

AXES = ["--feature", "feature", "--row", "row", "--col", "col"]
LIMIT = 100  # seconds of CPU time for one run


@cache
def options():
    """Returns the help text of learn; it tells which options this program knows."""
    return subprocess.run([noodl(), "learn", "--help"], capture_output=True, text=True).stdout


class Failed(Exception):
    """A run of the program failed; the message has its exit code and its last words."""


# A small process starts the program, because the peak memory of a child begins with that of its parent.
LAUNCHER = """
import json, os, resource, sys
child = os.fork()
if child == 0:
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]),) * 2)
    os.execv(sys.argv[3], sys.argv[3:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[2], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024], file)
"""


def run(arguments):
    """Runs the program. Returns its output, what it said on standard error, its exit code, the CPU seconds
    (user and system) and the peak memory in MB, which is never below the 8 MB of the process that starts it."""
    with tempfile.NamedTemporaryFile("r") as usage:
        start = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(LIMIT), usage.name, noodl()]
        done = subprocess.run([*start, *map(str, arguments)], capture_output=True, text=True)
        code, cpu, memory = json.load(usage)
    if cpu >= LIMIT - 1:
        raise Failed(f"stopped after {LIMIT} s of CPU time")
    return done.stdout, done.stderr, code, cpu, memory


def load_model(path):
    """Returns the patterns (m x n), the labels of the features, and the groups of a model file.

    A group is (pattern, {row: weight}, {col: weight})."""
    with safe_open(path, "numpy") as file:
        card = json.loads(file.metadata()["tensornoodl"])
        names = set(file.keys())
        labels = card.get("features")
        if labels is None:
            labels = texts(file, names, "features")
        patterns = file.get_tensor("patterns")
    return patterns, labels


def texts(file, names, axis):
    """Returns labels that are stored as tensors: UTF-8 bytes and the end of each label."""
    for stem in (f"labels.{axis}", axis):
        for end in ("ends", "end"):
            if {f"{stem}.bytes", f"{stem}.{end}"} <= names:
                raw = file.get_tensor(f"{stem}.bytes").tobytes()
                ends = file.get_tensor(f"{stem}.{end}").tolist()
                return [raw[a:b].decode() for a, b in zip([0, *ends], ends)]
    raise Failed(f"load_model knows no labels of {axis} in this file: {sorted(names)}")


def on_features(patterns, labels, features):
    """Returns patterns over the features of a table; features that the model does not know are 0."""
    index = {label: place for place, label in enumerate(features)}
    full = np.zeros((len(patterns), len(features)))
    if len(patterns):
        full[:, [index[label] for label in labels]] = patterns
    return full


def arguments(table, seed, patterns, extra=()):
    """Returns the options of learn for a table."""
    given = [*AXES, "--seed", seed, "--threads", 1, "-q", *extra]
    if patterns:
        given += ["--patterns", patterns]
    return given


def learn(table, chosen, seed, patterns=None, extra=()):
    """Learns from the chosen cells of a table as one tensor. Returns a result as peers.fit does."""
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / "table.csv", Path(folder) / "model.safetensors"
        table.write(file, chosen)
        said = run(["learn", file, *arguments(table, seed, patterns, extra), "-o", model])
        if said[2] != 0 and not model.exists():
            raise Failed(f"exit code {said[2]}: {said[1].strip()[-300:]}")
        found, labels = load_model(model)
        found = on_features(found, labels, table.axes[0])
    return {"patterns": found, "cpu": said[3], "memory": said[4], "code": said[2], "said": said[0] + said[1]}


def follow(table, seed, patterns=None, ends=None, extra=()):
    """Learns a stream. Returns a result as peers.follow does: the patterns after each step of `ends` (the number of
    steps seen), and the records of all steps. CPU seconds and memory are those of one run over the whole stream."""
    steps = table.shape[3]
    ends = sorted(set(ends or []) | {steps})
    given = arguments(table, seed, patterns, [*extra, "--step", "step"])
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / "table.csv", Path(folder) / "model.safetensors"
        table.write(file)
        whole = run(["learn", file, *given, "--json", "-o", model])
        if whole[2] != 0 and not model.exists():
            raise Failed(f"exit code {whole[2]}: {whole[1].strip()[-300:]}")
        lines = [json.loads(line) for line in whole[0].splitlines() if line.startswith("{")]
        records = [line["record"] for line in lines if line.get("type") == "step"]
        final = on_features(*load_model(model), table.axes[0])
        found, done, resume = [], 0, True
        model = Path(folder) / "part.safetensors"
        for end in ends[:-1]:
            # The table grows and the run continues; if the program refuses that, it begins anew.
            table.write(file, between(table, done, end), append=done > 0)
            part = run(["learn", file, *given, "-o", model, "--resume"]) if resume else None
            if part is None or part[2] != 0:
                resume = False
                table.write(file, between(table, 0, end))
                model.unlink(missing_ok=True)
                part = run(["learn", file, *given, "-o", model])
            if part[2] != 0 and not model.exists():
                found.append(np.zeros((0, table.shape[0])))
            else:
                found.append(on_features(*load_model(model), table.axes[0]))
            done = end
        found.append(final)
    return {
        "patterns": final, "along": found, "ends": ends, "records": records, "cpu": whole[3], "memory": whole[4],
        "resumed": resume, "code": whole[2], "said": whole[1],
    }


def between(table, begin, end):
    """Returns which cells are in the steps from begin to end (excluded)."""
    return (table.cells[:, 3] >= begin) & (table.cells[:, 3] < end)
