"""Tests of the READMEs: their Python examples run and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent


@pytest.mark.parametrize("page", [HERE / "README.md", HERE.parent.parent / "README.md"], ids=["package", "project"])
def test_examples_run(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-W", "error", "-c", block], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, block + done.stderr
        # The comment after a print shows its output.
        expected = re.findall(r"print\(.*\)\s+# (.*)$", block, flags=re.M)
        assert done.stdout.splitlines()[: len(expected)] == expected, done.stdout
