"""This module is empty on purpose; the docstring of the package says why."""
