"""Tools, one module a room; `server.py` finds every function decorated with `toolkit.tool`."""
