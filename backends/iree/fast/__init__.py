"""Rewrites for speed: programs that IREE computes correctly, but slowly.

    loops_by_count, loops_to_kernels, carries_in_place      passes on loops, with carries.py and packing.py
    flat_products, products_in_tiles                        passes on large dense products, with matrices, tiles
    convolutions_to_kernels                                a pass, with convolution_form, channels_first, image_parts,
                                                            phases, toward_kernels, toward_depthwise, pointwise, planes
                                                            and patches
    gpu_products, gpu_convolutions, pooled_scatters         for GPUs: passes on products and convolutions of f32, a
                                                            pattern for gradients of max-pools
    reductions_in_lanes, sums_in_blocks                     passes on sums and extrema
    select_reruns, stored_values                            passes on barriers, for less memory
    elementwise_maps, repeats, with runs and origins        passes for the time that compiling takes
    exponentials, insertion_sort, iotas, logarithms,        patterns for single ops
    padded_sums, remainders, reversals, scatter_loops,
    window_loops
    kernels, workgroups, vectors                            dispatches written as loops: of one thread, of several, and
                                                            over vectors
    kernel_forms, work                                      replacements for ops within kernels; estimates of work

`--no-fast` switches all of them off, so a rewrite here must not be needed for correct results. ../pipeline.py has the
order of the passes. A rewrite belongs here if IREE alone computes the right values; else see ../faults and ../missing.
"""
