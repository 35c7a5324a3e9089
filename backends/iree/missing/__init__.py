"""Rewrites of ops, element types and shapes that IREE does not support.

The decorator of each pattern (`@missing`) describes what IREE lacks, and names a witness: a program that IREE without
the pattern rejects. Factorizations and solves are in ../linear_algebra. Patterns for ops with dynamic dimensions are in
dynamic/. Some patterns also avoid bugs of IREE, and have decorators as in ../faults.
"""
