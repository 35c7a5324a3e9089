"""Patterns for CPUs that replace one op each by code that is faster than IREE's."""
