"""Sizes of records as a distribution: the texts that declare them, their lengths, and scenarios that have them."""

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.threshold import required
from perfgate.model import Load, Sizes, with_changes
from perfgate.model.errors import ConfigurationError
from perfgate.model.sizes import LEAST_ROWS, MOST_ROWS, read_sizes
from tests.harness.build import scenario

MIXED = "values:100=70/1000=25/20000=5"


@pytest.mark.parametrize(
    ("text", "mean", "ends", "shares"),
    [
        (MIXED, 70 + 250 + 1000, (100, 20_000), {100: 0.7, 1000: 0.25, 20_000: 0.05}),
        ("values:500=3", 500, (500, 500), {500: 1.0}),
        ("uniform:from=100,to=2000", 1050, (100, 2000), {}),
        ("lognormal:median=400,sigma=1,most=100000", 400 * 1.6487, (32, 100_000), {}),
        ("lognormal:median=1000,sigma=5,most=2000", 1052, (32, 2000), {}),
    ],
)
def test_a_text_declares_lengths_of_its_mean(
    text: str, mean: float, ends: tuple[int, int], shares: dict[int, float]
) -> None:
    sizes = read_sizes("record.sizes", text)
    lengths = sizes.lengths
    assert sizes.mean == round(statistics.fmean(lengths)) == pytest.approx(mean, rel=0.03)
    assert ends[0] <= lengths[0] <= sizes.largest <= ends[1]
    for length, share in shares.items():
        assert lengths.count(length) / len(lengths) == pytest.approx(share, abs=1 / len(lengths))


@given(st.integers(32, 1 << 20), st.integers(0, 1 << 20))
def test_each_row_stands_for_as_many_records(least: int, more: int) -> None:
    """So quantiles of the rows are those of the distribution, and no draw of them has another mean."""
    lengths = Sizes(kind="uniform", least=least, most=least + more).lengths
    assert LEAST_ROWS <= len(lengths) <= MOST_ROWS
    assert list(lengths) == sorted(lengths)
    assert lengths[len(lengths) // 2] == pytest.approx(least + more / 2, abs=more / len(lengths) + 1)


def test_lines_of_a_file_give_their_lengths(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"\n".join([b"x" * 50] * 3 + [b"", b"short", b"y" * 900]))
    sizes = read_sizes("record.sizes", f"lines:{tmp_path / 'lines'}")
    assert sizes.values == ((32, 1), (50, 3), (900, 1))
    many = "\n".join("z" * n for n in range(40, 2600))
    (tmp_path / "many").write_text(many)
    assert len(read_sizes("record.sizes", f"lines:{tmp_path / 'many'}").values) == 1000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gamma:a=1", "are no sizes"),
        ("values:100", "not enough values to unpack"),
        ("values:31=1", "they are from 31 to 31 bytes"),
        ("values:100=1/100=2", "a size is stated twice"),
        ("values:100=0", "each weight must be a number above 0"),
        ("values:100=inf", "each weight must be a number above 0"),
        ("values:100=1e308/200=1e308", "each weight must be a number above 0"),
        ("uniform:from=200,to=100", "they are from 200 to 100 bytes"),
        ("uniform:from=100,to=99999999", "they are from 100 to 99,999,999 bytes"),
        ("uniform:from=100", "needs from, to, each once"),
        ("lognormal:median=10,sigma=1,most=1000", "its median must be from 32 to most"),
        ("lognormal:median=100,sigma=0,most=1000", "its sigma above 0"),
        ("lines:/nowhere", "No such file"),
        ("uniform:from=1000000,to=2000000", "their mean is 1,5[0-9,]* bytes: 64 rows"),
    ],
)
def test_a_wrong_text_is_refused_with_what_is_legal(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"record\.sizes = .*{words}.*; legal: values:BYTES=WEIGHT"):
        with_changes(scenario(), [("record.sizes", text)])


def test_budgets_go_by_the_mean_and_bytes_are_judged_beside_records() -> None:
    row = with_changes(scenario(), [("record.sizes", MIXED)])
    assert row.sizes
    assert (row.record_bytes, row.largest_bytes) == (row.sizes.mean, 20_000)
    assert row.offered_bytes_per_s == row.load.rate * row.logged_bytes
    assert [metric for metric, *_ in required(row)[:2]] == ["records_per_s", "mib_per_s"]
    paced = replace(row, load=Load(kind="paced", rate=5))
    assert required(paced)[0] == ("latency_ms.p99",)
    assert "mib_per_s" not in paced.judged
    one = with_changes(row, [("record.bytes", 70)])
    assert (one.sizes, one.record_bytes, one.largest_bytes) == (None, 70, 70)
    assert with_changes(one, [("record.sizes", MIXED)]) == row
