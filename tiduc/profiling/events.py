"""events: measures the dispatches of several calls of a compiled module on a CPU, with IREE's tools."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from iree.runtime import benchmark_exe

from tiduc.dialect.errors import TiducError
from tiduc.runtime.arrays import Array
from tiduc.runtime.run import Executable

_EVENT = "host_dispatch_event"
_find_benchmark: Callable[[], str] = benchmark_exe
"""Returns the path of IREE's tool `iree-benchmark-module`. The tool `iree-profile` is in the same folder."""


class DispatchEvent(NamedTuple):
    """One run of a dispatch: the name of its kernel, and its start and end times in nanoseconds."""

    kernel: str
    start: int
    end: int


Call = Sequence[DispatchEvent]
"""The dispatches of one call of a function, in order."""


def calls_of(executable: Executable, arrays: Sequence[Array], calls: int, folder: str) -> list[Call]:
    """Calls a function `calls` times with the arrays, and returns the dispatches of each call.

    IREE's tools read and write files in `folder`. Raises `TiducError` if one of these tools fails, or if the calls have
    different numbers of dispatches.
    """
    module, profile = Path(folder, "profiled.vmfb"), Path(folder, "calls.ireeprof")
    executable.save(module)
    given = []
    for i, (array, value) in enumerate(zip(arrays, executable.signature.inputs, strict=True)):
        file = Path(folder, f"{i}.bin")
        file.write_bytes(array.tobytes())
        given.append(f"--input={_type(array, str(value.type))}=@{file}")
    _run(
        [
            _find_benchmark(),
            f"--module={module}",
            f"--device={executable.device_name}",
            f"--function={executable.entry}",
            *given,
            f"--benchmark_min_time={calls}x",
            "--device_allocator=caching",
            "--device_profiling_mode=host-execution",
            f"--device_profiling_output={profile}",
        ]
    )
    tool = str(Path(_find_benchmark()).with_name("iree-profile"))
    lines = _run([tool, "dispatch", "--dispatch_events", "--format=jsonl", str(profile)]).splitlines()
    events = [_event(each) for each in map(json.loads, lines) if each["type"] == _EVENT]
    count, rest = divmod(len(events), calls)
    if rest:
        raise TiducError(f"calls have different numbers of dispatches: {len(events)} in {calls} calls")
    return [events[i * count : (i + 1) * count] for i in range(calls)]


def _type(array: Array, type_: str) -> str:
    """The shape and the element type of an array, in the syntax of IREE's tools: `2x3xf32`."""
    element = type_.removeprefix("tensor<").removesuffix(">").rpartition("x")[2]
    return "x".join([*map(str, array.shape), element])


def _event(line: Mapping[str, str | int]) -> DispatchEvent:
    return DispatchEvent(str(line["key"]), int(line["start_host_time_ns"]), int(line["end_host_time_ns"]))


def _run(command: Sequence[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = (ended.stderr.strip() or ended.stdout.strip() or "no message").splitlines()[-1]
        raise TiducError(f"IREE's profiler failed: {said}")
    return ended.stdout
