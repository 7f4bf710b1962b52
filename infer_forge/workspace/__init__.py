"""The multi-repository workspace."""
