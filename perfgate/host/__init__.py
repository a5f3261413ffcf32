"""This machine: processes and their ends, ports, CPU bounds, facts."""
