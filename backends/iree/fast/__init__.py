"""Rewrites of programs that IREE computes correctly but slowly. The folders:

    convolutions/, products/, sums/, ops/    code for CPUs: of convolutions, products, sums and other single ops
    loops/                                   loops on the host, and loops in one dispatch each
    memory/                                  less memory
    compile_time/                            less time to compile
    cuda/                                    code for GPUs

`--no-fast` disables these rewrites, so correct results must not depend on them. ../faults and ../missing have the
rewrites that correct results need. ../pipeline.py has the order of the passes.
"""
