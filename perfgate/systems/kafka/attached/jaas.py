"""A line of JAAS configuration (`sasl.jaas.config`), read as Kafka's Java client reads it.

Its JaasConfig class takes it apart with a StreamTokenizer: words, texts in single or double quotes with the escapes of
Java, and comments of both kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perfgate.model.errors import ConfigurationError

LOGIN_MODULES = ("plain.PlainLoginModule", "scram.ScramLoginModule", "oauthbearer.OAuthBearerLoginModule")
OPTIONS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
FLAGS = ("required", "requisite", "sufficient", "optional")
TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'"""
    r"""|(?P<mark>[=;])|(?P<word>[^\s"'=;]+)""",
    re.DOTALL,
)
ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
ESCAPES = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
READS_LIKE = 'property \'sasl.jaas.config\' does not read like: <login module> required username="..." password="...";'


def login_of(jaas: str) -> dict[str, str]:
    """Return librdkafka's settings for a log-in. Raises ConfigurationError; the message never holds a value."""
    tokens = list(_tokens(jaas))
    if len(tokens) < 3 or tokens[-1] != ("mark", ";") or len(tokens) % 3:
        raise ConfigurationError(READS_LIKE)
    (_, module), (_, flag) = tokens[:2]
    if module.removeprefix("org.apache.kafka.common.security.") not in LOGIN_MODULES:
        shown = module if re.fullmatch(r"[\w$]+(\.[\w$]+)+", module) else "this one"
        raise ConfigurationError(
            f"property 'sasl.jaas.config': login module {shown} has no counterpart in librdkafka; "
            f"translated are {', '.join(LOGIN_MODULES)} of org.apache.kafka.common.security"
        )
    if flag.lower() not in FLAGS:
        raise ConfigurationError(READS_LIKE)
    found = {}
    for (_, name), equals, (kind, value) in zip(tokens[2:-1:3], tokens[3:-1:3], tokens[4:-1:3], strict=True):
        if equals != ("mark", "=") or kind == "mark":
            raise ConfigurationError(READS_LIKE)
        if name not in OPTIONS:
            shown = f"option {name!r}" if re.fullmatch(r"\w+", name) else "an option"
            raise ConfigurationError(f"property 'sasl.jaas.config': {shown} has no counterpart in librdkafka")
        found[OPTIONS[name]] = value
    return found


def _tokens(jaas: str) -> Iterator[tuple[str, str]]:
    """Return kind (mark, word or text) and value of each token. Raises ConfigurationError."""
    at = 0
    while at < len(jaas):
        token = TOKEN.match(jaas, at)
        if token is None:
            raise ConfigurationError(READS_LIKE)
        at = token.end()
        for kind in ("mark", "word"):
            if token[kind] is not None:
                yield kind, token[kind]
        for quoted in (token["double"], token["single"]):
            if quoted is not None:
                yield "text", ESCAPE.sub(_escaped, quoted)


def _escaped(found: re.Match[str]) -> str:
    of_octal = found[1][0] in "01234567"
    return chr(int(found[1], 8)) if of_octal else ESCAPES.get(found[1], found[1])
