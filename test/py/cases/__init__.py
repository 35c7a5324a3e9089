"""Inputs of tests, such as programs, matrices and damaged files."""
