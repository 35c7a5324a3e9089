"""Rewrites for speed: programs that IREE computes correctly, but slowly.

    loops_by_count, loops_to_kernels, carries_in_place      passes on loops, with carries.py and packing.py
    flat_products, products_in_tiles                        passes on large dense products, with tiles
    convolutions_to_products                                a pass, with convolution_form, patches, products, phases,
                                                            large_kernels and depthwise; on AVX-512, channels_first,
                                                            toward_kernels, toward_depthwise, pointwise and planes
    reductions_in_lanes, sums_in_blocks                     passes on sums and extrema
    select_reruns, stored_values                            passes on barriers, for less memory
    elementwise_maps, repeats                               passes for the time that compiling takes
    exponentials, insertion_sort, iotas, logarithms,        patterns for single ops
    padded_sums, remainders, reversals, scatter_loops,
    window_loops
    kernels, workgroups, vectors                            dispatches written as loops: of one thread, of several, and
                                                            over vectors
    kernel_forms, work                                      replacements for ops within kernels; estimates of work

`--no-fast` switches all of them off, so a rewrite here must not be needed for correct results. ../pipeline.py has the
order of the passes. A rewrite belongs here if IREE alone computes the right values; else see ../faults and ../missing.
"""
