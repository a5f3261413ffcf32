"""The file that states a change: what it may say, and one clear error for what it may not."""

from pathlib import Path

import pytest

from fixtures.change_file import load_change
from perfgate.model.errors import ConfigurationError
from perfgate.report.comparisons import change_entry
from tests.harness.run_gate import ROOT, gate

FULL = """
name = "all of it"
link = "cross-zone"
[producer]
"linger.ms" = 5
acks = "all"
"enable.idempotence" = true
[consumer]
"fetch.min.bytes" = 1024
[topic]
"min.insync.replicas" = 2
partitions = 6
[broker]
"num.io.threads" = 2
[cluster]
version = "3.9.1"
jvm = ["-Xmx1g"]
cpus = 0.5
[record]
bytes = 512
"""


def test_every_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "change.toml"
    path.write_text(FULL)
    change = load_change(path)
    assert dict(change.changes) == {
        "producer.linger.ms": "5",
        "producer.acks": "all",
        "producer.enable.idempotence": "true",
        "consumer.fetch.min.bytes": "1024",
        "topic.min.insync.replicas": "2",
        "topic.partitions": 6,
        "broker.num.io.threads": "2",
        "record.bytes": 512,
        "link": "cross-zone",
        "cluster.version": "3.9.1",
        "cluster.jvm": ("-Xmx1g",),
        "cluster.cpus": 0.5,
    }
    assert change_entry(change)["cluster"] == {"version": "3.9.1", "jvm": ("-Xmx1g",), "cpus": 0.5}


@pytest.mark.parametrize("path", sorted((ROOT / "changes").glob("*.toml")), ids=lambda path: path.stem)
def test_the_shipped_examples_can_be_read(path: Path) -> None:
    assert load_change(path).name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "name = None must be a short text"),
        ('name = ""', "name = '' must be a short text"),
        (
            'name = "x"\n[producerz]\n',
            "unknown key or table 'producerz'; legal: name, link, [producer], [consumer], [topic]",
        ),
        ('name = "x"\n[producers]\n', "[producers] says nothing"),
        ('name = "x"\nproducer = 5', "producer = 5 must be a table [producer]"),
        ('name = "x"\n[producer]\nlinger.ms = 5', "a setting's name has dots and is quoted"),
        ('name = "x"\n[producer]\n"lingr.ms" = 5', "[producer] lingr.ms = 5: No such configuration property"),
        ('name = "x"\n[producer]\n"linger.ms" = "soon"', "Invalid value for configuration property"),
        ('name = "x"\n[producer]\n"linger.ms" = [5]', "must be a text, a number, true or false"),
        ('name = "x"\n[consumer]\n"fetch.min" = 5', "[consumer] fetch.min = 5: No such configuration property"),
        (
            'name = "x"\n[topic]\n"min.insync" = 2',
            "[topic] min.insync = 2: unknown topic setting 'min.insync'; legal: min.",
        ),
        ('name = "x"\n[broker]\n"num.io" = 2', "[broker] num.io = 2: unknown broker setting"),
        (
            'name = "x"\n[cluster]\nkafka = "4"',
            "[cluster] kafka = '4': unknown path 'cluster.kafka'; legal: record.bytes",
        ),
        ('name = "x"\n[cluster]\nversion = "4"', "cluster.version = '4' is not a Kafka release"),
        ('name = "x"\n[cluster]\nimage = 4', "must name an image"),
        ('name = "x"\n[cluster]\njvm = "Xmx1g"', "must be a list of texts"),
        ('name = "x"\n[cluster]\ncpus = 0', "must be a number of cores from 0.05"),
        ("name = ", "Invalid value"),
    ],
)
def test_a_slip_is_one_error_that_names_the_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "change.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        load_change(path)
    assert str(error.value).startswith(f"--compare {path}: ")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--compare=nowhere.toml"], "--compare nowhere.toml: no such file; examples lie in changes/"),
        (["--compare=changes/nothing.toml", "--replay=tests/harness/data/run.json"], "exclude one another"),
        (["--compare=changes/nothing.toml", "--record-thresholds"], "exclude one another"),
        (["--compare=changes/nothing.toml", "--budget", "ten"], "--budget 'ten' must be a time from 1s to 24h"),
        (["--budget", "5m"], "--budget bounds a comparison: it needs --compare"),
    ],
)
def test_wrong_use_is_one_error(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = gate(tmp_path, *arguments)
    assert done.code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_change_that_concerns_no_selected_row_is_one_error(tmp_path: Path) -> None:
    change = tmp_path / "change.toml"
    change.write_text('name = "x"\n[consumer]\n"fetch.min.bytes" = 5\n')
    done = gate(tmp_path / "results", f"--compare={change}")
    assert done.code == 2, done.output
    assert "no selected row can be compared: the change concerns consumers, and this row has none" in done.output
