"""aiperf, a load generator of no engine (ai-dynamo/aiperf; flags read at 0.13.0)."""

from __future__ import annotations

from infer_forge.engines.grammar import Client, ClientPlan


def _client_argv(plan: ClientPlan) -> list[str]:
    kind = "chat" if "chat" in plan.endpoint else "completions"
    words = ["--model", plan.model, "--url", plan.base_url, "--endpoint-type", kind, "--streaming"]
    if plan.tokenizer:
        words += ["--tokenizer", plan.tokenizer]
    if plan.prompts_file:
        words += ["--input-file", plan.prompts_file, "--custom-dataset-type", "single_turn"]
    else:
        words += ["--synthetic-input-tokens-mean", str(plan.input_len)]
    words += ["--output-tokens-mean", str(plan.output_len), "--request-count", str(plan.num_prompts)]
    if plan.concurrency is not None:
        words += ["--concurrency", str(plan.concurrency)]
    if plan.request_rate is not None:
        words += ["--request-rate", f"{plan.request_rate:g}"]
    extra = [f"temperature:{plan.temperature:g}", f"top_p:{plan.top_p:g}"]
    if plan.ignore_eos:
        extra.append("ignore_eos:true")
    words += ["--extra-inputs", *extra, "--warmup-request-count", str(plan.warmups), "--random-seed", str(plan.seed)]
    return [*words, "--artifact-dir", plan.result.rpartition("/")[0] or "."]


CLIENT = Client(
    name="aiperf",
    launch=("aiperf", "profile"),
    argv=_client_argv,
    view="aiperf",
    version_argv=("aiperf", "--version"),
    notes=("it writes profile_export_aiperf.json into its folder: one run, one folder",),
)
"""The load generator."""
