"""Edits of IREE's own IR between the phases of IREE's compiler."""
