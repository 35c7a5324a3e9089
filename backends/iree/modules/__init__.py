"""Edits of IREE's own IR, which run between the phases of IREE's compiler.

In this folder, a pack is an op `stream.resource.pack`: it takes the sizes of arrays, and returns the size of an
allocation that holds all of them and the offset of each array. An intermediate array is called hosted if it is in the
memory of a result that is written later (hosting.py).
"""
