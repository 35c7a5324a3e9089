"""Rewrites of ops, element types and shapes that IREE does not support.

A decorator `@missing` on each pattern records the lack, and a program that IREE alone rejects, as in ../faults.
Factorizations and solves are in ../linear_algebra. Patterns for ops with dynamic dimensions are in dynamic/.
"""
