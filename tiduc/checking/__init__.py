"""Numeric checks of derivatives (`tiduc check`).

check.py            the checks: against finite differences, against each other, against stored derivatives
by_op.py            the ops whose own derivatives disagree
comparisons.py      the comparison at one point, with its tolerances
differences.py      central differences with an error estimate
"""
