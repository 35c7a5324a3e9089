"""Edits of the modules for IREE's virtual machine that its compiler emits. Most of them correct the compiler's faults.

releases.py, references.py, registers.py    one fault each
large_arrays.py                             for speed, with several threads; runs last
recordings.py                               detects a fault that a compiler flag avoids
poison.py                                   fills arrays with NaN, to check the use of memory
functions.py                                functions, calls and branches of a VM module
"""
