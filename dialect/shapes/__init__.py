"""The types and shapes of values, with symbolic sizes of dynamic dimensions, and the rules that trace such sizes."""
