"""Streams of events with planted patterns.

Each pattern has a few features, some rows and some cols. People are active to a different degree (Zipf's law), a
pattern may begin late or end early, and events may come in bursts (a negative binomial instead of a Poisson count).
"""
from dataclasses import dataclass

import numpy as np


@dataclass
class Plan:
    """What is planted. Rates are events in a step."""

    features: int = 60
    rows: int = 40
    cols: int = 30
    steps: int = 40
    patterns: int = 8
    width: int = 12  # features of a pattern
    members: tuple = (8, 6)  # rows and cols of a pattern
    rate: float = 150.0  # events of a pattern in a step
    noise: float = 40.0  # events in a step that follow no pattern
    zipf: float = 0.8  # exponent of the activity of rows and cols
    burst: float = 0.0  # variance of the factor that multiplies the rate of a pattern at a place; 0 is Poisson
    late: int = 0  # so many patterns begin between a third and two thirds of the stream
    early: int = 0  # so many patterns end between a third and two thirds of the stream


PLANS = {
    "planted": Plan(),
    "planted_bursty": Plan(burst=4.0),
    "planted_change": Plan(late=3, early=2),
    "planted_thin": Plan(rate=40.0, noise=10.0, late=1),
}


def stream(plan, seed):
    """Returns the patterns (m x n, rows sum to 1), the steps in which each is active (first, end), and the cells
    (feature, row, col, step, count) of the stream."""
    rng = np.random.default_rng([seed, 20])
    patterns = np.zeros((plan.patterns, plan.features))
    for pattern in patterns:
        pattern[rng.choice(plan.features, plan.width, replace=False)] = rng.gamma(1.0, size=plan.width) + 0.1
    patterns /= patterns.sum(1, keepdims=True)

    def members(of, many):
        activity = np.arange(1, of + 1) ** -plan.zipf
        activity = activity[rng.permutation(of)]
        weights = np.zeros((plan.patterns, of))
        for row in weights:
            chosen = rng.choice(of, many, replace=False)
            row[chosen] = activity[chosen]
        return weights / weights.sum(1, keepdims=True)

    rows, cols = members(plan.rows, plan.members[0]), members(plan.cols, plan.members[1])
    third = plan.steps // 3
    spans = [[0, plan.steps] for _ in range(plan.patterns)]
    for i in range(plan.late):
        spans[i][0] = int(rng.integers(third, 2 * third))
    for i in range(plan.late, plan.late + plan.early):
        spans[i][1] = int(rng.integers(third, 2 * third))

    cells = {}
    for step in range(plan.steps):
        for i in range(plan.patterns):
            if not spans[i][0] <= step < spans[i][1]:
                continue
            rates = plan.rate * np.outer(rows[i], cols[i])
            if plan.burst > 0:
                rates = rates * rng.gamma(1 / plan.burst, plan.burst, size=rates.shape)
            counts = rng.poisson(rates)
            for row, col in zip(*np.nonzero(counts)):
                drawn = rng.multinomial(counts[row, col], patterns[i])
                for feature in np.nonzero(drawn)[0]:
                    key = (feature, row, col, step)
                    cells[key] = cells.get(key, 0) + drawn[feature]
        for _ in range(rng.poisson(plan.noise)):
            key = (rng.integers(plan.features), rng.integers(plan.rows), rng.integers(plan.cols), step)
            cells[key] = cells.get(key, 0) + 1
    cells = np.array([(*key, count) for key, count in cells.items()], dtype=np.int64)
    return patterns, spans, cells
