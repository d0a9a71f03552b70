"""End-to-end cost profiler for LLM agent workflows."""

__version__ = "0.1.0"
