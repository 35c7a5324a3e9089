"""The stage that fits a flat graph into memory: it orders ops, and recomputes values where a budget asks for it."""
