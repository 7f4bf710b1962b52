"""The fake `tensorrt_llm` package."""
