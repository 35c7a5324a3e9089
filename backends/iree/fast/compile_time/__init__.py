"""Passes that reduce IREE's compile time: elementwise_maps and repeats. The pass repeats uses runs.py and origins.py.

In this folder, a repeat is a sequence of ops that occurs several times in succession. Each occurrence is called a copy.
"""
