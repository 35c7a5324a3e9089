"""Rewrites of programs that IREE computes wrongly, or on which IREE's compiler crashes.

A file holds patterns for ops (`@legalize`) or passes on modules, which ../pipeline.py lists. Each pattern or pass
records its fault (`@wrong`, `@crash`), with a witness: a program that IREE alone still fails. Rewrites of ops or shapes
that IREE does not support are in ../missing. Rewrites for speed are in ../fast. docs/iree.md lists the steps to add a
fault.
"""
