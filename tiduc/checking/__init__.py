"""Numeric checks of derivatives (`tiduc check`).

check.py            compares derivatives with finite differences, with each other, and with stored derivatives
by_op.py            finds the ops whose derivatives are wrong
comparisons.py      the comparisons at one point, and their tolerances
differences.py      central differences with an error estimate
"""
