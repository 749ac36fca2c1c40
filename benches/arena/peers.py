"""Other methods, each run in a process of its own, which is forked after the imports: CPU time and memory of the
imports do not count. Results are kept in a file, because they do not depend on our program."""
import base64
import hashlib
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from threading import Lock

import numpy as np
from scipy import sparse

HERE = Path(__file__).resolve().parent
VERSION = 2  # change it when a peer is called differently: results kept from before are then not used
LIMIT = 120  # seconds of CPU time for one fit


def nmf(fibers, m, seed, init="nndsvda"):
    from sklearn.decomposition import NMF

    model = NMF(m, init=init, solver="mu", beta_loss="kullback-leibler", max_iter=500, random_state=seed)
    model.fit(fibers)
    return model.components_


def nmf_kl(job):
    """NMF with the Kullback-Leibler divergence; the start of scikit-learn (nndsvda)."""
    return {"patterns": nmf(job["fibers"], job["m"], job["seed"])}


def nmf_kl_random(job):
    """NMF with the Kullback-Leibler divergence; random starts."""
    return {"patterns": nmf(job["fibers"], job["m"], job["seed"], "random")}


def minibatch_nmf(job, **more):
    from sklearn.decomposition import MiniBatchNMF

    return MiniBatchNMF(job["m"], init="random", beta_loss="kullback-leibler", random_state=job["seed"], **more)


def minibatch_nmf_kl(job):
    model = minibatch_nmf(job, max_iter=200, max_no_improvement=None)
    model.fit(job["fibers"])
    return {"patterns": model.components_}


def minibatch_nmf_kl_stream(job, forget=0.7):
    model = minibatch_nmf(job, batch_size=1 << 20, forget_factor=forget)
    along = []
    for step in job["steps"]:
        if step.shape[0]:
            model.partial_fit(step)
        along.append(model.components_.copy() if hasattr(model, "components_") else np.zeros((0, step.shape[1])))
    return {"along": along}


def minibatch_nmf_kl_kept_stream(job):
    """MiniBatchNMF that forgets nothing; scikit-learn's default forgets 30 % with each step."""
    return minibatch_nmf_kl_stream(job, 1.0)


def dictionary(job, **more):
    from sklearn.decomposition import MiniBatchDictionaryLearning

    return MiniBatchDictionaryLearning(
        job["m"], alpha=1, fit_algorithm="cd", positive_dict=True, positive_code=True, random_state=job["seed"], **more
    )


def dictionary_learning(job):
    model = dictionary(job, max_iter=100)
    model.fit(job["fibers"].toarray())
    return {"patterns": model.components_}


def dictionary_learning_stream(job):
    model = dictionary(job)
    along = []
    for step in job["steps"]:
        if step.shape[0]:
            model.partial_fit(step.toarray())
        along.append(model.components_.copy() if hasattr(model, "components_") else np.zeros((0, step.shape[1])))
    return {"along": along}


def nn_parafac(job):
    import tensorly
    from tensorly.decomposition import non_negative_parafac_hals

    tensor = tensorly.tensor(dense(job))
    cp = non_negative_parafac_hals(tensor, job["m"], n_iter_max=100, init="random", random_state=job["seed"])
    patterns, rows, cols = cp.factors
    return {"patterns": patterns.T * scale(rows, cols)[:, None], "rows": rows.T * scale(patterns, cols)[:, None]}


def cp_apr(job):
    import pyttb

    fibers, places = job["fibers"].tocoo(), job["places"]
    indices = np.column_stack([fibers.col, places[fibers.row, 0], places[fibers.row, 1]]).astype(int)
    shape = (fibers.shape[1], *job["shape"][1:3])
    tensor = pyttb.sptensor(indices, fibers.data[:, None].copy(), shape)
    np.random.seed(job["seed"])
    model, _, _ = pyttb.cp_apr(tensor, job["m"], algorithm="mu", maxiters=200, printitn=0)
    patterns, rows, cols = (np.asarray(factor) for factor in model.factor_matrices)
    mass = np.asarray(model.weights) * scale(rows, cols)
    return {"patterns": patterns.T * mass[:, None], "rows": rows.T * mass[:, None]}


def scale(one, other):
    """Returns the sums of the columns of two factors, multiplied."""
    return np.abs(one).sum(0) * np.abs(other).sum(0)


def dense(job):
    """Returns the tensor features x rows x cols."""
    fibers, places = job["fibers"].tocoo(), job["places"]
    tensor = np.zeros((fibers.shape[1], *job["shape"][1:3]))
    tensor[fibers.col, places[fibers.row, 0], places[fibers.row, 1]] = fibers.data
    return tensor


def spectral(job):
    from sklearn.cluster import SpectralClustering

    graph = np.log1p(job["graph"]) + 1e-6
    model = SpectralClustering(job["m"], affinity="precomputed", random_state=job["seed"])
    return {"groups": model.fit_predict(graph)}


def louvain(job):
    import networkx

    graph = networkx.from_numpy_array(job["graph"])
    groups = np.zeros(len(job["graph"]), int)
    for number, members in enumerate(networkx.community.louvain_communities(graph, seed=job["seed"])):
        groups[list(members)] = number
    return {"groups": groups}


def gocpt(job, online):
    """The stream as features x places x steps: the class CPStream of GOCPT takes three axes and one slice at a time.
    The first tenth of the stream is the base; CPU time excludes the fitness that the classes compute."""
    from GOCPT import utils, otf

    slices = [np.zeros((job["shape"][0], job["all_places"])) for _ in job["steps"]]
    for matrix, step, places in zip(slices, job["steps"], job["step_places"]):
        matrix[:, places] = step.toarray().T
    np.random.seed(job["seed"])
    base = max(2, len(slices) // 10)
    first = np.stack(slices[:base], axis=2)
    factors = otf.cpd(first, job["m"], 50)
    along = [np.zeros((0, job["shape"][0]))] * (base - 1) + [factors[0].T.copy()]
    if online:
        sums = [utils.get_lhs_rhs_from_tensor(first, factors, axis) for axis in range(2)]
        left, right = [pair[0] for pair in sums] + [None], [pair[1] for pair in sums] + [None]
    else:
        times = factors[2]
        fading = 0.99 ** np.arange(len(times))[::-1]
        gram = np.einsum("kr,km,k->rm", times, times, fading)
    for matrix in slices[base:]:
        if online:
            factors, right, left, _ = utils.OnlineCPD_update(matrix[:, :, None], factors, right, left)
        else:
            factors, gram, _ = utils.CPStream_update(matrix[:, :, None], factors, gram, mu=0.99)
        along.append(factors[0].T.copy())
    return {"along": along}


def online_cpd_stream(job):
    return gocpt(job, True)


def cpstream_stream(job):
    return gocpt(job, False)


BATCH = {
    "NMF-KL": nmf_kl,
    "NMF-KL random": nmf_kl_random,
    "MiniBatchNMF-KL": minibatch_nmf_kl,
    "MiniBatchDictionaryLearning": dictionary_learning,
    "NN-PARAFAC": nn_parafac,
    "CP-APR": cp_apr,
}
GROUPS = {"spectral": spectral, "Louvain": louvain}
STREAM = {
    "MiniBatchNMF-KL": minibatch_nmf_kl_stream,
    "MiniBatchNMF-KL kept": minibatch_nmf_kl_kept_stream,
    "MiniBatchDictionaryLearning": dictionary_learning_stream,
    "OnlineCPD": online_cpd_stream,
    "CPStream": cpstream_stream,
}


def memory(name):
    """Returns a line of /proc/self/status in MB."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def small(method):
    """Returns a tiny job. It makes a method load and touch all it needs, which then counts neither as its time nor
    as its memory."""
    rng = np.random.default_rng(0)
    fibers = sparse.csr_matrix(rng.poisson(3.0, (24, 8)).astype(float))
    places = np.array([(row, col) for row in range(6) for col in range(4)])
    steps = {"steps": [fibers] * 3, "step_places": [np.arange(24)] * 3, "all_places": 24}
    graph = rng.poisson(3.0, (12, 12)).astype(float)
    of = {"fibers": fibers, "places": places, "shape": (8, 6, 4, 3), "graph": graph + graph.T, **steps}
    return {"method": method, "m": 2, "seed": 0, **of}


def serve(pipe):
    """Runs one job in this process and sends the result. Its CPU time and memory begin after a tiny job."""
    sys.stdout = open(os.devnull, "w")
    sys.stderr = open(os.devnull, "w")
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    try:
        method = pipe.recv()
        METHODS[method](small(method))
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # forgets the peak of memory so far
        base = memory("VmRSS")
        job = pipe.recv()
        begun = cpu()
        result = METHODS[method](job)
        result.update(cpu=cpu() - begun, above=memory("VmHWM") - base)
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"[:300]}
    pipe.send(result)


def alone(method):
    """Prints CPU seconds and memory of a process that imports what a method needs and does a tiny job."""
    METHODS[method](small(method))
    print(json.dumps({"import_cpu": cpu(), "import_memory": memory("VmHWM")}))


METHODS = {f"batch {name}": call for name, call in BATCH.items()}
METHODS |= {f"groups {name}": call for name, call in GROUPS.items()}
METHODS |= {f"stream {name}": call for name, call in STREAM.items()}


class Peers:
    """Runs peers and keeps their results in a file of JSON lines."""

    def __init__(self, path):
        self.path = Path(path)
        self.kept, self.lock = {}, Lock()
        self.context = multiprocessing.get_context("forkserver")
        os.environ["PYTHONPATH"] = str(HERE)  # Python 3.11 does not tell the server where modules are
        self.context.set_forkserver_preload(["preload"])
        if self.path.exists():
            with open(self.path) as file:
                for line in file:
                    record = json.loads(line)
                    self.kept[record["key"]] = record["result"]

    def run(self, job, identity):
        """Returns the result of a job; `identity` is what it depends on."""
        method = job["method"]
        base = self.keep([VERSION, method], lambda: self.imports(method))
        result = self.keep([VERSION, method, job["m"], job["seed"], identity], lambda: self.start(job))
        if "above" in result:
            result["memory"] = result["above"] + base["import_memory"]
        return result

    def keep(self, what, call):
        """Returns what was kept, or else calls and keeps."""
        text = json.dumps(what)
        key = hashlib.sha256(text.encode()).hexdigest()[:24]
        if key not in self.kept:
            self.kept[key] = {name: pack(value) for name, value in call().items()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.lock, open(self.path, "a") as file:
                file.write(json.dumps({"key": key, "what": text, "result": self.kept[key]}) + "\n")
        return {name: unpack(value) for name, value in self.kept[key].items()}

    def imports(self, method):
        code = f"import peers; peers.alone({method!r})"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, cwd=HERE)
        return json.loads(done.stdout.splitlines()[-1])

    def start(self, job):
        here, there = self.context.Pipe()
        child = self.context.Process(target=serve, args=(there,))
        child.start()
        there.close()
        try:
            here.send(job["method"])
            here.send(job)
            result = here.recv()
        except (EOFError, ConnectionError):
            result = {"failed": f"stopped after {LIMIT} s of CPU time, or out of memory"}
        child.join()
        return result


def pack(value):
    """Arrays as text, for JSON."""
    if isinstance(value, np.ndarray):
        value = value.astype(np.float32)
        return {"shape": value.shape, "data": base64.b64encode(value.tobytes()).decode()}
    if isinstance(value, list):
        return [pack(one) for one in value]
    return value


def unpack(value):
    if isinstance(value, dict) and "data" in value:
        return np.frombuffer(base64.b64decode(value["data"]), np.float32).reshape(value["shape"]).astype(float)
    if isinstance(value, list):
        return [unpack(one) for one in value]
    return value
