"""Rewrites of programs that IREE computes wrongly, or on which IREE's compiler crashes.

A file has patterns for ops (`@legalize`), or a pass on modules; ../pipeline.py lists the passes. The decorator of each
pattern or pass (`@wrong`, `@crash`) describes the bug of IREE that it avoids, and names a witness: a program that IREE
without the rewrite still miscompiles, or on which it still crashes. Rewrites of ops or shapes that IREE lacks are in
../missing. Rewrites for speed are in ../fast. docs/iree.md lists the steps to work around another bug of IREE.
"""
