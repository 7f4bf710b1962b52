"""The fake `sglang` package, for `python -m sglang.launch_server` and `python -m sglang.bench_serving`."""
