"""Patterns for CPUs. Each replaces one op by code that is faster than IREE's."""
