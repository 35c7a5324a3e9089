"""Rewrites of ops, element types and shapes that IREE does not support.

Each pattern has a record `@missing` with a witness, as in ../faults. Factorizations and solves are in
../linear_algebra, ops with dynamic dimensions in dynamic/.
"""
