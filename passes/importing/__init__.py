"""The stage that converts functions of StableHLO and CHLO to graphs (`import_stablehlo.py`).

Each other file checks or converts one form, such as calls, scans, or functions with their own derivative. Add a file
here for a form that a frontend exports and graphs lack.
"""
