"""Tools with which the passes and patterns of the other folders emit code.

    emitter                         the table of patterns, and the emitter that patterns write with
    kernels, vectors, workgroups    dispatches written as loops: of one thread, over vectors, and in parts for threads
    arrays, sizes, windows, patches, places, rows
                                    arrays of dynamic shapes; windows, updates of a scatter and rows of a sort
    marks, updates                  copies that IREE never merges; which arrays ops update in place
    known, polynomials              constant folding of splats; functions of f64 as polynomials
    convolutions_as_products, staged_reductions, gpu_scatters, gpu_tiles
                                    replacements that several rooms use
    refused                         the error for an op that IREE cannot compile

The folders `faults`, `missing`, `linear_algebra` and `fast` import this folder, but not each other.
"""
