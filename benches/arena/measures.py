"""The measures of the arena. One encoder serves all methods, so that only their patterns differ."""
import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score

FOLDS = 10  # each cell of a fiber, zeros included, is hidden once: a tenth of the cells at a time
SMOOTH = 0.01  # share of the mean fiber in each pattern: no method may call an event impossible
FLOOR = 0.1  # events of the mean fiber that are expected at each place, even if it shows none
ITERATIONS = 200  # EM iterations of a code, at most


def mean_fiber(fibers):
    """Returns the mean fiber, scaled to sum 1; half an event in each feature keeps it positive."""
    total = np.asarray(fibers.sum(0)).ravel() + 0.5
    return total / total.sum()


def distributions(patterns, mean):
    """Returns patterns (m x n) as positive distributions over the features, mixed with a little of the mean."""
    patterns = np.asarray(patterns, float)
    patterns = patterns * np.where(patterns.sum(1) < 0, -1, 1)[:, None]
    patterns = np.clip(patterns, 0, None)
    patterns = patterns[patterns.sum(1) > 0]
    if len(patterns) == 0:
        patterns = mean[None]
    patterns = patterns / patterns.sum(1, keepdims=True)
    return (1 - SMOOTH) * patterns + SMOOTH * mean


def encode(patterns, mean, fibers, hidden=None):
    """Returns the non-negative codes (p x m) of fibers (p x n, sparse) with the largest Poisson likelihood, by EM.

    Cells in hidden (p x n, 0 or 1) are missing, not zero. The rate of a cell is FLOOR mean + codes patterns."""
    seen = sparse.csr_matrix(fibers if hidden is None else fibers - fibers.multiply(hidden))
    seen.eliminate_zeros()
    share = np.ones((fibers.shape[0], len(patterns)))
    if hidden is not None:
        share = np.maximum(share - hidden @ patterns.T, 1e-12)
    codes = np.repeat(np.asarray(seen.sum(1)) / len(patterns), len(patterns), axis=1)
    fiber = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr))
    across = patterns.T[seen.indices]
    floor = FLOOR * mean[seen.indices]
    for _ in range(ITERATIONS):
        rate = np.einsum("em,em->e", codes[fiber], across) + floor
        ratio = sparse.csr_matrix((seen.data / rate, seen.indices, seen.indptr), shape=seen.shape)
        before, codes = codes, codes * (ratio @ patterns.T) / share
        if np.abs(codes - before).sum() <= 1e-5 * codes.sum():
            break
    return codes


def masks(shape, seed):
    """Returns FOLDS random masks (p x n), 1 where a cell is hidden; together they hide each cell once."""
    fold = np.random.default_rng([seed, 12]).integers(FOLDS, size=shape)
    for number in range(FOLDS):
        yield sparse.csr_matrix((fold == number).astype(float))


def held_out(patterns, train, test, seed):
    """Returns the Poisson deviance and the squared error of the cells of the test fibers, each predicted by a code that
    was fitted while the cell was hidden."""
    mean = mean_fiber(train)
    patterns = distributions(patterns, mean)
    deviance = error = 0.0
    for hidden in masks(test.shape, seed):
        codes = encode(patterns, mean, test, hidden)
        fiber, feature = hidden.nonzero()
        rate = np.einsum("em,em->e", codes[fiber], patterns.T[feature]) + FLOOR * mean[feature]
        counts = np.asarray(test[fiber, feature]).ravel()
        logs = np.where(counts > 0, counts * np.log(np.maximum(counts, 1) / rate), 0.0)
        deviance += 2 * (logs - counts + rate).sum()
        error += ((counts - rate) ** 2).sum()
    return deviance, error


def shares(patterns, train, test, seed):
    """Returns the held-out deviance and squared error as shares of those of the mean fiber as the only pattern."""
    deviance, error = held_out(patterns, train, test, seed)
    flat_deviance, flat_error = held_out(mean_fiber(train)[None], train, test, seed)
    return deviance / flat_deviance, error / flat_error


def geometric(values):
    """Returns the geometric mean, for shares and ratios."""
    return float(np.exp(np.mean(np.log(values))))


def explained(patterns, fibers, mean):
    """Returns the share of the deviance against the mean (with the total of each fiber) that patterns explain."""
    of = deviance_in_sample(distributions(patterns, mean), fibers, mean)
    flat = deviance_in_sample(mean[None], fibers, mean)
    return 1 - of / flat


def deviance_in_sample(patterns, fibers, mean):
    codes = encode(patterns, mean, fibers)
    fiber = np.repeat(np.arange(fibers.shape[0]), np.diff(fibers.indptr))
    rate = np.einsum("em,em->e", codes[fiber], patterns.T[fibers.indices]) + FLOOR * mean[fibers.indices]
    total = codes.sum() + FLOOR * fibers.shape[0]
    return 2 * ((fibers.data * np.log(fibers.data / rate)).sum() - fibers.data.sum() + total)


def nmi(labels, found, classes):
    """Returns the normalized mutual information of known and found groups; labels without a class are left out."""
    pairs = [(classes[label], group) for label, group in zip(labels, found) if label in classes]
    return normalized_mutual_info_score([known for known, _ in pairs], [group for _, group in pairs])


def feature_groups(patterns, fibers):
    """Returns for each feature the pattern with the largest weight: A_fi times the total mass of pattern i."""
    mean = mean_fiber(fibers)
    patterns = distributions(patterns, mean)
    mass = encode(patterns, mean, fibers).sum(0)
    return (patterns * mass[:, None]).argmax(0)


def row_groups(patterns, fibers, places, rows):
    """Returns for each row the pattern with the largest mass in its fibers."""
    mean = mean_fiber(fibers)
    codes = encode(distributions(patterns, mean), mean, fibers)
    mass = np.zeros((rows, codes.shape[1]))
    np.add.at(mass, places[:, 0], codes)
    return mass.argmax(1)


def cosines(one, other):
    """Returns the cosines of the patterns of two dictionaries (m x n each)."""
    unit = lambda rows: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return unit(np.asarray(one, float)) @ unit(np.asarray(other, float)).T


def agreement(one, other):
    """Returns the mean cosine of each pattern with the best one of the other dictionary, both ways."""
    if len(one) == 0 or len(other) == 0:
        return 0.0
    table = np.abs(cosines(one, other))
    return (table.max(0).mean() + table.max(1).mean()) / 2


def matched(found, planted):
    """Returns for each planted pattern the cosine of the found pattern that is matched with it one to one."""
    if len(found) == 0:
        return np.zeros(len(planted))
    table = np.abs(cosines(found, planted))
    best = np.zeros(len(planted))
    for i, j in zip(*linear_sum_assignment(-table)):
        best[j] = table[i, j]
    return best
