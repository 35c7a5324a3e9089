"""Rewrites of programs that IREE computes correctly but slowly. The folders:

    convolutions/, products/, sums/, ops/    emit faster code for convolutions, products, sums and other ops on CPUs
    loops/                                   make loops faster: those that the host runs, and those in a dispatch
    memory/                                  reduce the memory that the program needs
    compile_time/                            reduce the time that IREE's compiler takes
    cuda/                                    emit faster code for NVIDIA's GPUs

`--no-fast` disables these rewrites, so correct results must not depend on them. The rewrites without which results are
wrong are in ../faults and ../missing. ../pipeline.py lists the passes in order.
"""
