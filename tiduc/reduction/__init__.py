"""Reduces modules that a test finds interesting."""
