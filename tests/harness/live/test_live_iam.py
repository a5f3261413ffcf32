"""Brokers that take what AWS_MSK_IAM sends, and hold each token as the service does: whose it is, and for what."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.host.java import find_java
from perfgate.model import ClusterSpec, settings
from tests.harness.java_code import jars_with
from tests.harness.live.real_brokers import SHORT, own_state
from tests.harness.run_gate import PROBES, gate
from tests.harness.secured import SecuredCluster

__all__ = ["own_state"]
pytestmark = pytest.mark.slow
KEY, SECRET, REGION = "AKIAKPGTEST", "hunter2-of-the-gate-0123456789", "eu-west-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=x;"
VALIDATOR = """
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.*;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.*;

public class SignedByIam implements AuthenticateCallbackHandler {
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) { }
    public void close() { }
    public void handle(Callback[] callbacks) {
        for (Callback one : callbacks) {
            if (!(one instanceof OAuthBearerValidatorCallback))
                continue;  // of extensions, which a client may send beside a token
            OAuthBearerValidatorCallback asked = (OAuthBearerValidatorCallback) one;
            String text = asked.tokenValue();
            URI url = URI.create(new String(Base64.getUrlDecoder().decode(text), StandardCharsets.UTF_8));
            String query = url.getRawQuery();
            if (url.getHost().equals("kafka.eu-west-1.amazonaws.com")
                    && query.contains("Action=kafka-cluster%3AConnect")
                    && query.contains("X-Amz-Credential=AKIAKPGTEST%2F") && query.contains("X-Amz-Signature="))
                asked.token(new Token(text));
            else
                asked.error("invalid_token", null, null);
        }
    }
    static class Token implements OAuthBearerToken {
        final String text;
        final long now = System.currentTimeMillis();
        Token(String text) { this.text = text; }
        public String value() { return text; }
        public Set<String> scope() { return Set.of(); }
        public long lifetimeMs() { return now + 900_000; }
        public String principalName() { return "gate"; }
        public Long startTimeMs() { return now; }
    }
}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    folder = tmp_path_factory.mktemp("iam")
    config = {
        "listener.security.protocol.map": (
            "SAMEZONE:SASL_PLAINTEXT,CROSSZONE:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.samezone.oauthbearer.sasl.jaas.config": LOGIN,
        "listener.name.samezone.oauthbearer.sasl.server.callback.handler.class": "SignedByIam",
    }
    made = SecuredCluster(
        ClusterSpec(config=settings(config)),
        java=find_java(),
        jars=jars_with(folder, "SignedByIam", VALIDATOR),
        logs=folder / "logs",
        cross_zone=False,
    )
    try:
        made.start()
        yield made
    finally:
        made.close()


def target_file(cluster: SecuredCluster, folder: Path) -> Path:
    """Write the Java client's file that the service hands out, and a target file that names it."""
    (folder / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=AWS_MSK_IAM\n"
        "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
        "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
    )
    path = folder / "iam.toml"
    path.write_text(
        f'bootstrap-servers = "{cluster.secured("SAMEZONE")}"\ninsecure = true\n'
        '[client]\nproperties-file = "client.properties"\n[limits]\nbytes = "20 GB"\nmib-per-s = 100\n'
    )
    return path


def test_every_client_of_a_run_logs_in_with_a_token_and_no_secret_is_written(
    cluster: SecuredCluster, tmp_path: Path
) -> None:
    path, results = target_file(cluster, tmp_path), tmp_path / "results"
    selected = "paced-slow or capped-by-four"  # which has consumers
    done = gate(results, PROBES, *SHORT, f"--target={path}", "-k", selected, environment=CREDENTIALS)
    assert done.measured, done.output
    for entry in done.run["scenarios"]:
        assert entry["accounting"]["acked"] == entry["accounting"]["offset_delta"] > 0
    written = [one.read_bytes() for one in results.rglob("*") if one.is_file()]
    assert not [content for content in written if SECRET.encode() in content or b"X-Amz-Signature" in content]


def test_credentials_that_the_brokers_do_not_take_are_one_line(cluster: SecuredCluster, tmp_path: Path) -> None:
    other = {**CREDENTIALS, "AWS_ACCESS_KEY_ID": "AKIAOFOTHERS"}
    done = gate(tmp_path / "results", PROBES, *SHORT, f"--target={target_file(cluster, tmp_path)}", environment=other)
    assert done.code == 2, done.output
    assert "the brokers refused the log-in" in done.output
    assert "Traceback" not in done.output
