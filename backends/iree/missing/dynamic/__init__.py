"""Patterns for ops with dynamic dimensions that IREE compiles only for static shapes.

sizes.py, arrays.py         what patterns are written with: sizes as numbers, and arrays of such sizes
the others                  one subject each; their witnesses are in test/py/cases/iree_dynamic_cases.py
"""
