"""Look-back of a PromQL expression: the seconds before each of its points that it covers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfgate.model.errors import ConfigurationError

UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "y": 31_536_000.0}
OF_LAST_TWO = ("irate", "idelta")
"""Functions that go by the last two scrapes of their range, however long that is."""
NOT_READ = re.compile(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'|`[^`]*`|#[^\n]*")
TOKEN = re.compile(r"\[[^]]*\]|[A-Za-z_:][\w:]*|\d[\w.]*|\S")


@dataclass(slots=True)
class _Bracket:
    """An open parenthesis: the function that it belongs to, and how far what stands in it looks back (s)."""

    function: str = ""
    longest_s: float = 0.0
    last_s: float = 0.0
    """The same of the operand that was read last, which a range or an offset behind it makes longer."""

    def next_operand(self) -> None:
        self.longest_s, self.last_s = max(self.longest_s, self.last_s), 0.0


def looks_back_s(query: str) -> float:
    """Return how many seconds the expression looks back at most: nested ranges and offsets add up.

    What a recording rule looks back cannot be seen. Raises ConfigurationError for what tells of no time before a point:
    `@`, an offset into the future, a duration that is computed.
    """
    text = re.sub(r"\{[^}]*\}", "", NOT_READ.sub("", query))  # label values and comments may have brackets
    tokens = TOKEN.findall(text)
    open_: list[_Bracket] = [_Bracket()]
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        here = open_[-1]
        if token == "@":
            raise ConfigurationError("[prometheus] query: @ asks for one moment, not for that of the window")
        if token == "(":
            open_.append(_Bracket(before.lower()))
        elif token == ")" and len(open_) > 1:
            here.next_operand()
            open_.pop()
            open_[-1].next_operand()
            open_[-1].last_s = here.longest_s
        elif token.startswith("["):
            span, subquery, _ = token.strip("[]").partition(":")
            if subquery or here.function not in OF_LAST_TWO:
                here.last_s += _span_s(span)
        elif _is_offset(token, after):
            here.last_s += _span_s(after)
        elif not _is_offset(before, token):
            here.next_operand()
    for one in open_:
        one.next_operand()
    return max(one.longest_s for one in open_)


def duration_s(text: str) -> float:
    """Return a Prometheus duration such as 1m30s in s; 0 for what is none."""
    parts = re.findall(r"([\d.]+)(ms|[smhdwy])", text)
    return sum(float(number) * UNITS[unit] for number, unit in parts) if "".join(map("".join, parts)) == text else 0.0


def _is_offset(token: str, after: str) -> bool:
    """Return whether the token is the keyword, which a metric may be called, too."""
    return token.lower() == "offset" and (after[:1].isdigit() or after in ("-", "+", "("))


def _span_s(text: str) -> float:
    """Return a range or an offset in s; Prometheus 3 takes plain seconds too."""
    span = "".join(text.split())
    seconds = float(span) if re.fullmatch(r"\d+(\.\d+)?", span) else duration_s(span)
    if not seconds and not re.fullmatch(r"0[a-z]*", span):
        raise ConfigurationError(
            f"[prometheus] query: {text!r} is no range or offset back in time, as in [30s] or offset 5m"
        )
    return seconds
