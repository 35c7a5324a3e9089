"""The stage that converts functions of StableHLO and CHLO to graphs (`import_stablehlo.py`).

The other files handle one form each: calls, scans, functions with their own derivative, and relus. Add a file here for
a form that a frontend exports and graphs lack.
"""
