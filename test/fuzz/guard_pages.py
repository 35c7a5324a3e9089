"""Calls compiled programs of dynamic shape with arrays of random sizes that end at inaccessible memory.

    python test/fuzz/guard_pages.py [--filter REGEX] [--calls N] [--seed N] [--orders N]

The programs are those of the tests (`dynamic_programs.py`, `iree_dynamic_cases.py` and `guarded_programs.py`) and their
derivatives. The modules have no signatures, so that only assertions in the compiled code check the sizes. Each argument
ends less than 64 bytes before an inaccessible page of memory, so that most accesses beyond its end end the process. A
worker process makes the calls. The output has a line for each program, followed by the counts of calls:

    ok        the call returned results
    refused   the call raised a `TiducError`, such as an `InputError`
    crash     the process died
    hang      the call did not end within the time limit

The exit status is 1 if there is a crash or a hang.
"""

import argparse
import ctypes
import functools
import mmap
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

for folder in ("py", "sweep"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import iree.runtime as rt  # noqa: E402
import numpy as np  # noqa: E402
from cases import dynamic_programs, guarded_programs, iree_dynamic_cases  # noqa: E402
from counts import summary  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from worker import Worker, answer_requests  # noqa: E402

import tiduc  # noqa: E402
from tiduc.backends.iree import legalize_for_iree  # noqa: E402
from tiduc.backends.iree.compile import compile_module  # noqa: E402
from tiduc.dialect.errors import TiducError  # noqa: E402
from tiduc.dialect.mlir.context import parse, stage  # noqa: E402
from tiduc.runtime.devices import Device  # noqa: E402
from tiduc.runtime.run import Executable  # noqa: E402
from tiduc.runtime.signature import KnownSize, Signature  # noqa: E402

Array = NDArray[Any]

SIZES = (0, 1, 2, 3, 4, 5, 6, 8, 16, 37, 64, 300, 5000)
NUMBERS = (-(2**31), -7, -1, 0, 1, 2, 3, 4, 6, 12, 24, 37, 70000, 2**31 - 1)
"""Integers that tests use as sizes or indices."""

_AT_ONCE = 25  # the number of programs in a module
_ALIGNED = 64  # the alignment, in bytes, of buffers that IREE imports without a copy
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded(array: Array) -> Array:
    """Returns a copy of an array that ends at an inaccessible page as closely as the alignment of its start permits."""
    pages = max(-(-array.nbytes // mmap.PAGESIZE), 1)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    end = pages * mmap.PAGESIZE
    start = end - -(-array.nbytes // _ALIGNED) * _ALIGNED
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _LIBC.mprotect(address + end, mmap.PAGESIZE, 0):  # PROT_NONE
        raise OSError(ctypes.get_errno(), "mprotect")
    copy = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    return copy


def upload(device: Device, array: Array, element: int) -> Any:
    """Returns an IREE buffer on a guarded copy of the array.

    The worker calls this function instead of `Device.upload`.
    """
    if not array.size:
        return _COPIED(device, array, element)
    memory = guarded(array).reshape(-1).view(np.uint8)
    of_device, usage = int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT)
    buffer = device.hal.allocator.import_host_allocation(memory, of_device, usage)
    _IN_USE.append((memory, buffer))  # a buffer view has no references to them, so they would be freed
    return rt.HalBufferView(buffer, array.shape, element)


_COPIED = Device.upload
_IN_USE: list[Any] = []


# ---- programs --------------------------------------------------------------------------------------------------


class Fuzzed(NamedTuple):
    """A program, arguments that are valid for its first inputs, and sizes that are known.

    The entry function of `text` is @main.
    """

    name: str
    text: str
    arguments: Sequence[Array]
    sizes: Sequence[KnownSize] = ()


@functools.cache
def programs(orders: int) -> tuple[Fuzzed, ...]:
    """Returns the programs of the tests and their derivatives up to an order."""
    return tuple(_programs(orders))


def _programs(orders: int) -> Iterator[Fuzzed]:
    yield from (
        Fuzzed(f"iree {n}", case.text(), case.arguments) for n, case in iree_dynamic_cases.CASES.items()
    )
    for cases in (dynamic_programs.CASES, guarded_programs.CASES):
        for name, (text, points) in cases.items():
            program, arguments = tiduc.load(text), [np.asarray(x) for x in points[0]]
            yield Fuzzed(f"{name} 0", program.text, arguments)
            for order in range(1, orders + 1) if cases is dynamic_programs.CASES else ():
                program = program.vjp() if order % 2 else program.jvp()
                yield Fuzzed(f"{name} {order}", program.text, arguments, program.signature.sizes)


@stage
def compiled(fuzzed: Sequence[Fuzzed]) -> bytes:
    """Compiles the programs as functions of one module, which is faster than one module for each program."""
    texts = []
    for i, each in enumerate(fuzzed):
        functions = str(parse(each.text)).partition("{")[2].rpartition("}")[0]
        names = re.findall(r"func\.func (?:private )?@(\w+)", functions)
        for name in names:
            functions = re.sub(rf"@{name}\b", f"@main{i}" if name == "main" else f"@{name}.{i}", functions)
        texts.append(functions)
    module = parse("\n".join(texts))
    legalize_for_iree(module)
    return compile_module(stage(str)(module), cached=False)


def arguments(signature: Signature, fuzzed: Fuzzed, rng: np.random.Generator) -> list[Array]:
    """Returns random arguments for a program.

    Two dimensions that have equal sizes in the valid arguments mostly have equal sizes here. Integers are often valid
    sizes.
    """
    known = fuzzed.arguments
    common = {n: int(rng.choice(SIZES)) for x in known for n in x.shape} if rng.random() < 0.5 else {}
    odd = rng.choice([0.0, 0.1, 0.5])
    shapes = []
    for i, value in enumerate(signature.inputs):
        like = known[i].shape if i < len(known) else (None,) * len(value.type.shape)
        pairs = zip(value.type.shape, like, strict=True)
        shapes.append([n if n is not None else _size(m, common, odd, rng) for n, m in pairs])
    for size in fuzzed.sizes:
        if rng.random() >= odd:
            shapes[size.input][size.dimension] = max(size.value(shapes), 0)
    likes = [*known, *[None] * (len(shapes) - len(known))]
    return [
        _filled(sizes, value.type.dtype, like, odd, rng)
        for sizes, value, like in zip(shapes, signature.inputs, likes, strict=True)
    ]


def _size(like: int | None, common: dict[int, int], odd: float, rng: np.random.Generator) -> int:
    if like is None or rng.random() < odd:
        return int(rng.choice(SIZES))
    return common.get(like, like)


def _filled(
    sizes: Sequence[int], dtype: Any, like: Array | None, odd: float, rng: np.random.Generator
) -> Array:
    if dtype.kind in "iu":
        if like is not None and like.shape == tuple(sizes) and rng.random() >= odd:
            return like.astype(dtype)
        return np.clip(rng.choice(NUMBERS, sizes), np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    return rng.standard_normal(sizes).astype(dtype)


def called(request: Any) -> Any:
    """Calls the programs that a request names, and returns the outcomes. The worker answers requests by it."""
    chosen, orders, calls, seed, journal = request
    fuzzed = [each for each in programs(orders) if each.name in chosen]
    try:
        vmfb = compiled(fuzzed)
    except TiducError as error:
        return {"": [{"not compiled": 1}, [str(error), *chosen]]}
    return {each.name: _called(vmfb, i, each, calls, seed, journal) for i, each in enumerate(fuzzed)}


def _called(vmfb: bytes, i: int, fuzzed: Fuzzed, calls: int, seed: int, journal: str) -> Any:
    run, outcomes, messages = Executable(vmfb, entry=f"main{i}"), Counter[str](), dict[str, str]()
    rng = np.random.default_rng(seed)
    for _ in range(calls):
        xs = arguments(run.signature, fuzzed, rng)
        shown = [(x.shape, x.tolist() if x.dtype.kind in "iu" and x.size < 9 else "") for x in xs]
        Path(journal).write_text(f"{fuzzed.name}\n{shown}", encoding="utf-8")
        _IN_USE.clear()
        try:
            run(*xs)
            outcomes["ok"] += 1
        except TiducError as error:
            outcomes["refused"] += 1
            messages.setdefault(re.sub(r"\d+", "0", str(error)), f"{shown} {error}")
    return dict(outcomes), list(messages.values())


def fuzz(
    names: Sequence[str], orders: int, calls: int, seed: int, journal: Path
) -> Iterator[tuple[str, Any]]:
    """Calls programs in a worker. Yields the name of each program, and the outcomes and messages of its calls.

    All programs are in one module. After a crash, the other programs are called again. If the module does not compile,
    each program is compiled separately.
    """
    worker, left = Worker([sys.executable, __file__, "--worker"]), list(names)
    while left:
        answer = worker.asked([left, orders, calls, seed, str(journal)], 600 + calls * len(left))
        if isinstance(answer, str):
            name, _, arguments_ = journal.read_text(encoding="utf-8").partition("\n")
            yield name, ({answer: 1}, [arguments_])
            left.remove(name)
        elif len(left) > 1 and "" in answer:  # one of the programs does not compile
            worker.close()
            for one in left:
                yield from fuzz([one], orders, calls, seed, journal)
            return
        else:
            yield from answer.items()
            left = []
    worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--filter", default="")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orders", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print messages of refusals")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        Device.upload = upload  # type: ignore[method-assign]
        answer_requests(called)
        return
    names = [each.name for each in programs(options.orders) if re.search(options.filter, each.name)]
    total, journal = Counter[str](), Path(os.environ.get("TMPDIR", "/tmp"), f"guard_pages.{os.getpid()}")
    for i in range(0, len(names), _AT_ONCE):
        batch = names[i : i + _AT_ONCE]
        for name, (outcomes, messages) in fuzz(batch, options.orders, options.calls, options.seed, journal):
            total.update(outcomes)
            shown = messages if options.verbose or set(outcomes) - {"ok", "refused"} else []
            print(name, outcomes, *shown, sep="\n    " if shown else " ", flush=True)
    journal.unlink(missing_ok=True)
    print(summary(total))
    sys.exit(bool(total["crash"] + total["hang"]))


if __name__ == "__main__":
    main()
