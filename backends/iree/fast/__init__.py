"""Rewrites for speed: programs that IREE computes correctly, but slowly."""
