"""Passes that reduce IREE's compile time: elementwise_maps and repeats. runs.py and origins.py are parts of repeats."""
