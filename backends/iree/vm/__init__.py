"""Faults of IREE that are mended in the text of a VM module, between the two halves of a compilation."""
