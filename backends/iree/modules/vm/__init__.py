"""Edits of modules for IREE's virtual machine. Most edits correct faults of IREE's compiler.

releases.py, references.py, registers.py    one fault each
large_arrays.py                             for speed, with several threads; runs last
recordings.py                               detects a fault that a compiler flag avoids
poison.py                                   fills arrays with NaN, to check the use of memory
functions.py                                functions, calls and branches of a VM module
"""
