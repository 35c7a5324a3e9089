"""Single ops on CPUs: patterns whose code is faster than IREE's."""
