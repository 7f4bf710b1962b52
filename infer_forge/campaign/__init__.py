"""The SOTA loop."""
