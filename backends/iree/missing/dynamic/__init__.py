"""Patterns for ops with dynamic dimensions that IREE compiles only for static shapes.

The programs that IREE alone rejects are in test/py/cases/iree_dynamic_cases.py. Patterns compute sizes at run time with
../../emit/sizes.py, and arrays of such sizes with ../../emit/arrays.py.
"""
