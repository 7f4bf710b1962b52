"""Write the example prompts of prompts/ from `references/prompt_examples.yaml`, and the table of prompts/README.md."""

from __future__ import annotations

from chores import ROOT
from infer_forge.campaign.prompts import example_facts, examples, write_examples

HEAD = """# Prompts

Campaign prompts for Claude Code (`/loop`), Codex (`/goal`) and the RLCR review loop. Each is what `infer-forge campaign prompt`
renders from a benchmark contract; `PYTHONPATH=scripts python -m chores.prompts` makes them from `references/prompt_examples.yaml`,
and a test renders them again.

Take your own from your own contract: `infer-forge campaign prompt --mode goal --contract FILE --checkout DIR --root DIR`, or,
once it is locked, `infer-forge campaign prompt --mode goal --run DIR`. Paths, forks and service levels of these are made up.

What to choose: `rlcr` where the work ends in a pull request, where serving correctness is at risk, or where it lasts days (an
executor and a separate reviewer; dearer); `goal` where one agent checks itself (cheaper); `loop` where a timer wakes the agent.
The obligations are the same.

| prompt | for | mode | rivals |
|---|---|---|---|
"""


def table() -> str:
    """The README's text."""
    rows = [
        f"| [{e['name']}]({e['name']}.md) | {e['for']} | {e['mode']} | {', '.join(example_facts(e).rivals)} |"
        for e in examples()
    ]
    return HEAD + "\n".join(rows) + "\n"


def main() -> None:
    """Write them all."""
    made = write_examples(ROOT / "prompts")
    (ROOT / "prompts" / "README.md").write_text(table(), encoding="utf-8")
    print(f"{len(made)} prompts written")


if __name__ == "__main__":
    main()
