"""A Java client's properties in librdkafka's words: what means the same is translated, and what is not is told."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import javaproperties

from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.jaas import login_of
from perfgate.systems.kafka.attached.java_settings import RENAMED, SAME_NAME, SETTINGS, STORES, Treatment
from perfgate.systems.kafka.client.iam import MECHANISM as IAM

OIDC_HANDLER = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerLoginCallbackHandler"
)
HANDLERS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
OF_IAM = re.compile(r"software\.amazon\.msk\.auth\.iam\.\w+")
IAM_LOGIN = re.compile(rf"\s*{OF_IAM.pattern}\s+required\s*(awsDebugCreds\s*=\s*\"?(true|false)\"?\s*)?;\s*")
"""The vendor's classes, all of which stand for its mechanism."""
ELSEWHERE = re.compile(r"\$\{[^}]*\}")
"""A value that a configuration provider of Java, or a template, is to put in."""

Convert = Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Translated:
    """What a Java client's properties come to: librdkafka's settings, and notes on what was left out."""

    settings: dict[str, str]
    notes: tuple[str, ...] = ()


def read_properties(path: Path) -> dict[str, str]:
    """Return what a Java properties file says. Raises ConfigurationError; the message never holds a value."""
    try:
        content = path.read_bytes().removeprefix(BOM_UTF8)  # some editors put it in front
        return dict(javaproperties.load(BytesIO(content)))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}: not a Java properties file ({error.__class__.__name__})") from None


def translated(properties: Mapping[str, str], convert: Convert) -> Translated:
    """Return the same in librdkafka's settings.

    `convert` is given the store settings (location, password, type of trust store and key store, and the key's
    password) and returns librdkafka's. Raises ConfigurationError naming the property that cannot be translated; the
    message never holds a value.
    """
    found: dict[str, str] = {}
    stores: dict[str, str] = {}
    of_scenarios: list[str] = []
    ignored: dict[str, list[str]] = {}
    for name, value in properties.items():
        known = SETTINGS.get(name)
        if known is None:
            raise ConfigurationError(
                f"property {name!r} is no setting of Kafka's clients; leave it out, or state what it is for in [client]"
            )
        if known.treatment is Treatment.SCENARIO:
            of_scenarios.append(name)
        elif known.treatment is Treatment.IGNORED:
            ignored.setdefault(known.words, []).append(name)
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
            found.update(_one(name, value.strip() if name not in RENAMED else value))
    if any(OF_IAM.match(properties.get(name, "").strip()) for name in ("sasl.jaas.config", *HANDLERS)):
        found["sasl.mechanisms"] = IAM
    if "sasl.oauthbearer.client.id" in found:
        found.setdefault("sasl.oauthbearer.method", "oidc")
    settings = {**found, **convert(stores)} if stores else found
    notes = [f"{', '.join(of_scenarios)}: left out, scenarios state what producers and consumers do"]
    return Translated(
        settings,
        (
            *(notes if of_scenarios else ()),
            *(f"{', '.join(names)}: left out, {why}" for why, names in ignored.items()),
        ),
    )


def _one(name: str, value: str) -> dict[str, str]:
    """Return librdkafka's settings for one that is translated by itself."""
    if name in RENAMED:
        return {RENAMED[name]: value}
    if name == "sasl.jaas.config":
        return {} if _is_iam_login(value) else login_of(value)
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
    """Return whether the line is the log-in of AWS_MSK_IAM. Raises ConfigurationError where it states whose."""
    if not OF_IAM.match(jaas.strip()):
        return False
    if not IAM_LOGIN.fullmatch(jaas):
        raise ConfigurationError(
            "property 'sasl.jaas.config': of IAMLoginModule no option is translated; say whose credentials are used by "
            "AWS_PROFILE in the environment"
        )
    return True
