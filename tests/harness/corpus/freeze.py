"""python -m tests.harness.corpus.freeze: what of the corpus would be another; with --write it is frozen anew.

Each recorded run is judged again (--replay), and what that says is held, byte for byte, against what it said when it
was frozen: exit code, terminal, the outcomes in run.json, summary.md, metrics.csv, metrics.prom, each page of Allure.
So is what each tier would run on each kind of target (--list-scenarios, --dry-run).
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
from pathlib import Path
from typing import Any

from perfgate.model.command import program
from tests.harness.forked import gate
from tests.harness.run_gate import ROOT

HERE = Path(__file__).parent
RECORDED, FROZEN = HERE / "recorded", HERE / "frozen"
THRESHOLDS = HERE / "thresholds"
STAGING = """bootstrap-servers = "kafka-1:9092"
[limits]
bytes = "200 TB"
mib-per-s = 400
"""
LISTED = {
    f"{what}-{tier}-{kind}": (f"--{option}", f"--tier={tier}", f"--target={target}")
    for what, option in (("list", "list-scenarios"), ("plan", "dry-run"))
    for tier in ("smoke", "nightly", "full")
    for kind, target in (("embedded", "embedded"), ("containers", "containers"), ("brokers", "{target}"))
}
"""What a tier would run on a kind of target, by name: the arguments."""
PLAIN = {"COLUMNS": "120"}
PROFILES = {"nightly": "embedded-2c-amd-epyc", "smoke": "embedded-2c-amd-epyc"}
"""That is held, by how a recording's name begins; else the one that fits."""
RENDERED = ("smoke", "brokers-pause-leader", "compared-recorded-pairs", "range-kept", "brokers-missing")
"""Recordings whose pictures are rendered, as a run's are; of the rest they are drawn only, a fifth of the time."""
MEASURED = ("rounds", "discarded_rounds", "warm_up_rounds", "one_host_fewer", "partitions", "canary")
"""Of a scenario in run.json: what is copied from the recording."""
OF_ONE_RUN = ("uuid", "start", "stop", "historyId", "testCaseId", "steps")
"""Of a page of Allure."""
VOLATILE = (
    (re.compile(re.escape(program())), "<program>"),
    (re.compile(re.escape(str(ROOT))), "<checkout>"),
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{4}"), "<run>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?( UTC)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"(/tmp|/var)/[^\s\"')]*"), "<path>"),
    (re.compile(r"^(platform|benchmark:|rootdir:|configfile:|plugins:|testpaths:) .*\n", re.MULTILINE), ""),
    (re.compile(r"(finished_timestamp_seconds\{.*\}) .*"), r"\1 <time>"),
    (re.compile(r"(perfgate/fixtures/\w+\.py', )\d+"), r"\1<line>"),
    (
        re.compile(r"=+ (no tests ran|.* deselected|.* passed|.* failed|.* skipped)(, .*)? in [^=]* =+"),
        r"== \1\2 in <duration> ==",
    ),
)


def names() -> list[str]:
    """Return the names of all that is frozen: recorded runs, and lists of what would be run."""
    return [*sorted(path.name.removesuffix(".json.gz") for path in RECORDED.glob("*.json.gz")), *LISTED]


def said(name: str) -> str:
    """Return all that the suite says of it, as one text."""
    return _plain(_listed(name) if name in LISTED else _judged(name))


def _plain(text: str) -> str:
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return text


def _listed(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (target := Path(folder) / "staging.toml").write_text(STAGING)
        done = gate(Path(folder), *(str(one).format(target=target) for one in LISTED[name]), environment=PLAIN)
    return f"=== exit code\n{done.code}\n=== terminal\n{done.output}"


def _judged(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        path.write_bytes(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))
        results = Path(folder) / "results"
        named = [f"--profile={profile}" for begins, profile in PROFILES.items() if name.startswith(begins)]
        unrendered = () if name in RENDERED else ("-p", "tests.harness.unrendered")
        arguments = (f"--replay={path}", f"--thresholds={THRESHOLDS}", *named, *unrendered)
        done = gate(results, *arguments, environment=PLAIN, pictures=True)
        parts = {"exit code": str(done.code), "terminal": done.output, **dict(_written(results))}
    return "".join(f"=== {part}\n{content.rstrip()}\n" for part, content in parts.items())


def difference(name: str, now: str) -> str:
    """Return in which lines what is said `now` differs from what is frozen; empty when it does not."""
    before = _plain(gzip.decompress((FROZEN / f"{name}.txt.gz").read_bytes()).decode())
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "frozen", "now", lineterm="", n=1)
    return "\n".join(lines)


def _written(results: Path) -> Iterator[tuple[str, str]]:
    for name in ("summary.md", "metrics.csv", "metrics.prom"):
        for path in results.glob(f"2*/{name}"):
            yield name, path.read_text()
    for path in results.glob("2*/run.json"):
        yield "run.json", json.dumps(_outcomes(json.loads(path.read_text())), indent=1, sort_keys=True)
    pages = [json.loads(path.read_text()) for path in results.glob("2*/allure-results/*-result.json")]
    for page in sorted(pages, key=lambda page: str(page["name"])):
        kept = {key: value for key, value in page.items() if key not in OF_ONE_RUN}
        kept["labels"] = [one for one in page["labels"] if one["name"] not in ("thread", "host")]
        kept["attachments"] = [(one["name"], one["type"]) for one in page.get("attachments", ())]
        yield f"allure {page['name']}", json.dumps(kept, indent=1, sort_keys=True)


def _outcomes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return run.json without what a replay only copies."""
    left_out = ("schema", "started", "finished", "duration_s", "time", "environment", "ledger")
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
    parser.add_argument("names", nargs="*", choices=[[], *names()], help="what to look at; all")
    asked = parser.parse_args()
    chosen = asked.names or names()
    code = 0
    for name in chosen:
        text = said(name)
        if asked.write:
            FROZEN.mkdir(exist_ok=True)
            (FROZEN / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        elif found := difference(name, text):
            print(f"{name}\n{found}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
