"""The program noodl as one of the methods."""
import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
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


def plain(arguments):
    """Runs the program without measuring it. Returns its exit code."""
    return subprocess.run([noodl(), *map(str, arguments)], capture_output=True).returncode


def load_model(path):
    """Returns the patterns (m x n) of a model file and the labels of its features."""
    with safe_open(path, "numpy") as file:
        card = json.loads(file.metadata()["tensornoodl"])
        labels = card["features"] if card["format"] < 3 else texts(file, "features")
        return file.get_tensor("patterns"), labels


def texts(file, axis):
    """Returns labels that are stored as tensors: UTF-8 bytes, and where each label ends."""
    text, ends = (file.get_tensor(f"labels.{axis}.{name}") for name in ("text", "end"))
    return [text[a:b].tobytes().decode() for a, b in zip([0, *ends[:-1]], ends)]


def load_groups(path):
    """Returns the group of each row, by label: the block of a pattern in which the row has the largest mass.

    The mass of row j in a block is |B_j| times the sum of |C_k|, so it does not depend on how B and C are scaled."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.csv"
        done = run(["export", path, "-o", file])
        if done[2] != 0:
            raise Failed(f"export: exit code {done[2]}: {done[1].strip()[-300:]}")
        with open(file, newline="") as lines:
            lines = [line for line in csv.DictReader(lines) if line["of"] in ("row", "col")]
    total, rows = Counter(), []
    for line in lines:
        block = (line["pattern"], line["block"])
        if line["of"] == "col":
            total[line["step"], block] += abs(float(line["value"]))
        else:
            rows.append((line["label"], line["step"], block, abs(float(line["value"]))))
    mass = Counter()
    for label, step, block, value in rows:
        mass[label, block] += value * total[step, block]
    best = {}
    for (label, block), value in mass.items():
        if value > 0 and value > best.get(label, (0.0,))[0]:
            best[label] = (value, block)
    return {label: block for label, (_, block) in best.items()}


def on_features(patterns, labels, features):
    """Returns patterns over the features of a table; features that the model does not know are 0."""
    index = {label: place for place, label in enumerate(features)}
    full = np.zeros((len(patterns), len(features)))
    if len(patterns):
        full[:, [index[label] for label in labels]] = patterns
    return full


def arguments(seed, patterns, extra=()):
    """Returns the options of learn that all tables share."""
    told = ["--patterns", patterns] if patterns else []
    return [*AXES, "--seed", seed, "--threads", 1, "-q", *told, *extra]


def learn(table, chosen, seed, patterns=None, extra=()):
    """Learns from the chosen cells of a table as one tensor. Returns a result as a peer does, and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / "table.csv", Path(folder) / "model.safetensors"
        table.write(file, chosen)
        said = run(["learn", file, *arguments(seed, patterns, extra), "-o", model])
        expect(said, model)
        result = {"patterns": on_features(*load_model(model), table.axes[0])}
        if table.grouped == "row":
            result["members"] = load_groups(model)
        # The time to read the table: peers get their data in memory.
        result["reading"] = run(["stats", file, *AXES])[3]
    return result | {"cpu": said[3], "memory": said[4], "code": said[2], "said": said[0] + said[1]}


def expect(said, model):
    """Fails if a run wrote no model."""
    if not model.exists():
        raise Failed(f"exit code {said[2]}: {said[1].strip()[-300:]}")


def follow(table, seed, patterns=None, ends=(), extra=()):
    """Learns a stream. Returns the patterns after each number of steps of `ends` and after all steps, and the records
    of the steps. CPU seconds and memory are those of one run over the whole stream."""
    ends = sorted({*ends, table.shape[3]})
    given = arguments(seed, patterns, [*extra, "--step", "step"])
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / "table.csv", Path(folder) / "model.safetensors"
        table.write(file)
        whole = run(["learn", file, *given, "--json", "-o", model])
        expect(whole, model)
        reading = run(["stats", file, *AXES, "--step", "step"])[3]
        lines = [json.loads(line) for line in whole[0].splitlines() if line.startswith("{")]
        final = on_features(*load_model(model), table.axes[0])
        found, done, resume = [], 0, True
        model = Path(folder) / "part.safetensors"
        for end in ends[:-1]:
            # The table grows and the run continues. If the program refuses that, it learns the longer table anew.
            table.write(file, between(table, done, end), append=done > 0)
            resume = resume and plain(["learn", file, *given, "-o", model, "--resume"]) == 0
            if not resume:
                table.write(file, between(table, 0, end))
                model.unlink(missing_ok=True)
                plain(["learn", file, *given, "-o", model])
            known = load_model(model) if model.exists() else (np.zeros((0, 0)), [])
            found.append(on_features(*known, table.axes[0]))
            done = end
    return {
        "patterns": final, "along": [*found, final], "ends": ends, "cpu": whole[3], "memory": whole[4],
        "reading": reading, "records": [line["record"] for line in lines if line.get("type") == "step"],
        "code": whole[2], "said": whole[1],
    }


def between(table, begin, end):
    """Returns which cells are in the steps from begin to end (excluded)."""
    return (table.cells[:, 3] >= begin) & (table.cells[:, 3] < end)
