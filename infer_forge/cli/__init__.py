"""The command line: one module a command group, imported when its command runs."""
