"""Engines that compile and run lowered programs. Each folder is one engine and holds every fact about it.

The module `backend` of a folder defines the `Backend` record that `find_backend` looks up by the folder's name.
"""
