"""Passes that make loops faster. Each pass asks the table in loop_forms.py which loops it should rewrite:

loops_to_kernels      runs a loop in one dispatch. It uses kernel_forms, signed_carries and packing
loops_by_count        makes the host count the iterations of a loop. counters.py finds trip counts
carries_in_place      makes a loop on the host update loop-carried arrays without copies
"""
