"""No password, token or key is ever shown: not by a print, a traceback, a report, a child's environment or a core."""

import base64
import gzip
import html
import json
import logging
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote, quote_plus
from xml.sax import saxutils

import pytest

from perfgate.fixtures.reports import pytest_runtest_makereport
from perfgate.metrics.prometheus_source import check_url
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import MASK, Secret, from_environment, masked, redacted, revealed, scrub
from perfgate.report.html import FOR_NODE
from perfgate.report.results import write_run
from tests.harness.run_gate import PROBES, gate

PASSWORD = 'hunter2 & "friends"'
ROOT = Path(__file__).parents[3]


pytestmark = pytest.mark.usefixtures("no_other_secrets")


@pytest.mark.parametrize(
    "printed",
    [
        lambda s: str(s),
        lambda s: repr(s),
        lambda s: f"{s}",
        lambda s: f"{s!r:>30}",
        lambda s: f"{s:>30}",
        lambda s: "{}".format(s),  # noqa: UP032 - one of the ways
        lambda s: "%s" % s,  # noqa: UP031 - another
        lambda s: repr({"sasl.password": s}),
        lambda s: logging.LogRecord("x", 0, "", 0, "log in with %s", (s,), None).getMessage(),
    ],
)
def test_a_secret_prints_as_a_mask_however_it_is_printed(printed: object) -> None:
    text = printed(Secret(PASSWORD))  # type: ignore[operator]
    assert "hunter2" not in text
    assert MASK in text


def test_its_value_goes_to_a_client_and_over_the_pipe_as_it_is() -> None:
    settings = revealed((("sasl.password", Secret(PASSWORD)), ("sasl.username", "gate")))
    assert f"{settings['sasl.password']}" == PASSWORD
    assert type(settings["sasl.password"]) is str
    assert Secret(Secret(PASSWORD)) == PASSWORD
    assert json.loads(json.dumps({"client": {"sasl.password": Secret(PASSWORD)}})) == {
        "client": {"sasl.password": PASSWORD}
    }


def test_what_a_report_escapes_is_found_too() -> None:
    Secret(PASSWORD)
    for written in ("hunter2 &amp; &quot;friends&quot;", "hunter2%20%26%20%22friends%22", json.dumps(PASSWORD)):
        assert "hunter2" not in redacted(f"refused: {written}")


def test_numbers_and_names_of_a_document_stay_when_a_password_looks_like_one(tmp_path: Path) -> None:
    Secret("12345")
    Secret("rate")
    document = {"rate": 12345, "error": "refused 12345 at this rate", "all": [{"rate": 0.12345}]}
    assert masked(document) == {"rate": 12345, "error": f"refused {MASK} at this {MASK}", "all": [{"rate": 0.12345}]}
    write_run(document, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["error"] == f"refused {MASK} at this {MASK}"
    rounds = {"rounds": [{"latency_histogram": "HIST12345ratexyz"}]}
    assert masked(rounds) == rounds


def test_scrubbing_reaches_every_text_and_leaves_the_rest(tmp_path: Path) -> None:
    Secret(PASSWORD)
    (tmp_path / "allure-results").mkdir()
    (tmp_path / "allure-results" / "a-result.json").write_text(json.dumps({"trace": f"E  {PASSWORD}", "start": 1}))
    (tmp_path / "allure-results" / "log.txt").write_text(f"x {PASSWORD} y\r\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff" + PASSWORD.encode())
    (tmp_path / "other.txt").write_text("nothing")
    (tmp_path / "cut-off.json").write_text(f'{{"trace": "{PASSWORD[:10]} {html.escape(PASSWORD)}')
    (tmp_path / "gone").symlink_to("nowhere")
    assert scrub(tmp_path) == []
    assert "friends" not in (tmp_path / "cut-off.json").read_text()
    assert json.loads((tmp_path / "allure-results" / "a-result.json").read_text()) == {
        "trace": f"E  {MASK}",
        "start": 1,
    }
    assert (tmp_path / "allure-results" / "log.txt").read_bytes() == f"x {MASK} y\r\n".encode()
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG\xff")
    assert (tmp_path / "other.txt").read_text() == "nothing"


ODD = "pä$$ wörd/+'\"<&>\\n"


@pytest.mark.parametrize(
    "written",
    [
        b"\xff refused: " + ODD.encode(),
        b"\xff " + ODD.encode("latin-1"),
        ODD.encode("utf-16-le"),
        b"\xfe\xff" + f"refused: {ODD}!".encode("utf-16-be"),
        ODD.encode("utf-16"),
        b"\xff " + json.dumps(ODD).encode(),
        json.dumps(json.dumps(ODD)).encode(),
        json.dumps(ODD, ensure_ascii=False).encode(),
        html.escape(ODD).encode(),
        html.escape(ODD, quote=False).encode(),
        html.escape(json.dumps({"said": ODD})).encode(),
        saxutils.escape(ODD).encode(),
        quote(ODD).encode(),
        quote_plus(ODD).encode(),
        quote(ODD, safe="").lower().encode(),
        repr(ODD).encode(),
        b"\x00\xffAuthorization: Basic " + base64.b64encode(f"gate:{ODD}".encode()),
        base64.urlsafe_b64encode(f"a:{ODD}".encode()),
        base64.b64encode(f"al:{ODD}".encode()),
    ],
)
def test_scrubbing_finds_a_secret_however_it_is_written(written: bytes, tmp_path: Path) -> None:
    """One byte that is no UTF-8, in a broker's log say, kept the whole file from being searched, without a word."""
    Secret(ODD)
    path = tmp_path / "broker.log"
    path.write_bytes(written)
    assert scrub(tmp_path) == []
    left = path.read_bytes()
    assert left != written
    for part in ("pä$$", "wörd", "p%C3", "p%c3", "W%C3"):
        for encoding in ("utf-8", "latin-1", "utf-16-le"):
            assert part.encode(encoding) not in left
    assert base64.b64encode(ODD.encode())[4:-4] not in left
    assert b"*" in left


def test_what_scrubbing_cannot_search_is_named(tmp_path: Path) -> None:
    Secret("hunter2-of-the-brokers")
    Secret("gold")
    (tmp_path / "broker.log.gz").write_bytes(gzip.compress(b"hunter2-of-the-brokers"))
    (tmp_path / "journal.bin").write_bytes(b"\xff\x00gold\xfe")
    (tmp_path / "other.bin").write_bytes(b"\xff\x00 hunter2-of-the-brokers \xfe")
    assert sorted(path.name for path in scrub(tmp_path)) == ["broker.log.gz", "journal.bin"]
    assert (tmp_path / "journal.bin").read_bytes() == b"\xff\x00gold\xfe"  # figures are not changed for a chance
    assert (tmp_path / "other.bin").read_bytes() == b"\xff\x00 " + b"*" * 22 + b" \xfe"


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is longer than the system takes (PATH_MAX): so it is closed to root, too."""
    Secret(PASSWORD)
    monkeypatch.chdir(tmp_path)
    closed = tmp_path
    while len(str(closed)) < os.pathconf("/", "PC_PATH_MAX"):
        closed /= "x" * 200
        Path(closed.name).mkdir()
        os.chdir(closed.name)
    assert scrub(tmp_path) == [closed]


def test_a_secret_that_is_no_utf8_is_one_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(os.environ, "KPG_TEST_PASSWORD", os.fsdecode(b"hunter2-\xe9t\xe9"))
    Secret(from_environment("KPG_TEST_PASSWORD"))
    (tmp_path / "log").write_bytes(b"as hunter2-\xe9t\xe9!")
    assert scrub(tmp_path) == []
    assert (tmp_path / "log").read_bytes() == b"as " + b"*" * 11 + b"!"


def test_a_variable_is_taken_out_of_the_environment_and_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPG_TEST_PASSWORD", PASSWORD)
    assert from_environment("KPG_TEST_PASSWORD") == PASSWORD
    told = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    assert "hunter2" not in told
    assert from_environment("KPG_TEST_PASSWORD") == PASSWORD
    with pytest.raises(KeyError):
        from_environment("KPG_TEST_NO_SUCH")


def test_programs_from_a_registry_get_paths_and_proxies_alone() -> None:
    assert all(FOR_NODE.fullmatch(name) for name in ("PATH", "HOME", "LC_ALL", "https_proxy", "NPM_CONFIG_REGISTRY"))
    assert not any(FOR_NODE.fullmatch(name) for name in ("KAFKA_PASSWORD", "PROM_TOKEN", "AWS_SECRET_ACCESS_KEY"))


@pytest.mark.parametrize(
    "url",
    [
        "https://gate:hunter2@prometheus:9090",
        "http://hunter2@prometheus",
        "HTTPS://gate:hunter2@prometheus",
        "gate:hunter2@prometheus:9090",
        "https://gate:hunter2/x@prometheus",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="belong into username and password") as told:
        check_url(url, "[prometheus] url")
    assert "hunter2" not in str(told.value)


def test_no_core_is_left(tmp_path: Path) -> None:
    """A process that crashes, and one that it has started, after core files had been allowed."""
    program = """
        import os, resource, subprocess, sys
        from perfgate.model.secret import leave_no_core_dump
        leave_no_core_dump()
        child = subprocess.run([sys.executable, "-c", "import os, resource; "
            "print(resource.getrlimit(resource.RLIMIT_CORE), flush=True); os.abort()"], capture_output=True, text=True)
        print(child.stdout.strip(), child.returncode, flush=True)
        os.abort()
    """

    def allowed() -> None:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        preexec_fn=allowed,
    )
    assert done.stdout.strip() == "(1, 1) -6", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_allows_no_core_at_all_is_fine() -> None:
    """Without a privilege a limit cannot be raised, not even from 0 to 1."""
    program = "import resource; from perfgate.model.secret import leave_no_core_dump; leave_no_core_dump(); "
    done = subprocess.run(
        [sys.executable, "-c", f"{program} print(resource.getrlimit(resource.RLIMIT_CORE))"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )
    assert done.stdout.strip() == "(0, 0)", done.stderr


def reported(longrepr: object) -> object:
    """Return what the report of a test becomes on its way to the terminal."""
    report = Mock(longrepr=longrepr, sections=[("log", f"said {PASSWORD}")], failed=False)
    hook = pytest_runtest_makereport(Mock())
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(report)
    assert ended.value.value.sections == [("log", f"said {MASK}")]
    return ended.value.value.longrepr


def test_a_report_keeps_its_form() -> None:
    """pytest takes a skip's apart into three."""
    Secret(PASSWORD)
    assert reported(("test_x.py", 3, f"Skipped: {PASSWORD}")) == ("test_x.py", 3, f"Skipped: {MASK}")
    assert reported(f"E  {PASSWORD}") == f"E  {MASK}"
    untouched = Mock(__str__=lambda _: "E  nothing")
    assert reported(untouched) is untouched


@pytest.mark.parametrize(
    "name", ["staging.toml", "client.properties", "ca.pem", "gate.key", "certs/store.jks", "a.p12"]
)
def test_target_files_and_keys_are_ignored_by_git(name: str) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    assert subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT).returncode == 0
    assert subprocess.run(["git", "check-ignore", "--no-index", "-q", "pyproject.toml"], cwd=ROOT).returncode == 1


def test_an_error_that_names_a_password_is_masked_in_all_that_a_run_writes(tmp_path: Path) -> None:
    """The password is the server's address here, which the message of a run that cannot connect names."""
    target = tmp_path / "staging.toml"
    target.write_text(
        'bootstrap-servers = "127.0.0.1:9"\n[client]\n"security.protocol" = "SASL_SSL"\n"sasl.mechanisms" = "PLAIN"\n'
        '"sasl.username" = "gate"\n"sasl.password" = { env = "KPG_TEST_PASSWORD" }\n'
        '[limits]\nbytes = "1 GB"\nmib-per-s = 5\n'
    )
    variables = {"KPG_TEST_PASSWORD": "127.0.0.1", "XDG_STATE_HOME": str(tmp_path / "state")}
    done = gate(tmp_path / "results", PROBES, "-k", "paced-slow", "--target", target, environment=variables)
    assert done.code == 2, done.output
    assert f"{MASK}:9: nothing listens there" in done.output
    assert "127.0.0.1" not in done.output
    assert not [
        path for path in (tmp_path / "results").rglob("*") if path.is_file() and b"127.0.0.1" in path.read_bytes()
    ]
