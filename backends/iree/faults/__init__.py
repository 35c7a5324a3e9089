"""Rewrites of programs that IREE computes wrongly, or on which IREE's compiler crashes.

A file has patterns for ops (`@legalize`), or a pass on modules; ../pipeline.py lists the passes. Each pattern or pass
is marked with the fault of IREE that it avoids (`@wrong`, `@crash`) and with a witness: a program on which IREE without
the rewrite still fails. Rewrites of ops or shapes that IREE does not support are in ../missing. Rewrites for speed are
in ../fast. docs/iree.md lists the steps to work around another fault.
"""
