"""Inputs of tests: programs, matrices, damaged files."""
