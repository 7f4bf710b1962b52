"""The MCP face of infer-forge: server wiring, and one module of tools a room."""
