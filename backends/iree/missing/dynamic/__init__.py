"""Patterns for ops with dynamic dimensions that IREE compiles only for static shapes.

Each file is one subject; the witnesses are in test/py/cases/iree_dynamic_cases.py. ../../emit/sizes.py and
../../emit/arrays.py have what patterns are written with: sizes as numbers, and arrays of such sizes.
"""
