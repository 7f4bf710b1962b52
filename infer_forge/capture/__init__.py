"""Profiles taken from a running server."""
