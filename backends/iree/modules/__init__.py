"""Edits of IREE's own IR between the runs of its compiler."""
