"""The engine of the performance gate: loads a system, measures it, judges what was measured. Imports without pytest."""
