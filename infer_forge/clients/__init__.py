"""Claude Code and Codex: paths, manifests, hooks; install and doctor."""
