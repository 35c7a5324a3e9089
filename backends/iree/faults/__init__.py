"""Rewrites of programs that IREE computes wrongly, or on which its compiler crashes. Each file has one subject.

A file holds patterns for ops (`@legalize`) or passes on modules, which ../pipeline.py lists. Each pattern or pass
records the fault that it works around (`@wrong`, `@crash`), with a witness: a program that IREE alone still fails. If
IREE rejects an op or a shape as unsupported, the rewrite belongs in ../missing; if IREE is only slow, in ../fast.
docs/iree.md lists the steps to add a fault.
"""
