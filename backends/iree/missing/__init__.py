"""IREE has no such op, or none of these types or shapes. One file is one subject."""
