"""Log-in by AWS_MSK_IAM: a region, credentials and the signer are asked for at the start; tokens are the vendor's."""

import base64
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from perfgate.load.hosts_file import HostsFile, LoadHost
from perfgate.model.command import installing
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import redacted
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.java_properties import translated
from perfgate.systems.kafka.client.iam import logs_in_by_iam, tokens, with_tokens, without_iam
from tests.harness.systems.test_described import no_stores

IAM = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "AWS_MSK_IAM"}
SERVICE = "b-1.orders.a1b2c3.c2.kafka.eu-west-1.amazonaws.com:9098"
CLASSES = "software.amazon.msk.auth.iam"
PROPERTIES = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{CLASSES}.IAMLoginModule required;",
    "sasl.client.callback.handler.class": f"{CLASSES}.IAMClientCallbackHandler",
}
BY_TOKEN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    "sasl.login.callback.handler.class": f"{CLASSES}.IAMOAuthBearerLoginCallbackHandler",
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAKPGTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2-of-the-gate")


@pytest.mark.parametrize("properties", [PROPERTIES, BY_TOKEN])
def test_either_way_that_the_service_hands_out_is_translated(properties: dict[str, str]) -> None:
    found = translated(properties, no_stores).settings
    assert found == IAM


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f'{CLASSES}.IAMLoginModule required awsProfileName="hunter2";', "AWS_PROFILE in the environment"),
        (f'{CLASSES}.IAMLoginModule required awsRoleArn="hunter2";', "AWS_PROFILE in the environment"),
        (f"{CLASSES}.IAMLoginModule required", "of IAMLoginModule no option is translated"),
    ],
)
def test_a_line_that_says_whose_credentials_is_refused_without_them(line: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        translated({**PROPERTIES, "sasl.jaas.config": line}, no_stores)
    assert "hunter2" not in str(caught.value)


def test_a_token_is_signed_for_the_region_of_the_brokers_names() -> None:
    text, until = tokens({**IAM, "bootstrap.servers": f"{SERVICE},b-2.other:9098"})()
    url = urlsplit(base64.urlsafe_b64decode(text + "==").decode())
    asked = parse_qs(url.query)
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith("AKIAKPGTEST/")
    assert 0 < until - time.time() <= 900
    assert text not in redacted(f"a message with {text} in it")


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        (SERVICE, "eu-west-1"),
        ("boot-ab12.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098", "us-gov-west-1"),
        ("b-1.x.y.c3.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.internal:9098", "ap-southeast-2"),
    ],
)
def test_the_region_is_the_brokers_or_the_environments(
    servers: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-southeast-2")
    text, _ = tokens({"bootstrap.servers": servers})()
    assert f"kafka.{region}.amazonaws.com" in base64.urlsafe_b64decode(text + "==").decode()


def test_what_is_missing_is_one_line_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_the_start(servers: str = SERVICE) -> str:
        path = tmp_path / "msk.toml"
        client = "".join(f'"{name}" = "{value}"\n' for name, value in IAM.items())
        limits = '[limits]\nbytes = "20 GB"\nmib-per-s = 100\n'
        path.write_text(f'bootstrap-servers = "{servers}"\n[client]\n{client}{limits}')
        try:
            load_target(path, no_stores)
        except ConfigurationError as error:
            return str(error)
        return ""

    assert at_the_start() == ""
    assert "do not state the region of the service; set AWS_REGION" in at_the_start("kafka.internal:9098")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no AWS credentials are to be had here" in at_the_start()
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    assert "no-such-profile" in at_the_start()
    monkeypatch.setitem(__import__("sys").modules, "aws_msk_iam_sasl_signer", None)
    assert f"needs the vendor's signer: {installing('iam')}" in at_the_start()


def test_credentials_are_not_taken_to_other_machines(tmp_path: Path) -> None:
    path = tmp_path / "msk.toml"
    client = "".join(f'"{name}" = "{value}"\n' for name, value in IAM.items())
    path.write_text(f'bootstrap-servers = "{SERVICE}"\n[client]\n{client}[limits]\nbytes = "20 GB"\nmib-per-s = 100\n')
    described = load_target(path, no_stores)
    elsewhere = HostsFile(path=tmp_path / "hosts.toml", hosts=(LoadHost(name="load-1", ssh="load-1"),))
    with pytest.raises(ConfigurationError, match="are not taken to others"):
        described.for_load_hosts(elsewhere)


def test_settings_of_other_mechanisms_stay_as_they_are() -> None:
    scram = {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "gate"}
    assert with_tokens(scram) == scram
    assert not logs_in_by_iam({})
    made = with_tokens({**IAM, "bootstrap.servers": SERVICE})
    assert made.pop("oauth_cb")("")[0]
    assert made == without_iam({**IAM, "bootstrap.servers": SERVICE})
    assert made["sasl.mechanisms"] == "OAUTHBEARER"
