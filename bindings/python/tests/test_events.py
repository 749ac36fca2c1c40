"""Tests of tables of events, in files and in memory."""

from __future__ import annotations

import datetime
import itertools
import os
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tensornoodl as tn


@pytest.fixture(scope="module")
def mail() -> pd.DataFrame:
    """Mails of three groups over eight weeks; each group writes at hours of its own."""
    rng = np.random.default_rng(0)
    habits = [(0, 8, [9, 10, 11]), (8, 16, [14, 15]), (16, 24, [20, 21, 22, 23])]
    rows = []
    for day in range(56):
        for first, last, hours in habits:
            people = np.arange(first, last)
            for sender in people:
                for receiver in rng.choice(people[people != sender], size=3, replace=False):
                    for hour in hours:
                        time = datetime.datetime(2024, 1, 1, hour, 30) + datetime.timedelta(days=day)
                        rows.append((time, f"p{sender:02}", f"p{receiver:02}", float(hour)))
    frame = pd.DataFrame(rows, columns=["time", "sender", "receiver", "size"])
    frame.loc[3, "receiver"] = None
    return frame


AXES = {"feature": "hour(time)", "row": "sender", "col": "receiver"}


def test_every_kind_of_table_gives_the_same_tensors(mail: pd.DataFrame, tmp_path: Path) -> None:
    mail.to_csv(tmp_path / "mail.csv", index=False)
    mail.to_parquet(tmp_path / "mail.parquet")
    polars = pl.from_pandas(mail)
    kinds = {
        "pandas": mail,
        "pandas, categories": mail.astype({"sender": "category", "receiver": "category"}),
        "pandas, strings": mail.astype({"time": str}),
        "pandas, beside what Arrow does not know": mail.assign(thing=[{1, 2}] * len(mail)),
        "polars": polars,
        "polars, categories": polars.with_columns(pl.col("sender").cast(pl.Categorical)),
        "pyarrow": pa.Table.from_pandas(mail),
        "pyarrow, many batches": pa.Table.from_batches(pa.Table.from_pandas(mail).to_batches(max_chunksize=1000)),
        "CSV": tmp_path / "mail.csv",
        "CSV, as text": str(tmp_path / "mail.csv"),
        "Parquet": tmp_path / "mail.parquet",
    }
    expected = tn.from_events(mail, **AXES, step="week(time)")
    assert expected.shape == (24, 24, 24) and expected.features[9] == "09:00"
    assert expected.tally["missing"] == 1 and expected.tally["events"] == len(mail)
    for name, kind in kinds.items():
        events = tn.from_events(kind, **AXES, step="week(time)")
        assert events.steps == expected.steps and events.rows == expected.rows, name
        assert events.tally == expected.tally, name
        for one, other in zip(events, expected, strict=True):
            assert np.array_equal(one.fibers, other.fibers) and np.array_equal(one.places, other.places), name


def test_a_stream_of_events_has_steps(mail: pd.DataFrame) -> None:
    events = tn.from_events(mail, **AXES, step="week(time)")
    assert len(events) == len(events.steps) == len(list(events)) >= 8
    assert events.is_stream and events[-1].step == events.steps[-1]
    assert events[events.steps[2]].step == events.steps[2]
    part = events[2:4]
    assert part.steps == events.steps[2:4] and np.array_equal(part[0].fibers, events[2].fibers)
    with pytest.raises(IndexError, match="steps"):
        events[99]
    with pytest.raises(IndexError, match='the stream has no step "never"'):
        events["never"]
    assert repr(events).startswith("<tensornoodl.Events of a table: 24 x 24 x 24, 9 steps")
    assert "non-zero fibers" in repr(events[0])
    whole = tn.TensorNOODL().fit(events)
    steps = tn.TensorNOODL()
    for week in events:
        steps.partial_fit(week)
    assert np.array_equal(whole.components_, steps.components_)
    assert whole.step_labels_ == events.steps
    assert whole._fitted_model.kind()[0] == "line"


def test_groups_are_found_and_compared(mail: pd.DataFrame) -> None:
    teams = {f"p{i:02}": "ABC"[i // 8] for i in range(24)}
    names = pd.Series({f"p{i:02}": f"Person {i}" for i in range(24)} | {"p03": None})
    events = tn.from_events(mail, **AXES, square=True, groups=teams, names=names)
    assert not events.is_stream and events.rows[3] == "p03" and events.rows[4] == "Person 4"
    model = tn.TensorNOODL().fit(events)
    assert model.n_patterns_ == 3 and model.step_labels_ == ["all"]
    first = [model.groups(pattern)[0] for pattern in range(3)]
    assert sorted(str(group.known) for group in first) == ["A", "B", "C"]
    assert [group.others for group in first] == [0, 0, 0]
    assert all(len(group.rows) == 8 for group in first)
    assert sorted(group.number for group in first) == [1, 2, 3]
    # Everybody with events is in a group, with all events of the mail.
    everybody = {name for group in first for name, _ in group.rows}
    assert everybody == set(events.rows) and all(group.share > 0.99 for group in first)
    assert sum(weight for group in first for _, weight in group.rows) == pytest.approx(len(mail) - 1)


def test_whole_numbers_stored_as_floats_keep_their_labels() -> None:
    """A missing value makes pandas store a column of whole numbers as floats."""
    frame = pd.DataFrame({"a": [1, 2, None, 3], "b": [2, 3, 1, 1], "c": [1, 1, 1, 1]})
    events = tn.from_events(frame, feature="c", row="a", col="b", square=True, names={1: "one"})
    assert events.rows == ["one", "2", "3"] and events.tally["missing"] == 1


def test_values_and_filters(mail: pd.DataFrame) -> None:
    counts = tn.from_events(mail, **AXES)
    sums = tn.from_events(mail, **AXES, value="sum(size)")
    means = tn.from_events(mail, **AXES, value="mean(size)")
    tenths = np.round(sums[0].todense() / np.maximum(counts[0].todense(), 1), 12)
    assert np.allclose(tenths, means[0].todense())
    late = tn.from_events(mail, **AXES, where=["size>=20", "sender!=@receiver"])
    assert late.shape == (24, 8, 8)
    busy = tn.from_events(mail, **AXES, keep_rows=5)
    assert busy.shape[1] == 5 and busy.tally["dropped_labels"] == 19


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"feature": "day"}, ValueError, 'the table has no column "day"; it has time, sender, receiver, size'),
        ({"feature": "hour(sender)"}, ValueError, 'column sender: "p00" is not a date'),
        ({"feature": "hour("}, ValueError, "it must be closed by a parenthesis"),
        ({"feature": "grid(size)"}, ValueError, "it must be a column, month(c)"),
        ({"value": "most(size)"}, ValueError, "it must be count, sum(column) or mean(column)"),
        ({"value": "sum(sender)"}, ValueError, '"p00" is not a number'),
        ({"where": "size"}, ValueError, "it must be a column, one of = != < <= > >=, and a value"),
        ({"where": "size>99"}, ValueError, "the table has no events to learn from"),
        ({"keep_rows": 0}, ValueError, "keep_rows is 0, it must be at least 1"),
        ({"names": 3}, TypeError, "names and groups are of type int, they must be a mapping"),
        ({"names": "none.csv(id,name)"}, FileNotFoundError, "none.csv"),
    ],
)
def test_wrong_arguments_are_refused(
    change: dict[str, object], error: type[Exception], text: str, mail: pd.DataFrame
) -> None:
    with pytest.raises(error) as caught:
        tn.from_events(mail, **{**AXES, **change})  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_inputs_that_are_not_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the table is of type dict, it must be a path, or have an Arrow C stream"):
        tn.from_events({"a": [1]}, feature="a", row="a", col="a")
    with pytest.raises(TypeError, match=r"LazyFrame, which is not computed yet: call collect\(\) first"):
        tn.from_events(pl.DataFrame({"a": [1]}).lazy(), feature="a", row="a", col="a")
    with pytest.raises(FileNotFoundError):
        tn.from_events(tmp_path / "none.csv", feature="a", row="a", col="a")
    lists = pa.table({"a": [[1]], "b": [1]})
    with pytest.raises(ValueError, match="it must be text, numbers, truth values, dates or times"):
        tn.from_events(lists, feature="b", row="a", col="b")


def test_an_endless_table_is_interrupted() -> None:
    batch = pa.table({"a": [1, 2]}).to_batches()[0]
    endless = pa.RecordBatchReader.from_batches(batch.schema, itertools.repeat(batch))
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        tn.from_events(endless, feature="a", row="a", col="a")


@pytest.mark.skipif("NOODL" not in os.environ, reason="the environment variable NOODL does not name the program")
def test_the_program_and_the_package_agree(mail: pd.DataFrame, tmp_path: Path) -> None:
    """Program and package give equal patterns and factors for a table, and read each other's model files."""
    noodl = os.environ["NOODL"]
    table = tmp_path / "mail.csv"
    mail.to_csv(table, index=False)
    query = ["--feature", "hour(time)", "--row", "sender", "--col", "receiver", "--step", "week(time)"]
    path = tmp_path / "program.safetensors"
    subprocess.run([noodl, "learn", table, *query, "--recipe", "log2", "-o", path, "-q"], check=True)
    theirs = tn.load(path)
    ours = tn.TensorNOODL(recipe="log2").fit(tn.from_events(table, **AXES, step="week(time)"))
    assert np.array_equal(theirs.components_, ours.components_)
    assert theirs.history_ == ours.history_ and theirs.recipe == "log2"
    for step in range(ours.n_steps_):
        assert all(np.array_equal(a, b) for a, b in zip(theirs.factors(step), ours.factors(step)))
    ours.save(tmp_path / "package.safetensors")
    shown = subprocess.run(
        [noodl, "show", tmp_path / "package.safetensors"], check=True, capture_output=True, text=True
    )
    same = subprocess.run([noodl, "show", path], check=True, capture_output=True, text=True)
    assert shown.stdout.replace("package", "program") == same.stdout
    codes = subprocess.run(
        [noodl, "encode", tmp_path / "package.safetensors", table], check=True, capture_output=True, text=True
    )
    assert len(codes.stdout.splitlines()) > 100
