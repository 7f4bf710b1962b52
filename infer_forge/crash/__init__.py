"""Logs, dumps and coredumps become one verdict; the recorder."""
