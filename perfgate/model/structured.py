"""Values from files as types: unknown keys, missing ones, other types, NaN and infinity are errors that name them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, dataclass_transform, get_args, get_type_hints

from annotated_types import Gt
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from perfgate.model.errors import ConfigurationError

T = TypeVar("T")
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
Positive = Annotated[float, Gt(0), "must be a positive number"]
"""As every type of a file's value it ends with the words for any other value."""
adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Reads and writes a `strict` type."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def strict(kind: type[T]) -> type[T]:
    """Make a frozen dataclass that is read from a file: it and all types inside it are read strictly."""
    return with_config(STRICT)(dataclass(frozen=True, kw_only=True, slots=True)(kind))


def shallow(value: Any) -> dict[str, Any]:
    """Return a dataclass's fields by name, themselves unchanged."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def shared(kind: Any, *sources: Any) -> dict[str, Any]:
    """Return the sources' attributes that are fields of a dataclass, by name."""
    return {field.name: getattr(s, field.name) for field in fields(kind) for s in sources if hasattr(s, field.name)}


def toml_of(path: Path, stated: str, missing: str = "") -> dict[str, Any]:
    """Return a TOML file's tables. Raises ConfigurationError that begins with `stated`; `missing`: help for no file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors put a mark of the encoding in front
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = f"no such file; {missing}" if missing and isinstance(error, FileNotFoundError) else why_unread(error)
        raise ConfigurationError(f"{stated}: {reason}") from None  # its context would show the line, secrets included


def why_unread(error: Exception) -> str:
    """Return the reason why a file of the user's cannot be read, without a line of it: that may hold a secret."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is no UTF-8 text (byte {error.start}): save it as UTF-8"
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else str(error)


def structured(kind: type[T], value: Mapping[str, Any], where: str) -> T:
    """Return `value` as a `strict` type. Raises ConfigurationError naming `where`, key, value and what is legal.

    It is read as JSON: a list stands for a tuple, an object for a dataclass; nothing else is converted.
    """
    try:
        # What JSON has not, as TOML's dates, is put where nothing takes it.
        return cast("T", adapter(kind).validate_json(json.dumps(value, default=lambda other: [str(other)])))
    except ConfigurationError as error:
        raise ConfigurationError(f"{where} {error}") from None
    except ValidationError as error:  # `from None`: its text may hold a secret
        raise ConfigurationError(f"{where} {_words(kind, value, error)}") from None


def _words(kind: type[Any], value: Mapping[str, Any], error: ValidationError) -> str:
    # A key that is misspelt is also missing: the misspelling is what helps.
    fault = min(error.errors(include_url=False), key=lambda fault: fault["type"] != "unexpected_keyword_argument")
    key, *inner = map(str, fault["loc"] or ("",))
    if fault["type"] == "unexpected_keyword_argument" and not inner:
        return f"has unknown key {key!r}; legal: {', '.join(field.name for field in fields(kind))}"
    path = ".".join((key, *inner))
    if fault["type"] == "missing":
        return f"lacks the key {path!r}"
    hint = get_type_hints(kind, include_extras=True).get(key)
    if fault["type"] == "literal_error" and not inner:
        return f"{key} = {value[key]!r} is not legal; legal: {', '.join(get_args(hint))}"
    stated = next((words for words in _marks(hint) if isinstance(words, str)), "")
    return f"{key} = {value[key]!r} {stated}" if stated else f"{path} = {fault['input']!r} {fault['msg']}"


def _marks(hint: Any) -> Iterator[Any]:
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        yield from getattr(inner, "__metadata__", ())
