"""Workarounds for IREE that rewrite the text of a VM module, between the two steps of a compilation."""
