"""The CPUs for which tests compare the text of programs: never this machine's, whose features are not known.

    str(source_of(program, AVX512).stablehlo).count("flow.executable.export") == 1

A test that runs a program compiles it for this machine (`HERE`), and compares only values. The passes read the features
of a target, whether or not that CPU is present, so the text of a program is the same on every machine.
"""

AVX512, THREADS = "cpu:x86-64-v4", "cpu-threads:x86-64-v4"
AVX2 = "cpu:x86-64-v3"
SSE4 = "cpu:x86-64-v2"

HERE, THREADS_HERE = "cpu", "cpu-threads"
"""This machine's CPU, for programs that run."""


def named(target: str) -> str:
    """The target for text of programs that run on `target`: with a named CPU in place of this machine's."""
    return {HERE: AVX512, THREADS_HERE: THREADS}.get(target, target)
