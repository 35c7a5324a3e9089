"""The builder of StableHLO, region bodies, and matrices made of ops."""
