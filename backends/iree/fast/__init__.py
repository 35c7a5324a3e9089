"""Rewrites for speed: programs that IREE computes correctly, but slowly. Each folder has one subject:

    convolutions/, products/, sums/, ops/    code for CPUs: of convolutions, products, sums and other single ops
    loops/                                   loops on the host, and loops in one dispatch each
    memory/                                  less memory
    compile_time/                            less time to compile
    cuda/                                    code for GPUs

`--no-fast` switches all of them off, so a rewrite here must not be needed for correct results. ../pipeline.py has the
order of the passes. A rewrite belongs here if IREE alone computes the right values; else see ../faults and ../missing.
"""
