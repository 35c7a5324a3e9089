"""Tests "hosting": temporary arrays of an IREE execution region use the memory of a result that is written later."""

import itertools
import re

import numpy as np
import pytest
from harness.edits import after
from test_iree_placement import values

from tiduc.backends.iree.modules.hosting import host_arrays
from tiduc.backends.iree.modules.order import LiveArray

REGION = """module {
  util.func public @main(%arg0: index) {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c4 = arith.constant 4 : index
    %0:3 = stream.resource.pack slices({
      [0, 0] = %c4,
      [0, 0] = %c128
    }) : index
    %r, %t0 = stream.resource.alloca uninitialized : !stream.resource<external>{%0#0} => !stream.timepoint
    %1 = stream.resource.subview %r[%0#1] : !stream.resource<external>{%0#0} -> !stream.resource<external>{%c4}
    %2 = stream.resource.subview %r[%0#2] : !stream.resource<external>{%0#0} -> !stream.resource<external>{%c128}
    %3:4 = stream.resource.pack slices({
      [0, 2] = %c128,
      [0, 1] = %c64,
      [1, 2] = %c64
    }) : index
    %s, %t1 = stream.resource.alloca uninitialized : !stream.resource<transient>{%3#0} => !stream.timepoint
    %4 = stream.cmd.execute with(%1 as %arg1: !stream.resource<external>{%c4}, %2 as %arg2: !stream.resource<external>{%c128}, %s as %arg3: !stream.resource<transient>{%3#0}) {
      stream.cmd.dispatch @e::@a {
        wo %arg3[%3#1 for %c128] : !stream.resource<transient>{%3#0},
        wo %arg3[%3#2 for %c64] : !stream.resource<transient>{%3#0}
      }
      stream.cmd.dispatch @e::@b {
        ro %arg3[%3#2 for %c64] : !stream.resource<transient>{%3#0},
        wo %arg3[%3#3 for %c64] : !stream.resource<transient>{%3#0},
        wo %arg1[%c0 for %c4] : !stream.resource<external>{%c4}
      }
      stream.cmd.dispatch @e::@c {
        ro %arg3[%3#1 for %c128] : !stream.resource<transient>{%3#0},
        ro %arg3[%3#3 for %c64] : !stream.resource<transient>{%3#0},
        wo %arg2[%c0 for %c128] : !stream.resource<external>{%c128}
      }
    } => !stream.timepoint
    util.return
  }
}
"""  # noqa: E501
"""A region with three arrays and a large result. Only the second array is not read while the result is written."""


PLACE = re.compile(r"(?:ro|wo|rw) %\w+\[(%\w+)(#\d+)? for (%\w+)\] : !stream.resource<(\w+)>{(%\w+)")


def places(text: str) -> list[tuple[str, int | str, int]]:
    """The kind of memory, the offset, and the length of each array that dispatches use, in order of the uses."""
    known = values(text)
    return [
        (kind, known[name] if not number else number, known[length])
        for name, number, length, kind, _ in PLACE.findall(text)
    ]


TRANSIENT, EXTERNAL = "transient", "external"


def test_arrays_lie_in_results_that_are_written_later() -> None:
    text = after(host_arrays, REGION)
    assert text is not None
    assert places(text) == [
        (TRANSIENT, "#1", 128),
        (EXTERNAL, 0, 64),
        (EXTERNAL, 0, 64),
        (TRANSIENT, "#3", 64),
        (EXTERNAL, 0, 4),
        (TRANSIENT, "#1", 128),
        (TRANSIENT, "#3", 64),
        (EXTERNAL, 0, 128),
    ]
    known = values(text)
    sizes = [known.get(size) for *_, kind, size in PLACE.findall(text) if kind == EXTERNAL]
    assert sizes == [132, 132, 4, 128]
    assert [known[name] for name in re.findall(r"\[\d, \d\] = (%\w+)", text)] == [128, 0, 64]
    subviews = re.findall(r"subview %\w+\[(%\w+)\]", text)
    assert [known[name] for name in subviews] == [128, 0]
    assert re.search(r"execute with\(%result as %\w+: !stream.resource<external>", text)


USE = '"test.use"(%3#2) : (index) -> ()'
COPY = (
    "stream.cmd.copy %arg3[%3#2], %arg1[%c0], %c4 : "
    "!stream.resource<transient>{%3#0} -> !stream.resource<external>{%c4}"
)


@pytest.mark.parametrize("before", ["    util.return", "      stream.cmd.dispatch @e::@b"])
def test_arrays_with_other_uses_keep_their_memory(before: str) -> None:
    other = USE if "util" in before else COPY
    assert after(host_arrays, REGION.replace(before, f"    {other}\n{before}")) is None


RESULT = next(line for line in REGION.splitlines() if "%2 = " in line)


def test_results_that_are_used_before_host_nothing() -> None:
    use = '    "test.use"(%2) : (!stream.resource<external>) -> ()'
    assert after(host_arrays, REGION.replace("    %3:4 =", f"{use}\n    %3:4 =")) is None


@pytest.mark.parametrize("name", ["%2", "%5"])
def test_results_with_two_names_in_a_region_host_nothing(name: str) -> None:
    text = REGION.replace("    %3:4 =", f"{RESULT.replace('%2 =', '%5 =')}\n    %3:4 =")
    given = f"{name} as %arg4: !stream.resource<external>{{%c128}}"
    assert after(host_arrays, text) is None
    assert after(host_arrays, text.replace("with(", f"with({given}, ")) is None


def test_each_region_hosts_arrays_in_its_own_results() -> None:
    begin, end = REGION.index("    %0:3"), REGION.index("    util.return")
    other = re.sub(r"%(\d|[rs]|t\d)\b", r"%x\1", REGION[begin:end])
    text = after(host_arrays, REGION[:end] + other + REGION[end:])
    assert text is not None
    once = after(host_arrays, REGION)
    assert once is not None and places(text) == places(once) * 2
    hosts = re.findall(r"execute with\((%\w+) as", text)
    assert len(set(hosts)) == 2 and text.count("stream.resource.pack") == 2


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def test_regions_in_loops_of_the_host_host_nothing() -> None:
    """In a region in a loop of the host, no array uses the memory of a result, because the region may run again."""
    begin, execute, end = (REGION.index(s) for s in ("    %0:3", "    %4 = ", "    util.return"))
    loop = "    scf.for %i = %c0 to %c4 step %c64 {\n"
    for start in (begin, execute):
        inside = REGION[:start] + loop + indented(REGION[start:end]) + "    }\n" + REGION[end:]
        assert after(host_arrays, inside) is None
    # In a region outside the loop, arrays still use the memory of results.
    other = re.sub(r"%(\d|[rs]|t\d|arg\d)\b", r"%x\1", REGION[begin:end])
    text = after(host_arrays, REGION[:end] + loop + indented(other) + "    }\n" + REGION[end:])
    once = after(host_arrays, REGION)
    assert text is not None and once is not None
    assert places(text)[:8] == places(once) and (EXTERNAL, 0, 64) not in places(text)[8:]


def test_functions_of_several_blocks_host_nothing() -> None:
    text = REGION.replace("    %4 = ", "    cf.br ^bb1\n  ^bb1:\n    %4 = ")
    assert text != REGION and after(host_arrays, text) is None


def region(sizes: list[int], written: list[int], arrays: list[LiveArray]) -> tuple[str, list[int]]:
    """A region whose dispatches write a result of size `sizes[i]` at step `written[i]`, and use each array while live.

    Returns the text and a list with an entry for each use: the index of the used array in `arrays`, or -1 for a result.
    """
    order: list[int] = []
    begin, last = REGION.index("    %c0"), max(array.last for array in arrays) + 1
    numbers = {*sizes, *(array.bytes for array in arrays), 0}
    constants = "".join(f"    %c{n} = arith.constant {n} : index\n" for n in sorted(numbers))
    result, transient = "!stream.resource<external>", "!stream.resource<transient>{%2#0}"
    slices = [
        ",\n".join(f"      [{first}, {end}] = %c{n}" for first, end, n in each)
        for each in ([(0, 0, n) for n in sizes], [(array.first, array.last, array.bytes) for array in arrays])
    ]
    text = f"""    %1:{len(sizes) + 1} = stream.resource.pack slices({{\n{slices[0]}\n    }}) : index
    %r, %t0 = stream.resource.alloca uninitialized : {result}{{%1#0}} => !stream.timepoint\n"""
    for i, n in enumerate(sizes, 1):
        text += f"    %v{i} = stream.resource.subview %r[%1#{i}] : {result}{{%1#0}} -> {result}{{%c{n}}}\n"
    operands = [f"%v{i} as %a{i}: {result}{{%c{n}}}" for i, n in enumerate(sizes, 1)]
    text += f"""    %2:{len(arrays) + 1} = stream.resource.pack slices({{\n{slices[1]}\n    }}) : index
    %s, %t1 = stream.resource.alloca uninitialized : {transient} => !stream.timepoint
    %3 = stream.cmd.execute with({", ".join([*operands, f"%s as %b: {transient}"])}) {{\n"""
    for step in range(last + 1):
        lines = []
        for i, array in enumerate(arrays, 1):
            if step in (array.first, array.last):
                lines.append(f"        rw %b[%2#{i} for %c{array.bytes}] : {transient}")
                order.append(i - 1)
        for i, n in enumerate(sizes, 1):
            if step == written[i - 1]:
                lines.append(f"        wo %a{i}[%c0 for %c{n}] : {result}{{%c{n}}}")
                order.append(-1)
        op = "dispatch @e::@d" if lines else "serial"  # a dispatch must use an array
        text += f"      stream.cmd.{op} {{\n" + ",\n".join(lines) + "\n      }\n"
    end = REGION[REGION.index("    util.return") :]
    return f"{REGION[:begin]}{constants}{text}    }} => !stream.timepoint\n{end}", order


def test_hosted_arrays_lie_in_the_allocation_of_results_and_overlap_nothing() -> None:
    """In random regions, arrays that use memory of results lie inside this memory and overlap no live array."""
    rng, moved = np.random.default_rng(0), 0
    for _ in range(60):
        begins = rng.integers(0, 12, 8)
        arrays = [LiveArray(int(t), int(t + rng.integers(0, 5)), int(rng.integers(1, 900))) for t in begins]
        count = int(rng.integers(1, 5))
        sizes, written = rng.integers(1, 1500, count).tolist(), rng.integers(0, 17, count).tolist()
        last = max(array.last for array in arrays) + 1
        written = [min(step, last) for step in written]
        given, order = region(sizes, written, arrays)
        text = after(host_arrays, given)
        if text is None:
            continue
        known = values(text)
        (total,) = re.findall(r"alloca uninitialized : !stream.resource<external>{(%\w+)}", text)
        starts = [known[name] for name in re.findall(r"subview %\w+\[(%\w+)\]", text)]
        lives = [(start, n, step, last + 1) for start, n, step in zip(starts, sizes, written, strict=True)]
        hosted = {
            i: int(at)
            for i, (kind, at, _) in zip(order, places(text), strict=True)
            if i >= 0 and kind == EXTERNAL
        }
        lives += [(at, arrays[i].bytes, arrays[i].first, arrays[i].last) for i, at in hosted.items()]
        moved += len(hosted)
        for start, size, *_ in lives:
            assert start % 64 == 0 and start + size <= known[total]
        for (u, m, first, end), (v, n, other, until) in itertools.combinations(lives, 2):
            assert u + m <= v or v + n <= u or end < other or until < first
    assert moved > 60
