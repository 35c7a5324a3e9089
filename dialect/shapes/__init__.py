"""The types and shapes of values: symbolic sizes of dynamic dimensions, and the values that determine them."""
