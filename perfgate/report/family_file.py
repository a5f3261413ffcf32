"""Texts of family files: for a load like that of a topic in use (--like), and for a workload of another tool."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from textwrap import fill
from typing import Any

from perfgate.model import Load
from perfgate.model.catalogue import Family
from perfgate.model.sizes import LEAST_BYTES, MOST_BYTES
from perfgate.model.target import ObservedTopic

LEAST_RECORD_BYTES = 32
"""With room for the time at which it was sent, for the latency from send to receipt."""
KEYED = 0.5
"""The records of the scenario have keys from this share of the sample on."""
RANDOM_KEYS = 0.5
"""More different keys than this share of the keyed records count as random keys."""
COMPRESSIBLE, MOST_RATIO = 1.1, 100.0
PACKED = 1.3
"""Uncompressed batches hold less than one byte of records per byte, because of headers."""
UNEVEN = 1.5
"""Records whose longest twentieth is this many times as long as the shortest are of several sizes."""
BASE_RATE = 500
"""Records/s of the base, used where the topic's own rate is not known."""
WIDTH = 100
INDENT = "    "


def family_name(topic: str) -> str:
    """Return the family's name: `like-` and the topic's, as scenario names are written."""
    return f"like-{re.sub(r'[^a-z0-9]+', '-', topic.lower()).strip('-') or 'topic'}"


def family_text(topic: ObservedTopic, written: datetime, text_ratio: float) -> str:
    """Return the text of a module for own scenarios; `text_ratio`: gzip's ratio for the text most like the sample."""
    name, sample = family_name(topic.name), topic.sample
    cluster = re.sub(r"[^\w .:/-]", "?", topic.cluster)  # its file may call it anything
    base, rate = name.upper().replace("-", "_"), _rounded(topic.rate) if topic.rate > 0 else BASE_RATE
    about = f"the load of topic {topic.name} of {cluster}, at its rate and at twice that"
    used, sizes = record_bytes(topic), record_sizes(topic)
    longer = f"; one with its time has {used} B at least" if used > sample.record_bytes else ""
    changes = [
        ("topic.partitions", topic.partitions, "described"),
        ("topic.replicas", topic.replication_factor, "described"),
        *((f"topic.{setting}", _value(value), "described: not the default") for setting, value in topic.config),
        (
            "record.bytes",
            used,
            f"mean of the sample: {sample.record_bytes:,} B; median {sample.record_bytes_median:,} B, p99 "
            f"{sample.record_bytes_p99:,} B{longer}",
        ),
        *([("record.sizes", sizes, "the mean of each twentieth of the sample's sizes")] if sizes else []),
        ("record.keys", _keys(topic), f"{sample.keyed:,} of the sample have a key, {sample.keys:,} different ones"),
        (
            "record.payload",
            _payload(topic, text_ratio),
            f"gzip made the sample's values {sample.gzip_ratio:.1f} times smaller",
        ),
        *_compression(topic),
    ]
    rate_from = (
        f"over {topic.rate_over_s:.0f} s, from the end offsets: {topic.rate:,.1f} records/s"
        if topic.rate > 0
        else f"NOT KNOWN: nothing was written in {topic.rate_over_s:.0f} s; {BASE_RATE:,}/s is the base's"
    )
    unknown = (
        "The brokers do not tell: acks, linger.ms, batch.size and idempotence of the producers, and how many there are "
        "(the base has one, acks=-1, linger.ms=0, 16 KiB); with which codec the producers compress their batches, "
        "unless the topic does; who reads, and how far behind. End offsets count the markers of transactions too. Keys "
        "here have 16 bytes."
    )
    head = f"A load like that of topic {topic.name} of {cluster}, as it was at {written:%Y-%m-%d %H:%M} UTC."
    lines = [
        f'"""{head}',
        "",
        fill(
            f"Written by --like, from what the brokers describe and a sample of {sample.records:,} records, of which "
            "sizes and counts alone were kept. Where each figure comes from stands beside it.",
            WIDTH,
        ),
        "",
        fill(unknown, WIDTH),
        '"""',
        "",
        "from perfgate.model import with_changes",
        "from perfgate.model.catalogue import family",
        "from perfgate.catalogue.bases import PACED",
        "",
        f"{base} = with_changes(",
        "    PACED,",
        "    [",
        *(f"        ({_quoted(path)}, {_quoted(value)}),  # {why}" for path, value, why in changes),
        "    ],",
        ")",
        "",
        f"RATE = {_quoted(rate)}  # records/s {rate_from}",
        "",
        "FAMILIES = (",
        "    family(",
        f"        {_quoted(name)},",
        f"        {_quoted(about)},",
        f"        base={base},",
        '        varies="load.rate",',
        f"        smoke={{{_quoted(name)}: RATE}},",
        f"        nightly={{{_quoted(f'{name}-double')}: 2 * RATE}},",
        "    ),",
        ")",
    ]
    return "\n".join(lines) + "\n"


def record_bytes(topic: ObservedTopic) -> int:
    return max(LEAST_RECORD_BYTES, topic.sample.record_bytes)


def record_sizes(topic: ObservedTopic) -> str:
    """Return its records' sizes, as record.sizes takes them; empty where all are about as long."""
    lengths = [min(MOST_BYTES, max(LEAST_BYTES, length)) for length in topic.sample.record_sizes]
    if not lengths or lengths[-1] < UNEVEN * lengths[0]:
        return ""
    return "values:" + "/".join(f"{length}={count}" for length, count in Counter(lengths).items())


def _rounded(rate: float) -> float | int:
    return round(rate) if rate >= 10 else max(0.01, float(f"{rate:.2g}"))


def _value(value: str) -> str | int:
    return int(value) if re.fullmatch(r"\d{1,18}", value) else value


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # which Python reads alike


def _keys(topic: ObservedTopic) -> str | int:
    sample = topic.sample
    if sample.keyed < KEYED * sample.records or not sample.keys:
        return "none"
    return "random" if sample.keys > RANDOM_KEYS * sample.keyed else sample.keys


def _compression(topic: ObservedTopic) -> list[tuple[str, str, str]]:
    sample = topic.sample
    if sample.packed is None or sample.packed < PACKED or "compression.type" in dict(topic.config):
        return []
    why = f"ASSUMED: each byte from the brokers held {sample.packed:.1f} B of records, of a codec that nobody tells"
    return [("producer.compression.type", "lz4", why)]


def _payload(topic: ObservedTopic, text_ratio: float) -> str:
    seen = topic.sample.gzip_ratio
    if seen < COMPRESSIBLE or text_ratio < COMPRESSIBLE or seen**2 < text_ratio:
        return "random"
    return f"text:{min(text_ratio, MOST_RATIO):.2f}"


def workload_text(family: Family, file: str, notes: tuple[str, ...]) -> str:
    """Return the text of a module for own scenarios; `notes`: what is not as the workload's `file` has it."""
    (scenario,) = family.scenarios
    names = sorted(set(_names(scenario)), key=str.lower)
    constant = scenario.name.upper().replace("-", "_")
    differing = [fill(f"- {_plain(note)}", WIDTH, subsequent_indent="  ") for note in notes]
    about = _plain(f"{family.about[:1].upper()}{family.about[1:]}, from {file}.")
    lines = [
        f'"""{about}',
        *(["", "Otherwise than that file has it:", ""] if differing else []),
        *differing,
        '"""',
        "",
        f"from perfgate.model import {', '.join(names)}",
        "from perfgate.model.catalogue import Family",
        "",
        f"{constant} = {_code(scenario, '')}",
        "",
        "FAMILIES = (",
        f"    Family(name={_quoted(family.name)}, about={_quoted(family.about)}, scenarios=({constant},)),",
        ")",
    ]
    return "\n".join(lines) + "\n"


def _stated(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass that differ from their defaults; of a load its kind always."""
    for field in fields(value):
        here = getattr(value, field.name)
        usual = field.default_factory() if field.default_factory is not MISSING else field.default
        if here != usual or (isinstance(value, Load) and field.name == "kind"):
            yield field.name, here


def _type_name(value: object) -> str:
    return "Load" if isinstance(value, Load) else type(value).__name__


def _names(value: Any) -> Iterator[str]:
    if is_dataclass(value):
        yield _type_name(value)
        for _, inner in _stated(value):
            yield from _names(inner)
    elif isinstance(value, tuple):
        if _is_settings(value):
            yield "settings"
        for inner in value:
            yield from _names(inner)


def _is_settings(value: tuple[Any, ...]) -> bool:
    return bool(value) and all(isinstance(item, tuple) and [*map(type, item)] == [str, str] for item in value)


def _code(value: Any, indent: str) -> str:
    """Return a value as Python, in lines of WIDTH where it is a call of several arguments."""
    if is_dataclass(value):
        parts = [f"{key}={_code(inner, indent + INDENT)}" for key, inner in _stated(value)]
        return _listed(f"{_type_name(value)}(", parts, ")", indent)
    if isinstance(value, tuple) and _is_settings(value):
        inside = _listed("{", [f"{_quoted(name)}: {_quoted(text)}" for name, text in value], "}", indent)
        return f"settings({inside})"
    if isinstance(value, tuple):
        parts = [_code(inner, indent + INDENT) for inner in value]
        return _listed("(", parts, ",)" if len(parts) == 1 else ")", indent)
    return _quoted(value) if isinstance(value, str) else repr(value)


def _listed(opened: str, parts: list[str], closed: str, indent: str) -> str:
    line = f"{opened}{', '.join(parts)}{closed}"
    if "\n" not in line and len(indent) + len(line) < WIDTH - 20:
        return line
    inner = "".join(f"{indent}{INDENT}{part},\n" for part in parts)
    return f"{opened}\n{inner}{indent}{closed.lstrip(',')}"


def _plain(text: str) -> str:
    return text.replace('"""', "'''").replace("\\", "/")
