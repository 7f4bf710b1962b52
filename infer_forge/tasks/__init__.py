"""Task definition, loop blocks, task memory, handoff."""
