"""Tests of the examples: they run, their pages show their current output, and their types check."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "make")
WITH_DATA = ("emails", "shots")


def run(folder: Path, *command: object, **changed: str | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MPLBACKEND": "agg", **changed}
    kept = {name: value for name, value in environment.items() if value is not None}
    arguments = [sys.executable, *map(str, command)]
    return subprocess.run(arguments, cwd=folder, env=kept, capture_output=True, text=True, timeout=300)


def test_the_examples_are_those_of_the_gallery() -> None:
    assert NAMES == ["emails", "recovery", "shots", "stream"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_as_a_script(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, "-W", "error", EXAMPLES / f"{name}.py")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if name not in WITH_DATA or "NOODL_DATA" in os.environ:
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.parametrize("name", WITH_DATA)
def test_an_example_without_its_data_says_so(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, EXAMPLES / f"{name}.py", NOODL_DATA=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("This example needs") and done.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_pages_show_the_output_of_the_examples(tmp_path: Path) -> None:
    done = run(tmp_path, EXAMPLES / "make.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n") == len(NAMES)


def test_pages_without_data_are_skipped(tmp_path: Path) -> None:
    done = run(tmp_path, EXAMPLES / "make.py", "--check", *WITH_DATA, NOODL_DATA=None)
    assert done.returncode == 0, done.stderr
    assert [line.split(". ")[0] for line in done.stdout.splitlines()] == [f"{name}: skipped" for name in WITH_DATA]


def test_a_page_that_differs_is_reported(tmp_path: Path) -> None:
    copy = tmp_path / "bindings" / "python" / "examples"
    copy.mkdir(parents=True)
    for name in ("make", "stream"):
        (copy / f"{name}.py").write_bytes((EXAMPLES / f"{name}.py").read_bytes())
    assert "stream.md is not there" in run(tmp_path, copy / "make.py", "--check", "stream").stderr
    assert run(tmp_path, copy / "make.py", "stream").returncode == 0
    assert run(tmp_path, copy / "make.py", "--check", "stream").returncode == 0
    page = tmp_path / "docs" / "python" / "stream.md"
    page.write_text(page.read_text().replace("22 patterns after", "21 patterns after"))
    done = run(tmp_path, copy / "make.py", "--check", "stream")
    assert done.returncode == 1 and "example 22 patterns after 14 tensors" in done.stderr
    (page.parent / "stream.png").unlink()
    assert "stream.png is not there" in run(tmp_path, copy / "make.py", "--check", "stream").stderr


def test_pages_and_pictures_are_small() -> None:
    pages = EXAMPLES.parents[2] / "docs" / "python"
    for name in NAMES:
        assert (pages / f"{name}.md").is_file()
    for picture in pages.glob("*.png"):
        assert picture.stat().st_size < 100_000, picture.name


def test_types_check() -> None:
    pytest.importorskip("mypy")
    done = run(EXAMPLES.parent, "-m", "mypy", "--strict", "examples")
    assert done.returncode == 0, done.stdout + done.stderr
