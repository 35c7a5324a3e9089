"""Imports programs of `torch.export`: reads `.pt2` files, lowers programs to StableHLO, and explains errors."""
