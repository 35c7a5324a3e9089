"""The stage that converts functions of StableHLO and CHLO to graphs (`import_stablehlo.py`).

Each of the other files checks or converts one construct, such as calls, scans, or functions with their own derivative.
If a frontend exports another construct that graphs lack, add a file for it here.
"""
