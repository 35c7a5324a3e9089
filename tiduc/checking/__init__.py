"""Checks of derivatives: by finite differences, and against given numbers."""
