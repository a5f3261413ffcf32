"""Every scenario of the catalogue, and every relation between them: the two tests that a gate is made of.

A team's own repository has the same module: perfgate/fixtures/team/tests/test_gate.py.template.
"""

from perfgate.fixtures.cases import FAMILIES, test_relation, test_scenario

__all__ = ["FAMILIES", "test_relation", "test_scenario"]
