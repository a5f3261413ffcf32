"""time: nothing is done, the load goes on; growth of latency, CPU and memory over time is judged."""

from perfgate.faults.costs import unmoved
from perfgate.model.faults import NOTHING_DONE, FaultKind, Figures, Scene

GROWN = {"p99_growth": (1.5, 2.0), "cpu_per_record_growth": (1.5, 2.0), "memory_growth": (1.25, 1.5)}
"""Factors by which a figure may grow over time: more than the first is in doubt, more than the second is red. Speed
wanders with the machine (by a half within a day: docs/verdict-quality.md), memory does not; measured in 30 min: 0.99,
1.00 and 1.02. A stored threshold is stricter, and one that noise made wider takes neither away."""
WORDS = {"p99_growth": "p99", "cpu_per_record_growth": "CPU per record", "memory_growth": "memory"}


def _act(scene: Scene) -> None:
    scene.mark(NOTHING_DONE)
    scene.hold()
    scene.mark("the time is over")


def _note(figures: Figures) -> str:
    grown = [(words, value) for name, words in WORDS.items() if (value := figures.value(name)) is not None]
    return f"end over start: {', '.join(f'{words} x {value:.2f}' for words, value in grown)}" if grown else ""


FAULT = FaultKind(
    name="time",
    act=_act,
    sending=unmoved,
    commands=(),
    brokers_down=0,
    harmless=True,
    meanwhile="going on",
    note=_note,
)
