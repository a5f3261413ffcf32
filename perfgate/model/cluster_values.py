"""Values that name what brokers and clients are made of: releases, images, builds, options of a JVM."""

from __future__ import annotations

import re

from perfgate.model.errors import ConfigurationError


def release(path: str, value: object) -> str:
    """Return `value` if it reads like a Kafka release. Raises ConfigurationError, with the `path` or option."""
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d+\.\d+([.-][A-Za-z0-9][\w.-]*)?", value):
        raise ConfigurationError(
            f"{path} {value!r} is not a Kafka release; write it as in 4.3.1, or as a build of your own is called in "
            "your Maven repository, as in 4.4.0-SNAPSHOT"
        )
    return value


def release_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in front of a version: (4, 3, 1) of 4.3.1, (4, 4, 0) of 4.4.0-SNAPSHOT; none of no version."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def client_version(path: str, value: object) -> str:
    """Return a release of confluent-kafka. Raises ConfigurationError."""
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d+\.\d+", value):
        raise ConfigurationError(f"{path} {value!r} is no release of confluent-kafka; write it as in 2.11.0")
    return value


def image(path: str, value: object) -> str:
    """Return the name of an image. Raises ConfigurationError."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.\-/:@]+", value):
        raise ConfigurationError(f'{path} = {value!r} must name an image, as in "apache/kafka:4.3.1"')
    return value


def home(path: str, value: object) -> str:
    """Return where a build of Kafka is. Raises ConfigurationError."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{path} = {value!r} must name a folder or an archive of Kafka")
    return value.strip()


def options(path: str, value: object) -> tuple[str, ...]:
    """Return options of a JVM, which may stand in one text. Raises ConfigurationError."""
    options = value.split() if isinstance(value, str) and value.startswith("-") else value
    if not isinstance(options, list | tuple) or not all(
        isinstance(option, str) and re.match(r"-\S+$", option) for option in options
    ):
        raise ConfigurationError(f'{path} = {value!r} must be a list of texts like "-Xmx1g"')
    return tuple(options)
