"""The target file of real Pulsar brokers."""

from pathlib import Path

import pytest

from perfgate.load.hosts_file import HostsFile, LoadHost
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import MASK, redacted, revealed
from perfgate.systems.by_file import load_described
from perfgate.systems.pulsar.attached.described import DescribedPulsar, load_target
from perfgate.systems.pulsar.client.http import token_of

LEAST = """system = "pulsar"
service-url = "pulsar+ssl://broker-1:6651,broker-2:6651"
admin-url = "https://broker-1:8443,https://broker-2:8443"
tenant = "gate"
"""
LIMITS = '[limits]\nbytes = "1 GB"\nmib-per-s = 5\n'
TOKEN = "a-token-of-the-tests.0123456789"


def described(tmp_path: Path, top: str = LEAST, tables: str = "") -> DescribedPulsar:
    path = tmp_path / "staging.toml"
    path.write_text(f"{top}\n{LIMITS}{tables}")
    return load_target(path)


def test_a_file_and_what_it_says(tmp_path: Path) -> None:
    found = described(tmp_path, LEAST + 'durability = "fsync"\ncluster = "eu"\nbrokers = 3\nbookies = 4\n')
    assert (found.name, found.bootstrap) == ("staging", "pulsar+ssl://broker-1:6651,broker-2:6651")
    assert found.admin_urls == ("https://broker-1:8443", "https://broker-2:8443")
    assert found.servers == ("broker-1:6651", "broker-2:6651")
    assert (found.tenant, found.cluster_id, found.brokers, found.bookies) == ("gate", "eu", 3, 4)
    assert (found.durability, found.client, found.weaknesses) == ("fsync", (), ())
    assert found.limits.total_bytes == 1e9
    assert found.namespace("run", 2) == "gate/kpg-run-2"


def test_the_file_chooses_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(LEAST + LIMITS)
    assert isinstance(load_described(path), DescribedPulsar)
    path.write_text(f'system = "kafka"\nbootstrap-servers = "kafka-1:9093"\n{LIMITS}')
    assert load_described(path).bootstrap == "kafka-1:9093"
    path.write_text(f'bootstrap-servers = "kafka-1:9093"\n{LIMITS}')
    assert load_described(path).bootstrap == "kafka-1:9093"
    path.write_text(f'system = "rabbit"\n{LIMITS}')
    with pytest.raises(ConfigurationError, match=r"system = 'rabbit' must be \"kafka\" or \"pulsar\""):
        load_described(path)


def test_the_example_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PULSAR_TOKEN", "PROMETHEUS_TOKEN"):
        monkeypatch.setenv(name, "a-value-of-a-test")
    path = tmp_path / "pulsar.toml"
    path.write_text((Path(__file__).parents[3] / "examples" / "targets" / "pulsar.toml").read_text())
    (tmp_path / "ca.pem").write_text("")
    found = load_target(path)
    assert (found.tenant, found.durability, len(found.admin_urls)) == ("gate", "fsync", 3)


@pytest.mark.parametrize(
    ("stated", "urls"),
    [
        ('admin-url = "http://a:8080/"', ("http://a:8080",)),
        ('admin-url = "http://a:8080,b:8080"', ("http://a:8080", "http://b:8080")),
        ('admin-url = ["http://a:8080", "http://b:8080"]', ("http://a:8080", "http://b:8080")),
        ('admin-url = "http://[::1]:8080"', ("http://[::1]:8080",)),
    ],
)
def test_addresses_in_each_way_that_pulsar_takes(tmp_path: Path, stated: str, urls: tuple[str, ...]) -> None:
    top = "\n".join(line for line in LEAST.splitlines() if not line.startswith("admin-url"))
    assert described(tmp_path, f"{top}\n{stated}\n").admin_urls == urls


@pytest.mark.parametrize("where", ["env", "file", "plain", "authParams"])
def test_a_token_wherever_it_is_kept_is_a_secret(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", TOKEN)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    stated = {
        "env": 'token = { env = "PULSAR_TOKEN" }',
        "file": 'token = { file = "token" }',
        "plain": f'token = "{TOKEN}"',
        "authParams": f'authPlugin = "token"\nauthParams = "token:{TOKEN}"',
    }[where]
    found = described(tmp_path, tables=f"[client]\n{stated}\n")
    assert revealed(found.client)["authParams"] == f"token:{TOKEN}"
    assert token_of(dict(found.client)) == TOKEN
    assert TOKEN not in f"{found.client} {found}"
    assert redacted(f"token:{TOKEN} and {TOKEN}") == f"{MASK} and {MASK}"
    assert TOKEN not in found.connection_digest


def test_paths_may_begin_at_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were looked for in a folder "~" beside the target file, unless that was named without a folder."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").write_text(TOKEN)
    (home / "ca.pem").touch()
    monkeypatch.setenv("HOME", str(home))
    files = '[client]\ntoken = { file = "~/token" }\ntlsTrustCertsFilePath = "~/ca.pem"\n'
    client = dict(described(tmp_path, tables=files).client)
    assert token_of(client) == TOKEN
    assert client["tlsTrustCertsFilePath"] == str((home / "ca.pem").resolve())
    with pytest.raises(ConfigurationError, match="cannot read"):
        described(tmp_path, tables=files.replace("~/token", "~nobody-of-this-name/token"))


def test_a_tokens_file_of_the_client_stays_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    stated = f'[client]\nauthPlugin = "token"\nauthParams = "file://{tmp_path}/token"\n'
    found = described(tmp_path, tables=stated)
    assert dict(found.client)["authParams"] == f"file://{tmp_path}/token"
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigurationError, match="the token's file"):
        described(tmp_path, tables=stated)


def test_a_tokens_file_of_this_machine_is_refused_where_hosts_would_read_it(tmp_path: Path) -> None:
    """Each load host looked for a file of that name of its own."""
    (tmp_path / "token").write_text(TOKEN)
    there = LoadHost(name="load-1", zone="", ssh="load-1", install=True)
    file = HostsFile(path=Path("hosts.toml"), hosts=(there,), brokers_zone="")
    read_again = described(tmp_path, tables=f'[client]\nauthPlugin = "token"\nauthParams = "file://{tmp_path}/token"\n')
    with pytest.raises(ConfigurationError, match=r"authParams names a file of this machine.*local:N"):
        read_again.for_load_hosts(file)
    taken_along = described(tmp_path, tables='[client]\ntoken = { file = "token" }\n').for_load_hosts(file)
    assert revealed(taken_along.client)["authParams"] == f"token:{TOKEN}"


@pytest.mark.parametrize(
    ("urls", "fine"),
    [
        (("pulsar://broker-1:6650", "https://broker-1:8443"), False),
        (("pulsar+ssl://broker-1:6651", "http://broker-1:8080"), False),
        (("pulsar://127.0.0.1:6650,broker-1:6650", "http://localhost:8080"), False),
        (("pulsar://127.0.0.1:6650", "http://localhost:8080,127.0.0.1:8081"), True),
        (("pulsar://127.0.0.1.example.com:6650", "http://localhost:8080"), False),
        (("pulsar+ssl://broker-1:6651", "https://broker-1:8443"), True),
    ],
)
def test_a_token_in_clear_text_is_refused(tmp_path: Path, urls: tuple[str, str], fine: bool) -> None:
    top = f'system = "pulsar"\ntenant = "gate"\nservice-url = "{urls[0]}"\nadmin-url = "{urls[1]}"\n'
    token = f'[client]\ntoken = "{TOKEN}"\n'
    assert described(tmp_path, top).bootstrap == urls[0], "without a token there is nothing to read"
    assert described(tmp_path, f"{top}insecure = true\n", token)
    if fine:
        assert described(tmp_path, top, token)
    else:
        with pytest.raises(ConfigurationError, match="would go there in clear text") as caught:
            described(tmp_path, top, token)
        assert TOKEN not in str(caught.value)


def test_the_cross_zone_is_held_to_the_same(tmp_path: Path) -> None:
    zones = '[zones]\ncross-zone = "pulsar://broker-9:6650"\n'
    assert described(tmp_path, tables=zones).cross_zone_bootstrap == "pulsar://broker-9:6650"
    with pytest.raises(ConfigurationError, match="broker-9:6650: a token"):
        described(tmp_path, tables=f'{zones}[client]\ntoken = "{TOKEN}"\n')


@pytest.mark.parametrize(
    ("top", "tables", "words"),
    [
        ("", "[client]\nbootstrap = 1\n", "unknown key 'bootstrap'"),
        ("", "[client]\ntenant = 1\n", "tenant: it stands at the top"),
        ("", '[client]\ntoken = "two words"\n', "text of one word"),
        ("", '[client]\ntoken = { env = "NOT_SET_ANYWHERE" }\n', "NOT_SET_ANYWHERE is not set"),
        ("", '[client]\ntoken = "x"\nauthPlugin = "token"\n', "one or the other"),
        ("", '[client]\nauthPlugin = "a.Basic"\n', "the suite's clients log in by"),
        ("", '[client]\nauthPlugin = "tls"\n', "needs tlsCertificateFilePath"),
        ("", '[client]\ntlsTrustCertsFilePath = "nowhere.pem"\n', "there is no file"),
        ("", f'[client]\ntlsTrustCertsFilePath = "{"A" * 300}"\n', "there is no file"),
        ("", '[client]\ntlsAllowInsecureConnection = "perhaps"\n', "must be true or false"),
        ('durability = "some"', "", "must be 'page cache' or 'fsync'"),
        ('bootstrap-servers = "a:1"', "", "unknown key 'bootstrap-servers'"),
        ("", "[faults]\nstop = 'x {name}'\n", "only {host}, {port} and {broker}"),
        ('namespace-prefix = "a/b"', "", "up to 60 letters"),
    ],
)
def test_what_a_file_may_not_say(tmp_path: Path, top: str, tables: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        described(tmp_path, f"{LEAST}{top}\n", tables)
    assert "staging.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('service-url = "broker-1:6651"', "service-url = 'broker-1:6651' must be as in"),
        ('service-url = "pulsar://user:hush@broker-1:6650"', "service-url must be without a user"),
        ('admin-url = "pulsar://broker-1:6650"', "admin-url = 'pulsar://broker-1:6650' must be as in"),
        ("admin-url = []", "admin-url = "),
        ('tenant = ""', "tenant = '' must be a name"),
        ('tenant = "a/b"', "must be a name"),
    ],
)
def test_what_has_to_be_there(tmp_path: Path, line: str, words: str) -> None:
    key = line.partition(" ")[0]
    others = [one for one in LEAST.splitlines() if not one.startswith(f"{key} ")]
    with pytest.raises(ConfigurationError, match=words) as caught:
        described(tmp_path, "\n".join([*others, line, ""]))
    assert "hush" not in str(caught.value)


def test_what_is_not_verified_is_told(tmp_path: Path) -> None:
    assert "not verified" in described(tmp_path, tables="[client]\ntlsAllowInsecureConnection = true\n").weaknesses[0]
    names = described(tmp_path, tables="[client]\ntlsHostnameVerificationEnable = false\n").weaknesses
    assert names == ("the host names in the brokers' certificates are not verified",)
    clear = 'system = "pulsar"\ntenant = "g"\nservice-url = "pulsar://b:1"\nadmin-url = "http://b:2"\n'
    assert (
        "have no effect" in described(tmp_path, clear, "[client]\ntlsHostnameVerificationEnable = true\n").weaknesses[0]
    )


def test_the_connection_digest_is_of_the_way_alone(tmp_path: Path) -> None:
    one = described(tmp_path, tables=f'[client]\ntoken = "{TOKEN}"\n')
    other = described(tmp_path, tables='[client]\ntoken = "another-one.0123456789"\n')
    away = described(tmp_path, LEAST.replace("broker-2:6651", "broker-3:6651"))
    assert one.connection_digest == other.connection_digest != away.connection_digest
