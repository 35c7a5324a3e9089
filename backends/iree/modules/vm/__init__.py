"""Rewrites modules in the dialect `vm`, the code of IREE's virtual machine. Most rewrites correct faults of IREE.

releases.py, references.py, registers.py    correct one fault of IREE's compiler each
large_arrays.py                             makes programs with large arrays and several threads faster; runs last
recordings.py                               detects programs that need a compiler flag, which avoids a fault
poison.py                                   makes a program fill memory with NaN, so that wrong reads show in results
functions.py                                reads functions, calls and branches of a VM module, and creates calls
"""
