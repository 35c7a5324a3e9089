"""Patterns for ops with dynamic dimensions that IREE compiles only for static shapes.

Each file has one subject; the witnesses are in test/py/cases/iree_dynamic_cases.py. Patterns compute sizes with
../../emit/sizes.py, and arrays of these sizes with ../../emit/arrays.py.
"""
