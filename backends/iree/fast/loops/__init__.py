"""Loops. The table in loop_forms decides which form each loop gets; the passes consult the table:

loops_to_kernels      loops in one dispatch, with kernel_forms, signed_carries and packing
loops_by_count        loops whose iterations the host counts; counters has the trip counts
carries_in_place      loops on the host that copy no array
"""
