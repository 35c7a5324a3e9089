"""Loops: the passes loops_by_count, loops_to_kernels (with kernel_forms, carries, packing) and carries_in_place."""
