"""The flags of each fake program, from which both its help and its parser are made.

A line is `--flag,-f METAVAR text`; without a METAVAR the flag takes no value, `METAVAR+` takes several.
"""

from __future__ import annotations

from typing import Any

SGLANG_SERVER = """
--model-path,--model PATH The path of the model weights.
--tokenizer-path PATH The path of the tokenizer.
--revision REV The model version to use.
--load-format FORMAT The format of the model weights to load.
--trust-remote-code Whether to allow custom models defined on the Hub.
--context-length N The model's maximum context length.
--chat-template FILE The chat template.
--host HOST The host of the HTTP server.
--port PORT The port of the HTTP server.
--served-model-name NAME Override the model name returned by the v1/models endpoint.
--tensor-parallel-size,--tp-size,--tp N The tensor parallelism size.
--pipeline-parallel-size,--pp-size N The pipeline parallelism size.
--data-parallel-size,--dp-size,--dp N The data parallelism size.
--expert-parallel-size,--ep-size,--ep N The expert parallelism size.
--nnodes N The number of nodes.
--node-rank N The node rank.
--dist-init-addr ADDR The host address for initializing distributed backend.
--dtype TYPE Data type for model weights and activations.
--quantization METHOD The quantization method.
--kv-cache-dtype TYPE Data type for kv cache storage.
--mem-fraction-static F The fraction of the memory used for static allocation.
--max-running-requests N The maximum number of running requests.
--max-total-tokens N The maximum number of tokens in the memory pool.
--chunked-prefill-size N The maximum number of tokens in a chunk for the chunked prefill.
--max-prefill-tokens N The maximum number of tokens in a prefill batch.
--schedule-policy POLICY The scheduling policy of the requests.
--schedule-conservativeness F How conservative the schedule policy is.
--page-size N The number of tokens in a page.
--stream-interval N The interval for streaming in terms of the token length.
--random-seed N The random seed.
--log-level LEVEL The logging level of all loggers.
--enable-metrics Enable log prometheus metrics.
--reasoning-parser NAME Specify the parser for reasoning models.
--tool-call-parser NAME Specify the parser for tool calls.
--attention-backend NAME Choose the kernels for attention layers.
--prefill-attention-backend NAME Choose the kernels for prefill attention layers.
--decode-attention-backend NAME Choose the kernels for decode attention layers.
--sampling-backend NAME Choose the kernels for sampling layers.
--moe-runner-backend NAME Choose the runner backend for MoE.
--moe-a2a-backend NAME Choose the backend for MoE A2A.
--enable-dp-attention Enable data parallelism for attention.
--speculative-algorithm NAME Speculative algorithm.
--speculative-draft-model-path PATH The path of the draft model weights.
--speculative-num-steps N The number of steps sampled from draft model.
--speculative-eagle-topk N The number of tokens sampled from the draft model in eagle2 each step.
--speculative-num-draft-tokens N The number of tokens sampled from the draft model.
--disable-radix-cache Disable RadixAttention for prefix caching.
--disable-cuda-graph Disable cuda graph.
--cuda-graph-max-bs N Set the maximum batch size for cuda graph.
--cuda-graph-bs N+ Set the list of batch sizes for cuda graph.
--disable-overlap-schedule Disable the overlap scheduler.
--enable-mixed-chunk Enable mixing prefill and decode in a batch when using chunked prefill.
--enable-two-batch-overlap Enabling two micro batches to overlap.
--enable-torch-compile Optimize the model with torch.compile.
--num-continuous-decode-steps N Run multiple continuous decoding steps.
--watchdog-timeout N Set watchdog timeout in seconds.
--disaggregation-mode MODE Only used for PD disaggregation.
--version Print the version and exit.
"""

VLLM_SERVER = """
--model PATH Name or path of the Hugging Face model to use.
--tokenizer PATH Name or path of the Hugging Face tokenizer to use.
--revision REV The specific model version to use.
--load-format FORMAT The format of the model weights to load.
--trust-remote-code,--no-trust-remote-code Trust remote code when downloading the model.
--max-model-len N Model context length.
--generation-config PATH The folder path to the generation config.
--chat-template FILE The file path to the chat template.
--host HOST Host name.
--port PORT Port number.
--api-key KEY If provided, the server will require this key.
--served-model-name NAME+ The model name(s) used in the API.
--uvicorn-log-level LEVEL Log level for uvicorn.
--tensor-parallel-size,-tp N Number of tensor parallel groups.
--pipeline-parallel-size,-pp N Number of pipeline parallel groups.
--data-parallel-size,-dp N Number of data parallel groups.
--enable-expert-parallel,--no-enable-expert-parallel Use expert parallelism instead of tensor parallelism for MoE layers.
--dtype TYPE Data type for model weights and activations.
--quantization,-q METHOD Method used to quantize the weights.
--kv-cache-dtype TYPE Data type for kv cache storage.
--gpu-memory-utilization F The fraction of GPU memory to be used.
--max-num-seqs N Maximum number of sequences to be processed in a single iteration.
--max-num-batched-tokens N Maximum number of tokens that can be processed in a single iteration.
--block-size N Size of a contiguous cache block in number of tokens.
--enable-prefix-caching,--no-enable-prefix-caching Whether to enable prefix caching.
--enable-chunked-prefill,--no-enable-chunked-prefill Whether to chunk prefill requests.
--async-scheduling,--no-async-scheduling Perform async scheduling.
--enforce-eager,--no-enforce-eager Whether to always use eager-mode PyTorch.
--compilation-config,-O JSON torch.compile and cudagraph capture configuration.
--max-cudagraph-capture-size N The maximum cudagraph capture size.
--attention-backend NAME Attention backend to use.
--speculative-config JSON Speculative decoding configuration.
--profiler-config JSON Profiling configuration.
--seed N Random seed for reproducibility.
--stream-interval N The interval for streaming in terms of token length.
--reasoning-parser NAME The reasoning parser to use.
--tool-call-parser NAME The tool parser to use.
--enable-auto-tool-choice,--no-enable-auto-tool-choice Enable auto tool choice.
--enable-eplb,--no-enable-eplb Enable expert parallel load balancing.
--headless Run in headless mode.
"""

TRTLLM_SERVER = """
--tokenizer PATH Path or name of the tokenizer.
--revision REV The revision of the model.
--host HOST Hostname of the server.
--port PORT Port of the server.
--backend NAME The backend to use to serve the model: pytorch, tensorrt or _autodeploy.
--log_level LEVEL The logging level.
--max_beam_width N Maximum number of beams for beam search decoding.
--max_batch_size N Maximum number of requests that the engine can schedule.
--max_num_tokens N Maximum number of batched input tokens.
--max_seq_len N Maximum total length of one request.
--tp_size N Tensor parallelism size.
--pp_size N Pipeline parallelism size.
--ep_size N Expert parallelism size.
--gpus_per_node N Number of GPUs per node.
--kv_cache_free_gpu_memory_fraction,--free_gpu_memory_fraction F Free GPU memory fraction reserved for KV Cache.
--kv_cache_dtype TYPE KV cache data type.
--num_postprocess_workers N Number of workers to postprocess raw responses.
--trust_remote_code Flag for HF transformers.
--config,--extra_llm_api_options FILE Path to a YAML file that overwrites the parameters.
--reasoning_parser NAME Specify the parser for reasoning models.
--tool_parser NAME Specify the parser for tool models.
--enable_chunked_prefill Enable chunked prefill.
"""

TOKENSPEED_SERVER = """
--model PATH Model path or Hugging Face repo ID.
--tokenizer PATH Tokenizer path.
--revision REV Model revision.
--load-format FORMAT Weight loading format.
--trust-remote-code Allow custom model code.
--max-model-len N Maximum sequence length.
--chat-template FILE Chat template name or path.
--host HOST HTTP bind host.
--port PORT HTTP bind port.
--api-key KEY Gateway API key.
--served-model-name NAME OpenAI-compatible served model name.
--tensor-parallel-size,--tp N Set attention tensor parallel size.
--attn-tp-size N Attention tensor parallel size.
--dense-tp-size N Dense tensor parallel size.
--moe-tp-size N MoE tensor parallel size.
--data-parallel-size N Data parallel size.
--expert-parallel-size,--ep-size N Expert parallel size.
--enable-expert-parallel Enable expert parallelism.
--dtype TYPE Weight and activation dtype.
--quantization METHOD Weight quantization method.
--kv-cache-dtype TYPE KV cache storage dtype.
--gpu-memory-utilization F GPU memory fraction.
--max-num-seqs N Maximum concurrent sequences.
--max-total-tokens N Global token pool size override.
--chunked-prefill-size N Scheduler per-iteration issue budget.
--block-size N KV cache block size.
--enable-prefix-caching,--no-enable-prefix-caching Prefix cache reuse.
--enforce-eager Disable device-graph execution.
--max-cudagraph-capture-size N Largest decode device-graph capture size.
--attention-backend NAME Attention backend.
--moe-backend NAME MoE backend.
--comm-fusion-max-num-tokens N Largest batch for fused communication.
--speculative-config JSON Speculative decoding configuration.
--reasoning-parser NAME Reasoning-output parser.
--tool-call-parser NAME Tool-call parser.
--seed N Random seed.
"""

_FAMILY = """
--backend,--endpoint-type NAME The type of backend or endpoint to use.
--base-url URL Server base url.
--host HOST Host.
--port PORT Port.
--endpoint PATH API endpoint.
--model NAME Name of the model.
--served-model-name NAME The model name used in the API.
--tokenizer NAME Name or path of the tokenizer.
--trust-remote-code Trust remote code from the Hub.
--dataset-name NAME Name of the dataset to benchmark on.
--dataset-path PATH Path of the dataset.
--num-prompts N Number of prompts to process.
--random-input-len N Number of input tokens per request.
--random-output-len N Number of output tokens per request.
--random-range-ratio F Range of the sampled lengths: [L*(1-r), L*(1+r)].
--random-prefix-len N Number of fixed prefix tokens.
--request-rate F Number of requests per second.
--burstiness F Burstiness factor of the request generation.
--max-concurrency N Maximum number of concurrent requests.
--seed N Random seed.
--ignore-eos Set ignore_eos flag when sending the benchmark request.
--temperature F Temperature sampling parameter.
--top-p F Top-p sampling parameter.
--percentile-metrics NAMES Comma-separated list of selected metrics to report percentiles.
--metric-percentiles NUMBERS Comma-separated list of percentiles.
--goodput PAIR+ Service level objectives for goodput.
--metadata PAIR+ Key-value pairs for metadata of this run.
--save-result Save the benchmark results to a json file.
--save-detailed Save per request information.
--result-dir DIR Directory of the result file.
--result-filename NAME Name of the result file.
--disable-tqdm Disable the progress bar.
--profile Use Torch Profiler.
"""

VLLM_BENCH = (
    _FAMILY
    + """
--custom-output-len N Number of output tokens per request of the custom dataset.
--custom-skip-chat-template,--skip-chat-template Skip applying the chat template.
--append-result Append the benchmark result to the existing json file.
--num-warmups N Number of warmup requests.
--ready-check-timeout-sec N Maximum time to wait for the endpoint to become ready.
--label NAME The label of the benchmark results.
--extra-body JSON Extra fields of the request body.
--request-id-prefix TEXT Prefix of the request id.
"""
)

TRTLLM_BENCH = (
    _FAMILY
    + """
--random-ids Generate prompts from random token ids.
--download-path DIR Path of the downloaded ShareGPT data.
--no-test-input Skip the initial test run.
"""
)

TOKENSPEED_BENCH = (
    _FAMILY
    + """
--num-warmups N Number of warmup requests.
--ready-check-timeout-sec N Maximum time to wait for the endpoint to become ready.
--label NAME The label of the benchmark results.
--output-file FILE Path of the result file.
--extra-body JSON Extra fields of the request body.
"""
)

SGLANG_BENCH = """
--backend NAME Must specify a backend, depending on the LLM Inference Engine.
--base-url URL Server or API base url.
--host HOST Default host is 0.0.0.0.
--port PORT The port of the server.
--dataset-name NAME Name of the dataset to benchmark on.
--dataset-path PATH Path to the dataset.
--model NAME Name or path of the model.
--served-model-name NAME The name of the model as served.
--tokenizer NAME Name or path of the tokenizer.
--num-prompts N Number of prompts to process.
--sharegpt-output-len N Output length for each request.
--random-input-len,--random-input N Number of input tokens per request.
--random-output-len,--random-output N Number of output tokens per request.
--random-range-ratio F Range of sampled ratio of input/output length.
--request-rate F Number of requests per second.
--max-concurrency N Maximum number of concurrent requests.
--output-file FILE Output JSONL file name.
--output-details Output details of benchmarking.
--disable-tqdm Specify to disable tqdm progress bar.
--disable-stream Disable streaming mode.
--disable-ignore-eos Disable ignoring EOS.
--extra-request-body JSON Append given JSON object to the request payload.
--seed N The random seed.
--warmup-requests N Number of warmup requests to run before the benchmark.
--flush-cache Flush the cache before running the benchmark.
--tokenize-prompt Use integer ids instead of string for inputs.
--apply-chat-template Apply chat template.
--ready-check-timeout-sec N Maximum time to wait for the server.
--profile Use Torch Profiler.
--tag TEXT The tag to be dumped to output.
"""

AIPERF = """
--model,-m NAME Model name to be benchmarked.
--url,-u URL Base URL of the API to target.
--endpoint PATH Custom endpoint path.
--endpoint-type NAME The type of endpoint.
--streaming Enable streaming responses.
--concurrency N Number of concurrent requests.
--request-rate F Target request rate.
--request-count,--num-requests N Maximum number of requests to send.
--warmup-request-count N Number of warmup requests.
--input-file FILE The dataset file.
--custom-dataset-type NAME The type of custom dataset.
--synthetic-input-tokens-mean,--isl N Mean number of input tokens.
--output-tokens-mean,--osl N Mean number of output tokens.
--extra-inputs PAIR+ Additional inputs of every request.
--random-seed N Random seed.
--artifact-dir,--output-artifact-dir DIR Directory of the output artifacts.
--tokenizer NAME Tokenizer.
--ui NAME User interface type.
"""


def table(text: str) -> dict[str, tuple[str, str]]:
    """Flag (each spelling) -> (its first spelling's dest, metavar or "")."""
    flags: dict[str, tuple[str, str]] = {}
    for line in text.strip().splitlines():
        if not line.strip():
            continue
        names, rest = line.split(" ", 1)
        first = rest.split(" ", 1)[0]
        metavar = first if first.strip("+").isupper() and first.strip("+").isalpha() else ""
        spellings = names.split(",")
        dest = spellings[0].lstrip("-").replace("-", "_")
        for name in spellings:
            flags[name] = (dest, metavar)
    return flags


def help_text(usage: str, text: str, *, positional: str = "") -> str:
    """Help as argparse prints it."""
    lines = [f"usage: {usage} [-h] [options]{' ' + positional if positional else ''}", ""]
    if positional:
        lines += ["positional arguments:", f"  {positional:<22}The model to serve.", ""]
    lines += ["options:", "  -h, --help            show this help message and exit"]
    for line in text.strip().splitlines():
        if not line.strip():
            continue
        names, rest = line.split(" ", 1)
        first, _, words = rest.partition(" ")
        metavar = first if first.strip("+").isupper() and first.strip("+").isalpha() else ""
        shown = metavar.strip("+") + (f" [{metavar.strip('+')} ...]" if metavar.endswith("+") else "")
        head = ", ".join(f"{n} {shown}".strip() for n in names.split(","))
        lines += [f"  {head}", f"                        {words if metavar else rest}"]
    return "\n".join(lines) + "\n"


def parse(text: str, argv: list[str], *, prog: str, positional: str = "") -> dict[str, Any]:
    """Options of a command line by `dest`; exits 2 at an unknown flag, as argparse does."""
    flags = table(text)
    values: dict[str, Any] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, inline = word.partition("=")
        if not word.startswith("-") or name.lstrip("-").replace(".", "").isdigit():
            if positional and positional not in values:
                values[positional] = word
                continue
            raise SystemExit(_unknown(prog, word))
        if name not in flags:
            raise SystemExit(_unknown(prog, word))
        dest, metavar = flags[name]
        if not metavar:
            values[dest] = not name.startswith("--no-")
        elif equals:
            values[dest] = inline
        elif not words:
            raise SystemExit(_unknown(prog, f"{name}: expected one argument"))
        elif metavar.endswith("+"):
            many: list[str] = []
            while words and not words[0].startswith("--"):
                many.append(words.pop(0))
            values[dest] = many
        else:
            values[dest] = words.pop(0)
    return values


def _unknown(prog: str, word: str) -> int:
    import sys

    print(f"usage: {prog} [-h] [options]\n{prog}: error: unrecognized arguments: {word}", file=sys.stderr)
    return 2
