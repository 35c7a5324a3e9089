"""Derivatives of programs: products, whole Jacobians, jets and tensors, each a program around stages of `passes/`."""
