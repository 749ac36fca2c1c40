"""Runs the examples and writes their pages: text, code, printed output and pictures.

    python make.py            writes docs/python/*.md and *.png
    python make.py --check    fails if a page differs from what its example gives now
    python make.py stream     writes only this page

An example is a script in cells that begin with ``# %%``, so VS Code and Jupyter open it as a notebook. Text is in cells ``# %% [markdown]``. A
picture is a PNG file that a cell writes into the working directory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent
PAGES = EXAMPLES.parents[2] / "docs" / "python"
NAMES = ("recovery", "stream", "emails", "shots")

#: Numbers below 1e-8 are rounding errors, which differ between processors.
ROUNDING = re.compile(r"\d\.\de-(?:09|[1-9]\d)")


class Missing(Exception):
    """An example ended because its data is missing."""


def cells(text: str) -> list[tuple[bool, str]]:
    """Returns for every cell whether it is text, and its content."""
    found = []
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        words = head.strip() == "[markdown]"
        if words:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines())
        found.append((words, body.strip("\n")))
    return found


def run(name: str) -> tuple[str, dict[str, bytes]]:
    """Runs an example and returns its page and its pictures."""
    script = EXAMPLES / f"{name}.py"
    parts = [f"<!-- Generated from bindings/python/examples/{name}.py by make.py in the same folder. -->"]
    pictures: dict[str, bytes] = {}
    scope: dict[str, Any] = {"__name__": "__main__"}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for words, body in cells(script.read_text(encoding="utf-8")):
                if words:
                    parts.append(body)
                    continue
                parts.append(f"```python\n{body}\n```")
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    try:
                        exec(compile(body, str(script), "exec"), scope)
                    except SystemExit:
                        raise Missing(printed.getvalue().strip()) from None
                if lines := [line.rstrip() for line in printed.getvalue().splitlines()]:
                    parts.append("\n".join(["```text", *lines, "```"]))
                for picture in sorted(Path().glob("*.png")):
                    if picture.name not in pictures:
                        pictures[picture.name] = picture.read_bytes()
                        parts.append(f"![{picture.stem}]({picture.name})")
        finally:
            os.chdir(here)
    return "\n\n".join(parts) + "\n", pictures


def small(picture: bytes) -> bytes:
    """Returns the picture with 256 colours, which takes a third of the bytes."""
    from PIL import Image

    packed = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def same(page: str, other: str) -> bool:
    return ROUNDING.sub("tiny", page) == ROUNDING.sub("tiny", other)


def check(page: Path, text: str, pictures: dict[str, bytes]) -> list[str]:
    """Returns the differences between a page and what its example gives now."""
    if not page.is_file():
        return [f"{page.name} is not there"]
    wrong = [f"{page.name}: the picture {name} is not there" for name in pictures if not (PAGES / name).is_file()]
    written = page.read_text(encoding="utf-8")
    if not same(written, text):
        lines = zip(written.splitlines() + ["(end)"], text.splitlines() + ["(end)"])
        was, now = next((pair for pair in lines if not same(*pair)), ("", ""))
        wrong.append(f"{page.name} is not what the example gives:\n  page    {was}\n  example {now}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the examples and writes their pages.")
    parser.add_argument("names", nargs="*", metavar="example", help=f"examples to run: {', '.join(NAMES)} [default: all]")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page differs from what its example gives now")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"there is no example {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    # Matplotlib must not open a window. Warnings are errors, because a page does not show them.
    os.environ["MPLBACKEND"] = "agg"
    warnings.simplefilter("error")
    wrong: list[str] = []
    for name in arguments.names or NAMES:
        try:
            text, pictures = run(name)
        except Missing as missing:
            print(f"{name}: skipped. {missing}")
            continue
        if arguments.check:
            found = check(PAGES / f"{name}.md", text, pictures)
            print(f"{name}: {'differs' if found else 'up to date'}")
            wrong += found
            continue
        PAGES.mkdir(parents=True, exist_ok=True)
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
        for picture, data in pictures.items():
            (PAGES / picture).write_bytes(small(data))
        print(f"{name}: written")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
