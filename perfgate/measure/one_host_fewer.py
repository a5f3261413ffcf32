"""--confirm-with-more-hosts: a scenario without the last of its load hosts, and what of it ran there. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfgate.model import FaultScenario, Scenario
from perfgate.model.series import Arm

UNPACED = ("capped", "backlog")
"""Loads that take as much as there is: one host more can make more of it."""


def one_host_fewer(row: Scenario, hosts: int) -> Arm | None:
    """Return the scenario on one fewer of so many load hosts; None where :func:`nothing_to_confirm` says why.

    The processes of the last host that makes the load are left out with it: a host more comes with its generators.
    Consumers that read along in several groups stay, on the other hosts: without one of them a group is another one.
    """
    if nothing_to_confirm(row, hosts):
        return None
    last = min(hosts, _making(row)) - 1
    sending = 0 if row.load.kind == "backlog" else row.producers
    producers, consumers = row.producers - _on(last, sending, hosts), row.consumers
    readers = consumers.processes * consumers.groups if consumers else 0
    used = min(hosts, max(readers, sending))
    if consumers and consumers.groups == 1:
        consumers = replace(consumers, processes=readers - _on(last, readers, hosts))
    fewer = replace(row, producers=producers, consumers=consumers)
    return Arm(scenario=fewer, form="one host fewer", hosts=used - 1)


def nothing_to_confirm(row: Scenario, hosts: int) -> str:
    """Return why one host more cannot tell anything of this scenario; empty where it can."""
    if isinstance(row, FaultScenario) or row.load.kind not in UNPACED or row.refusal:
        return "its rate is declared, and a host that falls behind it is told as it is"
    if row.load.kind == "backlog" and row.groups > 1:
        return "it is read by several groups, of which no host can be left out"
    if hosts < 2:
        return "its link has one load host"
    if _making(row) < 2:
        role = "consumers" if row.load.kind == "backlog" else "producers"
        return f"one process makes its load, which is on one host; --set {role}.processes=N spreads it"
    if row.load.kind != "backlog" and reads_what_it_wrote(row):
        return (
            "its producers write the partitions that consumers beside them read, which are others on one host fewer; "
            "--set consumers.processes=N, not as many as producers, has each write all of them"
        )
    return ""


def reads_what_it_wrote(row: Scenario) -> bool:
    """Whether each of several producer processes writes, on hosts, what the consumer process of its number reads."""
    readers = row.consumers
    if not readers or readers.membership != "assigned" or readers.groups > 1 or row.keys.kind != "none":
        return False
    return readers.processes == row.producers and row.topic.partitions % (readers.processes * readers.threads) == 0


def _making(row: Scenario) -> int:
    """Return how many processes make the load: those that read a backlog, or all that send."""
    if row.load.kind != "backlog":
        return row.producers
    return row.consumers.processes if row.consumers else 0


def _on(host: int, count: int, hosts: int) -> int:
    """Return how many of a role's processes are on this host, the first being 0: they are dealt out in turn."""
    return len(range(host, count, hosts))
