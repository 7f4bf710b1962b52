"""Fake engines and load generators: real processes with real HTTP, logs, help and files, and faults on demand.

See `tests/engines/README.md`. Standard library only, so that a process answers within 150 ms of its start.
"""
