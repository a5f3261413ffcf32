"""The ways in which a value may be written: escaped for JSON, HTML, URLs or Python, as base64, in several encodings."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

LEAST_BASE64 = 8
"""Fewer characters of base64 would be found by chance in every picture."""
WIDE = ("utf-16-le", "utf-16-be")
LOSSLESS = "surrogateescape"
"""Bytes of the environment that are no UTF-8 stand for themselves in Python's texts, and are written as they were."""


def written_forms(value: str) -> frozenset[str]:
    """Return the texts that stand for the value: itself, escaped once, and what is escaped for two formats in turn."""
    nested = {value, *_escaped(value)}
    twice = {form for one in nested for form in (*_escaped(one), *_of_html(one))}
    return frozenset({*nested, *twice, *_of_urls(value), *_of_base64(value.encode(errors=LOSSLESS))})


def in_bytes(form: str, encodings: Iterable[str]) -> dict[bytes, bytes]:
    """Return the form in each encoding that has its characters, and as many asterisks in the same encoding."""
    found = {}
    for encoding in encodings:
        try:
            written = form.encode(encoding, LOSSLESS if encoding == "utf-8" else "strict")
        except UnicodeEncodeError:
            continue
        asterisk = "*".encode(encoding)
        found[written] = asterisk * (len(written) // len(asterisk))
    return found


def _escaped(value: str) -> Iterable[str]:
    """As JSON, with and without its other alphabets escaped, and as Python prints it."""
    return json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]


def _of_html(value: str) -> Iterable[str]:
    """As HTML and XML: quotes are escaped in attributes, the single one in three ways."""
    whole = html.escape(value)
    return (
        whole,
        html.escape(value, quote=False),
        whole.replace("&#x27;", "'"),
        whole.replace("&#x27;", "&#39;"),
        whole.replace("&#x27;", "&apos;"),
    )


def _of_urls(value: str) -> Iterable[str]:
    ways = ((quote, ""), (quote, "/"), (quote_plus, ""))
    forms = [way(value, safe=safe, errors=LOSSLESS) for way, safe in ways]
    return (*forms, *(re.sub("%..", lambda code: code[0].lower(), form) for form in forms))


def _of_base64(data: bytes) -> Iterable[str]:
    """As part of a longer text in base64 (of `user:password`, say): what does not depend on what is beside it."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data).decode()
        begin, end = (0, 2, 3)[before], (before + len(data)) * 8 // 6
        if end - begin >= LEAST_BASE64:
            core = text[begin:end]
            yield from (core, core.replace("+", "-").replace("/", "_"))
