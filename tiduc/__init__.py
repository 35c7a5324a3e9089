"""The compiler that differentiates StableHLO programs."""
