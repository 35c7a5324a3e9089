"""The CPUs for which tests look at the text of programs: never this machine's, whose features are not known.

    str(source_of(program, AVX512).stablehlo).count("flow.executable.export") == 1

A test that runs a program compiles it for this machine, and compares values only. The passes read a target's features
and do not ask whether the CPU is there, so that the text of a program is the same on every machine.
"""

AVX512 = "cpu:x86-64-v4"
AVX2 = "cpu:x86-64-v3"
SSE4 = "cpu:x86-64-v2"

EACH = (SSE4, AVX2, AVX512)
