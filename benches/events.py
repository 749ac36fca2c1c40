#!/usr/bin/env python3
"""Writes a synthetic table of mails: time,from,to,size.

There are 5,000 people in 100 groups of 50. The members of a group write to each other for three months: those of the first group from
the first month on, those of the second group from the second month on, and so on. Nine of ten mails are of this kind; the tenth is
between any two people at any time of the 14 months. The seed is fixed, so the table depends only on the number of events.

    benches/events.py EVENTS > events.csv
"""
import sys
import numpy as np

PEOPLE, GROUP, MONTHS, WINDOW, CHUNK = 5000, 50, 14, 3, 500_000
events = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
rng = np.random.default_rng(42)
months = np.datetime64("2000-01", "M") + np.arange(MONTHS + 1)
minutes = months.astype("datetime64[m]").astype(np.int64)
names = [f"person{at:05}" for at in range(PEOPLE)]
out = sys.stdout
out.write("time,from,to,size\n")
for begin in range(0, events, CHUNK):
    n = min(CHUNK, events - begin)
    group = rng.integers(PEOPLE // GROUP, size=n)
    sender, receiver = (group * GROUP + rng.integers(GROUP, size=n) for _ in range(2))
    month = group % (MONTHS - WINDOW + 1) + rng.integers(WINDOW, size=n)
    unrelated = rng.random(n) < 0.1
    sender[unrelated], receiver[unrelated] = (rng.integers(PEOPLE, size=unrelated.sum()) for _ in range(2))
    month[unrelated] = rng.integers(MONTHS, size=unrelated.sum())
    length = minutes[month + 1] - minutes[month]
    time = minutes[month] + (rng.random(n) * length).astype(np.int64)
    times = np.datetime_as_string(time.astype("datetime64[m]").astype("datetime64[s]"))
    sizes = rng.integers(1000, size=n)
    rows = zip(times.tolist(), sender.tolist(), receiver.tolist(), sizes.tolist())
    out.write("".join(f"{t},{names[a]},{names[b]},{s}\n" for t, a, b, s in rows))
