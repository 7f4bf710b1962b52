"""The ground floor: imports nothing above it, and nothing heavy when it is imported."""
