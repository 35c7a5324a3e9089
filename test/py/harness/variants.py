"""CPU targets for tests that compare the text of compiled programs.

    str(source_of(program, AVX512).stablehlo).count("flow.executable.export") == 1

A test that compares text compiles for a named CPU, so that the text does not depend on the machine. A test that runs a
program compiles it for this machine's CPU (`HERE`), and compares only values.
"""

AVX512, THREADS = "cpu:x86-64-v4", "cpu-threads:x86-64-v4"
AVX2 = "cpu:x86-64-v3"
SSE4 = "cpu:x86-64-v2"

HERE, THREADS_HERE = "cpu", "cpu-threads"
"""The targets for this machine's CPU, with one thread and with several threads."""


def named(target: str) -> str:
    """Returns the target with a named CPU in place of this machine's CPU, for tests that compare text."""
    return {HERE: AVX512, THREADS_HERE: THREADS}.get(target, target)
