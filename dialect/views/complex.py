"""Empty: see the package."""
