"""Rewrites of ops, element types and shapes that IREE does not support. Each file has one subject.

The records are `@missing`, with witnesses as in ../faults. Factorizations and solves are in ../linear_algebra, ops with
dynamic dimensions in dynamic/.
"""
