"""Tests of the types: the stubs match the extension module, and the package passes mypy --strict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tensornoodl

CONFIG = Path(__file__).parent.parent / "pyproject.toml"
ALLOWED = CONFIG.parent / "stubtest.txt"


@pytest.mark.parametrize(
    "command",
    [
        ["mypy.stubtest", "--mypy-config-file", str(CONFIG), "--allowlist", str(ALLOWED), "tensornoodl"],
        ["mypy", "--strict", "--config-file", str(CONFIG), "-p", "tensornoodl"],
    ],
)
def test_types(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_marker_is_installed() -> None:
    assert (Path(tensornoodl.__file__).parent / "py.typed").exists()


def test_documented_names_exist() -> None:
    for name in tensornoodl.__all__:
        assert getattr(tensornoodl, name).__doc__ or name == "__version__", name
    assert set(tensornoodl.__all__) == set(dir(tensornoodl))
