"""Tools with which the passes and patterns of the other folders emit code.

    emitter                         the table of patterns, and the emitter that patterns write with
    kernels, vectors, workgroups    dispatches written as loops: in one thread, with vectors, and divided among threads
    arrays, sizes                   arrays of dynamic shapes, and sizes that are known only at run time
    windows, patches                sums over windows without a scatter; windows as the columns of a matrix (im2col)
    places, rows                    the rows that a scatter updates; the rows that a sort sorts
    marks, updates                  copies that IREE never merges; which arrays ops update in place
    known, polynomials              constant folding of splats; functions of f64 as polynomials
    convolutions_as_products, staged_reductions, gpu_scatters, gpu_tiles
                                    rewrites that several folders use
    refused                         the error for an op that IREE cannot compile

The folders `faults`, `missing`, `linear_algebra` and `fast` import this folder, but not each other.
"""
