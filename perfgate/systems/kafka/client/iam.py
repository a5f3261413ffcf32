"""Log-in by AWS_MSK_IAM for clients of librdkafka: tokens for OAUTHBEARER by the vendor's signer.

The brokers of the service take such a token for its own mechanism. It is a signed address that is made from AWS
credentials where the client runs, without any request, and lasts 15 min (aws-msk-iam-sasl-signer-python).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from perfgate.model.command import installing
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret

MECHANISM = "AWS_MSK_IAM"
REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com(?:\.cn)?(?::|,|$)")
"""In the name of a broker of the service, as in b-1.orders.a1b2c3.c2.kafka.eu-west-1.amazonaws.com:9098."""

Token = tuple[str, float]
"""Its text, and until when it is valid, in s since the epoch."""


def mechanism_of(settings: Mapping[str, str]) -> str:
    """Return the SASL mechanism, in capitals; librdkafka's default is GSSAPI."""
    return settings.get("sasl.mechanisms", settings.get("sasl.mechanism", "GSSAPI")).upper()


def logs_in_by_iam(settings: Mapping[str, str]) -> bool:
    return mechanism_of(settings) == MECHANISM


def without_iam(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that librdkafka takes in place of these, which need tokens besides."""
    kept = {name: value for name, value in settings.items() if name not in ("sasl.mechanisms", "sasl.mechanism")}
    return {**kept, "sasl.mechanisms": "OAUTHBEARER"}


def with_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for a client of confluent-kafka, which asks for tokens when it needs them."""
    if not logs_in_by_iam(settings):
        return dict(settings)
    token = tokens(settings)
    return {**without_iam(settings), "oauth_cb": lambda _config: token()}


def tokens(settings: Mapping[str, str]) -> Callable[[], Token]:
    """A maker of tokens for the brokers of these settings. Both raise ConfigurationError."""
    region = _region(settings.get("bootstrap.servers", ""))
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        signer = f"sasl.mechanisms {MECHANISM} needs the vendor's signer"
        raise ConfigurationError(f"{signer}: {installing('iam')}") from None

    def token() -> Token:
        try:
            text, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        except AttributeError:  # of credentials that are None
            raise ConfigurationError(
                f"sasl.mechanisms {MECHANISM}: no AWS credentials are to be had here (AWS_PROFILE, AWS_ACCESS_KEY_ID "
                "and AWS_SECRET_ACCESS_KEY, or the role of this machine)"
            ) from None
        except (BotoCoreError, ClientError) as error:
            raise ConfigurationError(f"sasl.mechanisms {MECHANISM}: {error}") from None
        return "".join(Secret(text)), expires_ms / 1e3

    return token


def _region(servers: str) -> str:
    if match := REGION.search(servers):
        return match[1]
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigurationError(
            f"sasl.mechanisms {MECHANISM}: the brokers' names do not state the region of the service; set AWS_REGION"
        )
    return region
