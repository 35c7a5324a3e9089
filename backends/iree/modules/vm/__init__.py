"""Edits of IREE's VM module, which correct IREE's compilation to its virtual machine.

releases.py, references.py, registers.py    one fault each
large_arrays.py                             for speed, with several threads; runs last
recordings.py                               detects a fault that a compiler flag avoids
functions.py                                functions, calls and branches of a VM module
"""
