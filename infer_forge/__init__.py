"""infer-forge: reproducible inference optimisation. The library; no MCP and no terminal in it."""

__version__ = "0.1.0"
