"""The table of roles below that of the scenarios; none where all nodes are brokers."""

from dataclasses import replace

from perfgate.report.terminal_tables import ROLE_COLUMNS, role_rows
from tests.harness.build import measurement


def test_each_role_has_its_figures_and_what_lacks_is_a_dash() -> None:
    plain = measurement([1000.0, 1000.0])
    of_roles = {
        "broker_cpu_cores.brokers": 0.5,
        "broker_cpu_cores.bookies": 0.25,
        "broker_cpu_cores.metadata": 0.01,
        "broker_rss_mib.brokers": 900.0,
        "broker_rss_mib.bookies": 750.0,
    }
    rounds = tuple(replace(r, metrics={**r.metrics, **of_roles}) for r in plain.rounds)
    rows = role_rows({"plain": plain, "with-roles": replace(plain, rounds=rounds)})
    assert [len(row) for row in rows] == [len(ROLE_COLUMNS)]
    assert rows == [("with-roles", "0.5, 900, -", "0.25, 750, -", "0.01, -, -")]
