#!/usr/bin/env python3
"""A table of invented mail: time,from,to,size.

5,000 people in 100 groups of 50. A group writes within itself for three months, the first group from
the first month on, the next from the second, and so on; nine of ten mails are of this kind. The tenth is between
any two people at any time of the 14 months. The same numbers for the same seed.

    benches/events.py EVENTS > events.csv
"""
import sys
import numpy as np

PEOPLE, GROUP, MONTHS, WINDOW, CHUNK = 5000, 50, 14, 3, 500_000
events = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
rng = np.random.default_rng(42)
minutes = np.datetime64("2000-01", "M") + np.arange(MONTHS + 1)
minutes = minutes.astype("datetime64[m]").astype(np.int64)
names = [f"person{at:05}" for at in range(PEOPLE)]
out = sys.stdout
out.write("time,from,to,size\n")
for begin in range(0, events, CHUNK):
    n = min(CHUNK, events - begin)
    group = rng.integers(PEOPLE // GROUP, size=n)
    sender, receiver = (group * GROUP + rng.integers(GROUP, size=n) for _ in range(2))
    month = group % (MONTHS - WINDOW + 1) + rng.integers(WINDOW, size=n)
    once = rng.random(n) < 0.1
    sender[once], receiver[once] = (rng.integers(PEOPLE, size=once.sum()) for _ in range(2))
    month[once] = rng.integers(MONTHS, size=once.sum())
    length = minutes[month + 1] - minutes[month]
    time = minutes[month] + (rng.random(n) * length).astype(np.int64)
    times = np.datetime_as_string(time.astype("datetime64[m]").astype("datetime64[s]"))
    sizes = rng.integers(1000, size=n)
    rows = zip(times.tolist(), sender.tolist(), receiver.tolist(), sizes.tolist())
    out.write("".join(f"{t},{names[a]},{names[b]},{s}\n" for t, a, b, s in rows))
