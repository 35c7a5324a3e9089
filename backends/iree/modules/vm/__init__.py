"""Edits of modules for IREE's virtual machine. Most edits correct faults of IREE's compiler.

releases.py, references.py, registers.py    correct one fault each
large_arrays.py                             makes programs with large arrays and several threads faster; runs last
recordings.py                               detects programs that need a compiler flag, which avoids a fault
poison.py                                   fills memory with NaN before and after its use, to check the use of memory
functions.py                                reads and writes functions, calls and branches of a VM module
"""
