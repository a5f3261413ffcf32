"""python -m tests.harness.corpus.freeze: what of the corpus would be another; with --write it is frozen anew.

Each recorded run is judged again (--replay), and what that says is held, byte for byte, against what it said when it
was frozen: exit code, terminal, the outcomes in run.json, summary.md, metrics.csv, metrics.prom, each page of Allure.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.harness.run_gate import gate

HERE = Path(__file__).parent
RECORDED, FROZEN = HERE / "recorded", HERE / "frozen"
THRESHOLDS = HERE / "thresholds"
MEASURED = ("rounds", "discarded", "warm_up", "one_host_fewer", "partitions", "canary")
"""Of a scenario in run.json: what is copied from the recording."""
AT_ONCE = 2
VOLATILE = (
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{4}"), "<run>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?( UTC)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"(/tmp|/var)/[^\s\"')]*"), "<path>"),
    (re.compile(r"\b\d+(\.\d+)? (s|min)\b(?= in all|$)", re.MULTILINE), "<duration>"),
)


def recordings() -> list[Path]:
    """Return the recorded runs of the corpus."""
    return sorted(RECORDED.glob("*.json.gz"))


def frozen(recording: Path) -> Path:
    """Return where it is written down what a recorded run came to."""
    return FROZEN / recording.name.replace(".json.gz", ".txt.gz")


def said(recording: Path) -> str:
    """Return all that the suite says of the recorded run, as one text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        path.write_bytes(gzip.decompress(recording.read_bytes()))
        results = Path(folder) / "results"
        done = gate(
            results, f"--replay={path}", f"--thresholds={THRESHOLDS}", "--no-open", environment={"COLUMNS": "120"}
        )
        parts = {"exit code": str(done.code), "terminal": done.output, **dict(_written(results / "latest"))}
    text = "".join(f"=== {name}\n{content.rstrip()}\n" for name, content in parts.items())
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return text


def difference(recording: Path, now: str) -> str:
    """Return in which lines what is said `now` differs from what is frozen; empty when it does not."""
    before = gzip.decompress(frozen(recording).read_bytes()).decode()
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "frozen", "now", lineterm="", n=1)
    return "\n".join(lines)


def _written(results: Path) -> Iterator[tuple[str, str]]:
    for name in ("summary.md", "metrics.csv", "metrics.prom"):
        if (path := results / name).exists():
            yield name, path.read_text()
    if (path := results / "run.json").exists():
        yield "run.json", json.dumps(_outcomes(json.loads(path.read_text())), indent=1, sort_keys=True)


def _outcomes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return run.json without what a replay only copies."""
    left_out = ("started", "finished", "duration_s", "time", "environment", "ledger")
    kept = {key: value for key, value in document.items() if key not in left_out}
    return {key: _without(value) for key, value in kept.items()}


def _without(value: Any) -> Any:
    if isinstance(value, list):
        return [_without(one) for one in value]
    if isinstance(value, dict):
        return {key: _without(one) for key, one in value.items() if key not in MEASURED}
    return value


def main() -> int:
    """Print what differs, or write it down; exit code 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.corpus.freeze", description=__doc__)
    parser.add_argument("--write", action="store_true", help="freeze what is said now")
    parser.add_argument("names", nargs="*", help="of recordings; all")
    asked = parser.parse_args()
    chosen = [one for one in recordings() if not asked.names or one.name.removesuffix(".json.gz") in asked.names]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        texts = list(pool.map(said, chosen))
    code = 0
    for recording, text in zip(chosen, texts, strict=True):
        if asked.write:
            FROZEN.mkdir(exist_ok=True)
            frozen(recording).write_bytes(gzip.compress(text.encode(), mtime=0))
        elif found := difference(recording, text):
            print(f"{recording.name}\n{found}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
