"""structure: control flow over graphs becomes StableHLO's: loops without sequences, each at one place."""
