"""Fluorescence of amino acids: a dense tensor of samples x emission x excitation with exactly three components. The
first three samples are pure, so the spectra of the components are known."""
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

import measures
import ours
import tables
from runner import MINE, TOLD, attempt, write

COMPONENTS = 3
ORIENTATIONS = ["sample", "emission", "excitation"]
PEERS = ["NMF-KL", "MiniBatchDictionaryLearning", "NN-PARAFAC", "CP-APR"]


def load():
    """Returns for each orientation the array (features first) and the known patterns (3 x n)."""
    file = np.load(tables.data("aminoacids.npz"))
    array = file["X"]
    pure = [np.linalg.svd(array[sample], full_matrices=False) for sample in range(COMPONENTS)]
    emission = np.abs([u[:, 0] for u, _, _ in pure])
    excitation = np.abs([v[0] for _, _, v in pure])
    return {
        "sample": (array, file["concentrations"].T),
        "emission": (array.transpose(1, 0, 2), emission),
        "excitation": (array.transpose(2, 0, 1), excitation),
    }


def learn(array, seed, patterns=None, extra=()):
    """Learns from an array with our program."""
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / "array.npy", Path(folder) / "model.safetensors"
        np.save(file, np.ascontiguousarray(array))
        told = ["--patterns", patterns] if patterns else []
        said = ours.run(["learn", file, "--seed", seed, "--threads", 1, "-q", *told, *extra, "-o", model])
        ours.expect(said, model)
        found, _ = ours.load_model(model)
    return {"patterns": found, "cpu": said[3], "memory": said[4], "code": said[2], "said": said[0] + said[1]}


def fit(arena, orientation, array, method, seed):
    """Returns the patterns of a method; peers are told that there are three, and get negative values as zeros."""
    if method in MINE:
        return attempt(learn, array, seed, COMPONENTS if method == TOLD else None, MINE[method])
    features, rows, cols = array.shape
    fibers = sparse.csr_matrix(np.clip(array, 0, None).reshape(features, -1).T)
    places = np.array([(row, col) for row in range(rows) for col in range(cols)])
    job = {"method": f"batch {method}", "m": COMPONENTS, "seed": seed, "shape": array.shape}
    return arena.peers.run(job | {"fibers": fibers, "places": places}, ["aminoacids", orientation])


def compare(arena, methods, seeds, out):
    """Returns a table of the smallest cosine with the pure spectra, for each orientation."""
    lines = ["\n### aminoacids\n", "Smallest cosine with a pure spectrum (number of patterns), CPU seconds.\n"]
    lines.append("| method | " + " | ".join(ORIENTATIONS) + " |")
    lines.append("| --- |" + " --- |" * len(ORIENTATIONS))
    data = load()
    for method in [method for method in methods if method in MINE or method in PEERS]:
        cells = []
        for orientation, (array, pure) in data.items():
            results = [fit(arena, orientation, array, method, seed) for seed in range(min(seeds, 2))]
            broken = [result["failed"] for result in results if "failed" in result]
            if broken:
                cells.append(f"failed: {broken[0]}")
                write(out, {"table": f"aminoacids {orientation}", "method": method, "failed": broken[0]})
                continue
            found = [measures.matched(result["patterns"], pure) for result in results]
            numbers = [len(result["patterns"]) for result in results]
            cpu = np.mean([result["cpu"] for result in results])
            cells.append(f"{np.min(found):.4f} ({', '.join(map(str, dict.fromkeys(numbers)))}), {cpu:.2f} s")
            for seed, (cosines, number) in enumerate(zip(found, numbers)):
                write(out, {"table": f"aminoacids {orientation}", "method": method, "seed": seed, "cpu": cpu,
                            "patterns": number, "cosines": cosines.tolist()})
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
