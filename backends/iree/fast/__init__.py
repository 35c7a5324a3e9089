"""Rewrites for speed: programs that IREE computes correctly, but slowly.

    loops_by_count, loops_to_kernels, stacks_in_chunks      passes on loops, with carries.py and packing.py
    products_in_tiles                                       a pass on large dense products
    convolutions_to_products                                a pass, with convolution_form, patches, products, phases,
                                                            large_kernels and depthwise; on AVX-512, channels_first,
                                                            toward_kernels and planes
    reductions_in_lanes, sines_to_kernels                   further passes
    select_reruns, stored_values                            passes on barriers, for less memory
    exponentials, scatter_loops, insertion_sort, ...        patterns for single ops
    kernels, vectors, kernel_forms, work                    what several of them need: dispatches written as loops, and
                                                            estimates of work

`--no-fast` switches all of them off, so a rewrite here must not be needed for correct results. ../pipeline.py has the
order of the passes. A rewrite belongs here if IREE alone computes the right values; else see ../faults and ../missing.
"""
