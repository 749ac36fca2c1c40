"""Tables of events that are made: streams with planted patterns, and tables like those that people have.

In a planted stream, each pattern has a few features, some rows and some cols. People are active to a different degree
(Zipf's law), a pattern may begin late or end early, and events may come in bursts (a negative binomial instead of a
Poisson count). The other tables are contacts of pupils, trips between stations, flights between airports, and requests
at a help desk.
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


def activity(rng, many, exponent):
    """Returns positive numbers with mean 1 that follow Zipf's law, in random order."""
    values = np.arange(1, many + 1) ** -exponent
    return rng.permutation(values / values.mean())


def contacts(seed, people=180, classes=5, days=5, slots=24):
    """Returns the class of each person, and contacts (person, other, slot of 20 minutes, count) in both directions.

    Two people of a class meet often if they are friends, people of different classes meet in breaks. A meeting lasts for
    a geometric number of readings, and it may go on in the next slot."""
    rng = np.random.default_rng([seed, 21])
    of = np.sort(rng.integers(classes, size=people))
    busy = activity(rng, people, 0.7)
    one, other = np.triu_indices(people, 1)
    same = of[one] == of[other]
    affinity = rng.gamma(0.25, 4.0, len(one)) * np.sqrt(busy[one] * busy[other])
    cells = {}
    for day in range(days):
        absent = rng.random(people) < 0.08
        open_now = np.zeros(len(one), bool)
        for slot in range(slots):
            break_time = slot % 6 == 5
            chance = affinity * np.where(same, 0.03, 0.008 if break_time else 0.0008)
            chance = np.where(open_now, 0.4, np.minimum(chance, 0.9)) * ~(absent[one] | absent[other])
            open_now = rng.random(len(one)) < chance
            for pair in np.nonzero(open_now)[0]:
                count = int(rng.geometric(0.15))
                for a, b in ((one[pair], other[pair]), (other[pair], one[pair])):
                    cells[a, b, day * slots + slot] = count
    return of, [(*key, count) for key, count in cells.items()]


def trips(seed, stations=60, weeks=40):
    """Returns the daily courses that trips follow (m x 24), and trips (hour, from, to, week, count): to work, home, and
    at leisure, between thin pairs of stations. The ride home has the morning's pairs in the other direction."""
    rng = np.random.default_rng([seed, 22])
    hours = np.arange(24)
    bell = lambda center, width: np.exp(-0.5 * ((hours - center) / width) ** 2)
    courses = np.array([bell(8, 0.8) + 0.03, bell(17.5, 1.2) + 0.03, bell(14, 3.0) + 0.2 * bell(21, 2)])
    courses /= courses.sum(1, keepdims=True)
    busy = activity(rng, stations, 0.9)
    home, work = busy * (rng.random(stations) < 0.6), busy * (rng.random(stations) < 0.4)
    pairs = rng.gamma(0.3, 1 / 0.3, (stations, stations))
    rates = np.array([np.outer(home, work) * pairs, np.outer(work, home) * pairs.T, np.outer(busy, busy) * pairs])
    rates *= (np.array([300.0, 300.0, 350.0]) / rates.sum((1, 2)))[:, None, None]
    cells = {}
    for week in range(weeks):
        season = 1 + 0.6 * np.sin(2 * np.pi * (week - 10) / 52)
        for course, rate in zip(courses, rates):
            counts = rng.poisson(rate * season)
            for start, end in zip(*np.nonzero(counts)):
                for hour in rng.choice(24, counts[start, end], p=course):
                    key = (hour, start, end, week)
                    cells[key] = cells.get(key, 0) + 1
    return courses, [(*key, count) for key, count in cells.items()]


def flights(seed, airports=120, regions=6, months=24):
    """Returns the region of each airport, and flights (to, from, month, count). A few hubs fly everywhere; the other
    airports fly to those of their region and to hubs, on a schedule that changes slowly."""
    rng = np.random.default_rng([seed, 23])
    of = rng.integers(regions, size=airports)
    busy = activity(rng, airports, 1.0)
    hub = np.isin(np.arange(airports), np.argsort(-busy)[:5])
    same = of[:, None] == of[None]
    served = rng.random((airports, airports)) < np.where(same, 0.4, 0.02) + 0.25 * (hub[:, None] | hub[None])
    served = np.triu(served, 1)
    rates = 3.0 * np.sqrt(np.outer(busy, busy)) * rng.gamma(1.0, 1.0, (airports, airports)) * served
    rates += rates.T
    cells = []
    for month in range(months):
        rates *= np.exp(0.05 * rng.standard_normal(rates.shape))
        counts = rng.poisson(rates * (1 + 0.2 * np.sin(2 * np.pi * month / 12)))
        cells += [(end, start, month, counts[start, end]) for start, end in zip(*np.nonzero(counts))]
    return of, cells


DESK_MIXES = [
    {0: 5, 1: 3, 2: 2},
    {3: 6, 4: 2, 2: 1},
    {5: 4, 6: 4, 7: 2, 8: 1},
    {9: 7, 10: 2, 0: 1},
    {11: 5, 12: 3, 13: 2, 4: 1},
]
DESK_CATEGORIES = 14
DESK_BEGINS = [0, 0, 0, 0, 22]  # the week in which each team begins


def desk(seed, weeks=44, agents=18, sites=9):
    """Returns the mixes of the teams (5 x 14), and requests (category, agent, site, week, count) at a help desk. Loads
    vary with the week (a negative binomial), one request in eight is noise, and the last team begins in week 22."""
    rng = np.random.default_rng([seed, 24])
    mixes = np.array([[mix.get(category, 0.0) for category in range(DESK_CATEGORIES)] for mix in DESK_MIXES])
    mixes /= mixes.sum(1, keepdims=True)
    busy = activity(rng, agents, 0.5)
    teams = [(rng.choice(agents, 5, replace=False), rng.choice(sites, 3, replace=False)) for _ in mixes]
    cells = {}
    for week in range(weeks):
        rows = []
        for mix, (members, places), begin in zip(mixes, teams, DESK_BEGINS):
            many = rng.negative_binomial(8, 8 / (8 + 45.0)) if week >= begin else 0
            chosen = rng.choice(members, many, p=busy[members] / busy[members].sum())
            rows += zip(rng.choice(DESK_CATEGORIES, many, p=mix), chosen, rng.choice(places, many))
        for _ in range(rng.poisson(28)):
            rows.append((rng.integers(DESK_CATEGORIES), rng.integers(agents), rng.integers(sites)))
        for row in rows:
            cells[(*row, week)] = cells.get((*row, week), 0) + 1
    return mixes, [(*key, count) for key, count in cells.items()]
