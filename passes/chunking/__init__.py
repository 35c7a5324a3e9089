"""Finds ops that can run on chunks of their arrays (`regions.py`), and replaces them by loops (`loops.py`)."""
