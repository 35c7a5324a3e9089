"""Patterns for ops with dynamic dimensions that IREE compiles only for static shapes.

Each file is one subject; the witnesses are in test/py/cases/iree_dynamic_cases.py. Patterns use ../../emit/sizes.py,
for sizes as numbers, and ../../emit/arrays.py, for arrays of such sizes.
"""
