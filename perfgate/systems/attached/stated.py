"""Values of a target file as they are stated: secrets, and what is kept in the environment or in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import SHORTEST_WORD, Secret, from_environment

SECRET_SETTINGS = re.compile(
    r".*(password|passphrase|secret|key\.pem)$|sasl\.(oauthbearer\.(config|extensions)|jaas\.config)"
)
SECRET_HEADERS = re.compile(r".*(authorization|token|key|secret|password|cookie).*", re.IGNORECASE)
PUBLIC = re.compile(r"security\.protocol|sasl\.mechanisms?|bootstrap\.servers|properties-file")
"""Never secrets: names of a protocol, addresses by which a person knows the cluster, a path."""
USER_OF_A_URL = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#@\s:]*(?::([^/?#@\s]*))?)@", re.IGNORECASE)


class NotSetError(ConfigurationError):
    """A setting's environment variable is not set."""

    def __init__(self, message: str, variable: str) -> None:
        super().__init__(message)
        self.variable = variable


def as_stated(name: str, value: str, *, elsewhere: bool) -> str:
    """Return a setting: a Secret by its name, by a user in its URL, or kept `elsewhere` (environment, another file)."""
    if SECRET_SETTINGS.fullmatch(name):
        return Secret(value)
    if user := USER_OF_A_URL.match(value):
        for part in filter(None, user.groups()):
            Secret(part)  # a library may print the address without them, or them without it
        return Secret(value)
    return Secret(value, searched_from=SHORTEST_WORD) if elsewhere and not PUBLIC.fullmatch(name) else value


def is_elsewhere(value: object) -> bool:
    """Whether a value of the file refers to another place: { env = "NAME" } or { file = "PATH" }."""
    return isinstance(value, dict)


def path_of(folder: Path, location: str) -> Path:
    """Return a path of the file, which lies beside it unless it begins elsewhere: ~ is a home."""
    with suppress(RuntimeError):  # nobody of this name has a home
        return folder / Path(location).expanduser()
    return folder / location


def all_resolved(folder: Path, table: Mapping[str, object], where: str = "[client]") -> dict[str, str]:
    """Return a table's values as :func:`resolved` does. Raises ConfigurationError, of all variables not set at once."""
    settings, unset = dict[str, str](), dict[str, NotSetError]()
    for name, value in table.items():
        try:
            settings[name] = resolved(folder, name, value, where)
        except NotSetError as error:
            unset[name] = error
    if len(unset) > 1:
        variables = ", ".join(error.variable for error in unset.values())
        raise ConfigurationError(f"{where} {', '.join(unset)}: the environment variables {variables} are not set")
    if unset:
        raise next(iter(unset.values()))
    return settings


def resolved(folder: Path, name: str, value: object, where: str = "[client]") -> str:
    """Return a setting's value, read from { env = "NAME" } or { file = "PATH" }. Raises ConfigurationError, `where`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    match value:
        case {"env": str(variable), **rest} if not rest:
            try:
                return from_environment(variable)
            except KeyError:
                raise NotSetError(f"{where} {name}: the environment variable {variable} is not set", variable) from None
        case {"file": str(location), **rest} if not rest:
            try:
                return path_of(folder, location).read_text().rstrip("\n")
            except (OSError, ValueError) as error:  # ValueError: neither a path, nor a text
                raise ConfigurationError(f"{where} {name}: cannot read {folder / location}: {error}") from None
    if isinstance(value, dict):
        raise ConfigurationError(
            f'{where} {name}: a setting\'s name is quoted, as in "sasl.password", and its value is a text, a number, '
            '{ env = "NAME" } or { file = "PATH" }'
        )
    raise ConfigurationError(f"{where} {name} must be a text, a number, true or false")
