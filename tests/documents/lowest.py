"""requirements-lowest.txt, made by `make lock`: the oldest release of each package that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "requirements-lowest.txt"
RANGE = re.compile(r"(?P<name>[a-z0-9-]+)>=(?P<lowest>[0-9.]+),<(?P<next>[0-9.]+)")
HEAD = """# The lower ends of the ranges in pyproject.toml, from which `make lock` makes this file.
# tests/harness/fixtures/test_ranges.py runs the suite's own tests with these.
"""


def ranges() -> dict[str, tuple[str, str]]:
    """Return the oldest release of each package that the distribution asks for, and the first one that is too new.

    Raises ValueError for what is no such range.
    """
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = {text: RANGE.fullmatch(text) for text in asked}
    if other := [text for text, match in found.items() if not match]:
        raise ValueError(f"pyproject.toml: not name>=lowest,<next: {', '.join(other)}")
    return {match["name"]: (match["lowest"], match["next"]) for match in found.values() if match}


def text() -> str:
    """Return what the file has to say."""
    return HEAD + "".join(f"{name}=={lowest}\n" for name, (lowest, _) in ranges().items())


if __name__ == "__main__":
    FILE.write_text(text())
