"""The tables of the arena: cells (feature, row, col, step, count) with what is known about their groups.

Real data is read from the folder that the environment variable NOODL_DATA names.
"""
import csv
import datetime
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import sparse

import generators


class Missing(Exception):
    """The data of a table is not there; the message says what is missing."""


@dataclass
class Table:
    """Counts of events and what is known about them."""

    name: str
    axes: list  # labels of features, rows, cols and steps; one step if the table is no stream
    cells: np.ndarray  # (feature, row, col, step, count)
    known: int  # the number of patterns that peers are told
    classes: dict = field(default_factory=dict)  # label -> known group
    grouped: str = ""  # the axis that has groups: "feature" or "row"
    planted: np.ndarray = None  # planted patterns, m x n
    graph: np.ndarray = None  # people x people, for methods that group a graph; labels as the grouped axis
    digest: str = ""

    def __post_init__(self):
        text = repr(self.axes).encode() + np.ascontiguousarray(self.cells).tobytes()
        self.digest = hashlib.sha256(text).hexdigest()[:16]

    @property
    def streams(self):
        return len(self.axes[3]) > 1

    @property
    def shape(self):
        return tuple(len(axis) for axis in self.axes)

    def places(self, by_step=False):
        """Returns the distinct places (row, col), or (row, col, step), that have events."""
        return np.unique(self.cells[:, [1, 2, 3] if by_step else [1, 2]], axis=0)

    def where(self, places):
        """Returns which cells are at these places (row, col)."""
        cols = self.shape[2]
        return np.isin(self.cells[:, 1] * cols + self.cells[:, 2], places[:, 0] * cols + places[:, 1])

    def fibers(self, chosen=None, by_step=False):
        """Returns the fibers of the chosen cells as rows of a sparse matrix (p x n), and their places."""
        cells = self.cells if chosen is None else self.cells[chosen]
        places, fiber = np.unique(cells[:, [1, 2, 3] if by_step else [1, 2]], axis=0, return_inverse=True)
        shape = (len(places), self.shape[0])
        matrix = sparse.csr_matrix((cells[:, 4].astype(float), (fiber.ravel(), cells[:, 0])), shape=shape)
        matrix.sum_duplicates()
        return matrix, places

    def write(self, path, chosen=None, append=False):
        """Writes the chosen cells as a table with a line for each event."""
        cells = self.cells if chosen is None else self.cells[chosen]
        cells = cells[np.argsort(cells[:, 3], kind="stable")]
        with open(path, "a" if append else "w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            if not append:
                out.writerow(["feature", "row", "col", "step"])
            for *cell, count in cells:
                line = [axis[index] for axis, index in zip(self.axes, cell)]
                for _ in range(count):
                    out.writerow(line)


def data(name):
    """Returns the path of a file of the real data."""
    folder = os.environ.get("NOODL_DATA")
    if not folder:
        raise Missing("NOODL_DATA is not set")
    path = Path(folder) / name
    if not path.exists():
        raise Missing(f"{path} is missing")
    return path


def read(path):
    """Returns the lines of a table as dictionaries."""
    opened = gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="")
    with opened as file:
        return list(csv.DictReader(file))


def count(name, events, features=None, **known):
    """Returns the table of events (feature, row, col, step); labels are sorted."""
    cells = Counter(events)
    axes = [sorted({key[axis] for key in cells}) for axis in range(4)]
    axes[0] = features or axes[0]
    index = [{label: place for place, label in enumerate(axis)} for axis in axes]
    rows = [(*(index[axis][label] for axis, label in enumerate(key)), many) for key, many in cells.items()]
    return Table(name, axes, np.array(sorted(rows), dtype=np.int64), **known)


def people(pairs, labels):
    """Returns the symmetric matrix of how often two people met."""
    index = {label: place for place, label in enumerate(labels)}
    graph = np.zeros((len(labels), len(labels)))
    for (one, other), many in Counter(pairs).items():
        if one in index and other in index:
            graph[index[one], index[other]] += many
            graph[index[other], index[one]] += many
    return graph


def school(name, seed):
    """Contacts in a primary school; the groups are its classes."""
    contacts = read(data("school_contacts.csv.gz"))
    classes = {line["id"]: line["class"] for line in read(data("school_people.csv"))}
    classes = {person: of for person, of in classes.items() if of != "Teachers"}
    slot = lambda time: f"{time[11:13]}:{int(time[14:16]) // 20 * 20:02}"
    column = {
        "school": lambda time: time[:10],
        "school_hour": lambda time: time[:13],
        "school_20min": lambda time: f"{time[:10]} {slot(time)}",
    }
    if name == "school_slots":
        events = [(slot(line["time"]), line["person"], line["other"], "0") for line in contacts]
        table = count(name, events, known=10, classes=classes, grouped="row")
        labels = table.axes[1]
    else:
        events = [(line["other"], line["person"], column[name](line["time"]), "0") for line in contacts]
        table = count(name, events, known=10, classes=classes, grouped="feature")
        labels = table.axes[0]
    table.graph = people([(line["person"], line["other"]) for line in contacts], labels)
    return table


def enron(name, seed):
    """E-mail of Enron by month, without mail to oneself; the groups are departments."""
    mails = [line for line in read(data("enron_emails.csv")) if line["from"] != line["to"]]
    classes = {line["id"]: line["group4"] for line in read(data("enron_people.csv")) if line["group4"]}
    events = [(line["to"], line["from"], line["time"][:7], "0") for line in mails]
    table = count(name, events, known=8, classes=classes, grouped="feature")
    table.graph = people([(line["from"], line["to"]) for line in mails], table.axes[0])
    return table


CATEGORIES = "Outage Setup Refund Bug Password Invoice Upgrade Complaint Return".split()
MIXES = [
    {"Outage": 6, "Setup": 3, "Upgrade": 1},
    {"Bug": 7, "Password": 3},
    {"Refund": 4, "Invoice": 6, "Complaint": 2},
    {"Return": 5, "Setup": 2},
]
FOURTH_DAY = 190  # the day on which the fourth team of the tickets begins; the first day is 0


def tickets(name, seed):
    """Support tickets: three teams, a fourth from day 190 on. By week, by day, or the whole year."""
    made = subprocess.run([sys.executable, data("make_tickets.py"), str(seed)], capture_output=True, check=True)
    lines = list(csv.DictReader(io.StringIO(made.stdout.decode())))
    days = [datetime.date.fromisoformat(line["time"][:10]) for line in lines]
    begin = days[0]
    label = {
        "tickets": lambda day: "0",
        "tickets_week": lambda day: f"{(day - begin).days // 7:02}",
        "tickets_day": lambda day: f"{(day - begin).days:03}",
    }[name]
    events = [(line["category"], line["agent"], line["product"], label(day)) for line, day in zip(lines, days)]
    planted = np.array([[mix.get(category, 0) / sum(mix.values()) for category in CATEGORIES] for mix in MIXES])
    return count(name, events, features=CATEGORIES, known=4, planted=planted)


DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()
# The groups of the demo: (days, {hour: chance}), as in crates/tensornoodl-cli/src/sample_company.rs.
RHYTHMS = [
    [(range(7), {6: 1, 14: 1, 22: 1})],
    [(range(4), {9: 0.5}), ([4], {9: 0.7, 10: 1, 11: 1, 12: 1, 13: 0.6})],
    [(range(4), {16: 0.5, 17: 1, 18: 1, 19: 0.6})],
    [([0], {7: 0.6, 8: 1, 9: 1, 10: 0.6}), ([2], {14: 0.8, 15: 0.8})],
    [(range(6), {4: 0.6, 5: 1}), (range(5), {12: 0.9})],
    [([0], {11: 1}), ([4], {15: 1, 16: 0.7})],
    [([1], {21: 0.6, 22: 1, 23: 1}), ([2], {0: 1, 1: 0.6})],
    [([2], {6: 1, 7: 0.6}), ([5], {8: 0.7, 9: 1, 10: 0.8})],
    [([3], {12: 0.8, 13: 1, 14: 1, 15: 0.8}), ([6], {18: 0.8, 19: 1, 20: 0.8})],
]


def rhythms():
    """Returns the hours of the week of the demo's nine groups (9 x 168)."""
    weeks = np.zeros((len(RHYTHMS), 7 * 24))
    for week, beats in zip(weeks, RHYTHMS):
        for days, hours in beats:
            for day in days:
                for hour, chance in hours.items():
                    week[24 * day + hour] = chance
    return weeks / weeks.sum(1, keepdims=True)


def mail(name, seed):
    """The e-mail of the demo by hour of the week, the whole year or by month."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([noodl(), "demo", "-q", "-o", folder], capture_output=True)
        if made.returncode:
            raise Missing(f"noodl demo failed: {made.stderr.decode().strip()}")
        lines = read(Path(folder) / "mail.csv")
    hours = [f"{day} {hour:02}:00" for day in DAYS for hour in range(24)]
    events = []
    for line in lines:
        time = datetime.datetime.fromisoformat(line["time"])
        step = f"{time.month:02}" if name == "mail_month" else "0"
        events.append((hours[24 * time.weekday() + time.hour], line["from"], line["to"], step))
    return count(name, events, features=hours, known=9, planted=rhythms())


def planted(name, seed):
    """A stream with planted patterns (generators.py)."""
    plan = generators.PLANS[name]
    patterns, _, cells = generators.stream(plan, seed)
    names = [(plan.features, "f"), (plan.rows, "r"), (plan.cols, "c"), (plan.steps, "s")]
    axes = [[f"{letter}{index:03}" for index in range(many)] for many, letter in names]
    cells = cells[np.lexsort(cells[:, ::-1].T)]
    return Table(name, axes, cells, known=plan.patterns, planted=patterns)


def numbered(name, letters, cells, **known):
    """Returns a table whose labels are numbers after these letters; cells are (feature, row, col, step, count)."""
    cells = np.array(sorted(cells), dtype=np.int64)
    sizes = cells.max(0)[:4] + 1
    axes = [[f"{letter}{index:03}" for index in range(size)] for letter, size in zip(letters, sizes)]
    return Table(name, axes, cells, **known)


def contacts(name, seed):
    """Contacts of pupils that are made, by day or by 20 minutes; the groups are their classes."""
    of, met = generators.contacts(seed)
    width = 24 if name == "contacts" else 1
    cells = Counter()
    for person, other, slot, many in met:
        cells[other, person, slot // width, 0] += many
    classes = {f"p{person:03}": f"class {group}" for person, group in enumerate(of)}
    table = numbered(name, "ppts", [(*key, many) for key, many in cells.items()], known=5, classes=classes,
                     grouped="feature")
    pairs = [(f"p{a:03}", f"p{b:03}") for a, b, _, many in met for _ in range(many)]
    table.graph = people(pairs, table.axes[0])
    return table


def trips(name, seed):
    """Trips between stations that are made: the hour of the day, by week or the whole year."""
    courses, cells = generators.trips(seed)
    if name == "trips":
        cells = whole(cells)
    return numbered(name, "hfts", cells, known=3, planted=courses)


def flights(name, seed):
    """Flights between airports that are made, by month; the groups are regions."""
    of, cells = generators.flights(seed)
    classes = {f"p{airport:03}": f"region {group}" for airport, group in enumerate(of)}
    cells = [(end, start, month, 0, many) for end, start, month, many in cells]
    return numbered(name, "ppms", cells, known=6, classes=classes, grouped="feature")


def desk(name, seed):
    """Requests at a help desk that are made, by week or the whole year."""
    mixes, cells = generators.desk(seed)
    if name == "desk":
        cells = whole(cells)
    return numbered(name, "casw", cells, known=5, planted=mixes)


def whole(cells):
    """Returns the cells of a stream with all steps added up."""
    sums = Counter()
    for feature, row, col, _, many in cells:
        sums[feature, row, col, 0] += many
    return [(*key, many) for key, many in sums.items()]


def noodl():
    """Returns the path of the program."""
    root = Path(__file__).resolve().parents[2]
    return os.environ.get("NOODL", str(root / "target/release/noodl"))


MAKERS = {
    "school": school,
    "school_hour": school,
    "school_20min": school,
    "school_slots": school,
    "enron": enron,
    "tickets": tickets,
    "tickets_week": tickets,
    "tickets_day": tickets,
    "mail": mail,
    "mail_month": mail,
    **{name: planted for name in generators.PLANS},
    "contacts": contacts,
    "contacts_20min": contacts,
    "trips": trips,
    "trips_week": trips,
    "flights": flights,
    "desk": desk,
    "desk_week": desk,
}


def make(name, seed=0):
    """Returns a table by its name; the seed matters only for tables that are generated."""
    table = MAKERS[name](name, seed)
    if seed:
        table.name = f"{name}:{seed}"
    return table
