"""Passes that reduce IREE's compile time: elementwise_maps and repeats. runs.py and origins.py are parts of repeats.

In this folder, a repeat is a sequence of ops that occurs several times in succession, and each occurrence is a copy.
"""
