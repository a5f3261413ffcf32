"""The table of a run that was held against a reference: both figures and their ratio."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.judge.phrases import number
from perfgate.model import Comparison, Outcome, metric_info

REFERENCE_COLUMNS = (
    "scenario",
    "metric",
    "reference",
    "here",
    "ratio",
    "interval",
    "must be",
    "units",
    "min",
    "verdict",
)


def reference_rows(outcomes: Mapping[str, Outcome], references: Mapping[str, Comparison]) -> list[tuple[str, ...]]:
    """Return the cells of REFERENCE_COLUMNS, a row for each ratio, with its interval of 95 % that allows for looks."""
    rows: list[tuple[str, ...]] = []
    for name, comparison in references.items():
        for judgement in outcomes[name].judgements if name in outcomes else ():
            info, known = metric_info(judgement.metric), judgement.measured is not None and judgement.baseline
            cells = ("-",) * 5
            if info and known and judgement.measured is not None and judgement.interval and judgement.limit is not None:
                low, high = (end / known for end in judgement.interval)
                cells = (
                    number(known),
                    number(judgement.measured),
                    f"{judgement.measured / known:.3f}",
                    f"{low:.3f} .. {high:.3f}",
                    f"{info.bound} {judgement.limit / known:.2f}",
                )
            spent = (str(len(comparison.orders)), f"{comparison.minutes:.1f}")
            rows.append((name, judgement.metric, *cells, *spent, judgement.verdict.value))
    return rows
