"""The IR: what there is, not what is done with it."""
