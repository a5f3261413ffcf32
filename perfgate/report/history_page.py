"""Page of all runs, without server or script: each scenario's metrics over time, with limits and changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from perfgate.judge.phrases import number
from perfgate.model import Verdict, metric_info
from perfgate.model.command import command_line
from perfgate.model.counting import counted
from perfgate.model.system import SYSTEM_NAMES, SYSTEMS, system_of
from perfgate.report.figures import or_dash
from perfgate.report.front import escaped, html_table, style
from perfgate.report.history import SHOWN, Drift, changes_of, is_sound, kind_of
from perfgate.report.small_charts import HEADROOM, ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 190, 84, 12, 26, 26
OTHERS = "other"
"""Family of scenarios for which older lines of the history name none."""
MARKS = {
    Verdict.PASS.value: "o",
    Verdict.IMPROVED.value: "o",
    Verdict.MISSING.value: "o",
    Verdict.REGRESSED.value: "x",
    Verdict.BROKEN.value: "x",
}
"""Red: a cross; judged otherwise: a disc; undecided: a ring. Colour alone carries no information."""


def page(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the page for the lines of a history, oldest first, without modified runs."""
    drawn = [entry for entry in entries if not entry["modified"]]
    left_out = len(entries) - len(drawn)
    sections = list(_sections(drawn))
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Performance gate: history</title>'
    head += f'<meta name="viewport" content="width=device-width"><style>{style()}</style><h1>Runs over time</h1>'
    if not drawn:
        adds = f"<code>{escaped(command_line('gate'))}</code>"
        return f"{head}<p>No run of the gate is recorded yet. Each one adds a line: {adds}.</p>"
    first, last = (_day(entry) for entry in (drawn[0], drawn[-1]))
    out = f", {left_out} modified and not drawn" if left_out else ""
    body = [
        head,
        f"<p>{counted(len(drawn), 'run')}, {first} to {last}{out}. Latest: {escaped(drawn[-1]['run_id'])}, exit code "
        f"{drawn[-1]['exit_code']}.</p>",
        '<p class="note">Disc: judged and not red, or without a threshold. Cross: red. Ring: undecided. Dashed: the '
        "limit that was held. Upright, dotted: commit, machine, release or other facts changed. Upright, solid: a "
        "change point (Otava), a note and no verdict. A line joins runs of one target, machine, tier and driver.</p>",
        "<nav>" + "".join(f'<a href="#f{n}">{escaped(name)}</a>' for n, (name, *_) in enumerate(sections)) + "</nav>",
    ]
    for n, (title, scenarios, own) in enumerate(sections):
        body.append(f'<section id="f{n}"><h2>{escaped(title)}</h2>')
        for scenario in scenarios:
            body += _scenario(scenario, [entry for entry in own if scenario in entry["rows"]])
        body.append("</section>")
    return "".join(body) + "\n"


def _sections(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[str], list[Mapping[str, Any]]]]:
    """Yield each family's title, its scenarios, and the runs of its system: names are shared, figures are not."""
    for system in SYSTEMS:
        own = [entry for entry in entries if system_of(entry["facts"]) == system]
        for family, scenarios in _families(own).items():
            yield family if system == "kafka" else f"{SYSTEM_NAMES[system]}: {family}", scenarios, own


def _families(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    families: dict[str, dict[str, None]] = {}
    known = {name: kept["family"] for entry in entries for name, kept in entry["rows"].items() if kept.get("family")}
    for entry in entries:
        for name in entry["rows"]:
            families.setdefault(known.get(name, OTHERS), {})[name] = None
    return {family: list(names) for family, names in families.items()}


def _scenario(name: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"<h3>{escaped(name)}: {escaped(entries[-1]['rows'][name]['verdict'] or 'not judged')}</h3>"
    for metric in SHOWN:
        if having := [entry for entry in entries if metric in entry["rows"][name]]:
            yield _chart(name, metric, having)
    rows = []
    for entry in reversed(entries):
        kept = entry["rows"][name]
        figures = (or_dash(kept.get(metric)) for metric in SHOWN)
        rows.append((str(entry["run_id"]), str(kept["verdict"]), *figures, str(entry["commit"])))
    table = html_table(("run", "verdict", *map(_label, SHOWN), "commit"), rows)
    yield f"<details><summary>{counted(len(entries), 'run')} as a table</summary>{table}</details>"


def _label(metric: str) -> str:
    info = metric_info(metric)
    return f"{metric}, {info.unit}" if info and info.unit else metric


def _chart(name: str, metric: str, entries: Sequence[Mapping[str, Any]]) -> str:
    values = [float(entry["rows"][name][metric]) for entry in entries]
    limits = [(entry["rows"][name].get("limits") or {}).get(metric) for entry in entries]
    top = max([*values, *(limit for limit in limits if limit is not None)]) * HEADROOM or 1.0
    step = (WIDTH - LEFT - RIGHT) / max(1, len(values) - 1)

    def x(place: int) -> float:
        return LEFT + (place * step if len(values) > 1 else (WIDTH - LEFT - RIGHT) / 2)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    parts = [
        f'<line class="axis" x1="{LEFT}" y1="{y(at):.1f}" x2="{WIDTH - RIGHT}" y2="{y(at):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{number(at)}</text>'
        for at in ticks(top)
    ]
    for place, (before, after) in enumerate(pairwise(entries), 1):
        if words := _differences(before, after):
            parts.append(_upright("mark", x(place) - step / 2, words))
    drifts = list(_drifts(name, metric, entries))
    parts += [_upright("moved", x(place) - step / 2, str(drift)) for place, drift in drifts]
    for same in _stretches(entries):
        parts.append(f'<polyline class="series" points="{" ".join(f"{x(n):.1f},{y(values[n]):.1f}" for n in same)}"/>')
        held = [(n, limit) for n in same if (limit := limits[n]) is not None]
        parts.append(f'<polyline class="limit" points="{" ".join(f"{x(n):.1f},{y(v):.1f}" for n, v in held)}"/>')
    for place, (entry, value) in enumerate(zip(entries, values, strict=True)):
        words = f"{entry['run_id']}: {number(value)}, {entry['rows'][name]['verdict']}, commit {entry['commit']}"
        parts.append(_point(MARKS.get(entry["rows"][name]["verdict"], "r"), x(place), y(value), words))
    ends = "".join(
        f'<text x="{at}" y="{HEIGHT - 8}" text-anchor="{anchor}">{_day(entry)}</text>'
        for at, anchor, entry in ((LEFT, "start", entries[0]), (WIDTH - RIGHT, "end", entries[-1]))[: len(entries)]
    )
    title = f"{name}: {_label(metric)}, {counted(len(values), 'run')}, latest {number(values[-1])}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(title)}">'
        f'<text x="{LEFT}" y="16">{escaped(_label(metric))}</text>{"".join(parts)}{ends}</svg>'
        + "".join(f'<p class="note">Change point: {escaped(drift)}</p>' for _, drift in drifts)
    )


def _upright(kind: str, at: float, words: str) -> str:
    ends = f'x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}"'
    return f'<line class="{kind}" {ends}><title>{escaped(words)}</title></line>'


def _point(mark: str, x: float, y: float, words: str) -> str:
    title = f"<title>{escaped(words)}</title>"
    if mark == "x":
        return f'<path class="x" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8">{title}</path>'
    return f'<circle class="{mark}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{title}</circle>'


def _stretches(entries: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Return the indexes of the runs of each kind."""
    stretches: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        stretches.setdefault(repr(kind_of(entry)), []).append(place)
    return list(stretches.values())


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    pairs = {key: (before[key], after[key]) for key in ("commit", "tier", "driver", "profile")}
    names = {**before["facts"], **after["facts"]}
    pairs |= {key: (before["facts"].get(key), after["facts"].get(key)) for key in names}
    return "; ".join(f"{key} was {old}, is {new}" for key, (old, new) in pairs.items() if old != new)


def _drifts(name: str, metric: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Drift]]:
    """Yield index and words of each change point over sound runs of the latest run's kind."""
    kind = kind_of(entries[-1])
    alike = [n for n, entry in enumerate(entries) if kind_of(entry) == kind and is_sound(entry["rows"][name])]
    series = [(str(entries[n]["started"]), float(entries[n]["rows"][name][metric])) for n in alike]
    for index, drift in changes_of(name, metric, series):
        yield alike[index], drift


def _day(entry: Mapping[str, Any]) -> str:
    return escaped(str(entry["started"])[:10])
