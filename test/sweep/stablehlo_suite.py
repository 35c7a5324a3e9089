"""Compiles and runs StableHLO's own test programs with IREE, and compares with the values that they hold.

    python test/sweep/stablehlo_suite.py DIRECTORY [--filter REGEX] [--sample N] [--plain] [--workers N] [--list]

DIRECTORY holds `.mlir` files that say what they expect with `check.expect_*`, as `stablehlo/testdata` and
`stablehlo/tests/interpret` of openxla/stablehlo do. Constants are hidden from the compiler, so that it folds nothing;
`--plain` leaves `tidu-legalize-for-iree` out; `--sample N` takes N programs a family, which is the word that a file's
name begins with. A worker that dies or takes too long is replaced. The categories:

    ok        the expected values, floats within a few units in the last place of the largest
    refused   a `TiducError` before the compiler, with a location
    rejected  the compiler refuses the program
    flushed   a value differs, and the program holds denormals, which IREE takes for 0
    wrong     a value differs
    crash     the compiler or the run dies, or any other exception
    hang      nothing after SECONDS
    n/a       the file expects nothing, runs several processes, or holds types that IREE's runtime has not
"""

import argparse
import json
import re
import select
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.context import parse, run_passes, stage
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.passes.iree import legalize_for_iree
from tiduc.runtime.compile import compile_module
from tiduc.runtime.run import Executable

CATEGORIES = ("ok", "refused", "rejected", "flushed", "wrong", "crash", "hang", "n/a")
SECONDS = 90  # a file
UNITS = 64  # in the last place of a value: IREE's asin and atan are off by 40

SLICES = ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice")

_CONST = re.compile(
    r"check\.(expect_\w+)_const\s+(%[\w#]+),\s*(dense<.*?>)\s*((?:,\s*\w+ = [^:]*?)?):\s*(tensor<[^\n]*>)",
    re.S,
)
_PAIR = re.compile(r"check\.(expect_\w+)\s+(%[\w#]+),\s*(%[\w#]+)[^:\n]*:\s*(tensor<[^\n]*>)")
_NOT_HERE = re.compile(
    r"interpreter\.|expect_serialized|replica_groups|source_target_pairs|collective|f8E|f4E|f6E"
)


def programs(text: str) -> Iterator[str]:
    """The programs of a file, their checks spelled as custom calls, which MLIR knows."""
    for part in re.split(r"^// -----.*$", text, flags=re.M):
        if "check." not in part or _NOT_HERE.search(part):
            continue
        count = iter(range(1_000_000))

        def constant(found: re.Match[str]) -> str:
            name, x, value, _, type_ = found.groups()
            y = f"%expected_{next(count)}"  # noqa: B023  (called before the next part)
            return (
                f"{y} = stablehlo.constant {value} : {type_}\n"
                f'"stablehlo.custom_call"({x}, {y}) {{call_target_name = "check.{name}", has_side_effect = true}}'
                f" : ({type_}, {type_}) -> ()"
            )

        part = _CONST.sub(constant, part)
        yield _PAIR.sub(
            r'"stablehlo.custom_call"(\2, \3) {call_target_name = "check.\1", has_side_effect = true}'
            r" : (\4, \4) -> ()",
            part,
        )


@stage
def pairs_returned(text: str) -> list[Any]:
    """Modules of a function `main` each, that returns what is checked and what is expected, in turn."""
    source = parse(text)
    run_passes(source.operation, "builtin.module(inline,symbol-dce)")
    names = [op.operation.attributes["sym_name"].value for op in source.body.operations]
    modules = []
    for name in names:
        module = ir.Module.parse(str(source))
        for op in list(module.body.operations):
            if op.operation.attributes["sym_name"].value != name:
                op.operation.erase()
        if _rewrite(module.body.operations[0].operation):
            modules.append(module)
    return modules


def _rewrite(function: Any) -> bool:
    """Lets the function return the pairs, and hides its constants; whether it checks anything."""
    pairs: list[Any] = []
    kinds, type_ = [], ir.TypeAttr(function.attributes["function_type"]).value
    if len(type_.inputs) or not len(function.regions[0].blocks):
        return False
    block = function.regions[0].blocks[0]
    for op in list(block.operations):
        op = op.operation
        if op.name == "stablehlo.custom_call" and str(op.attributes["call_target_name"])[1:].startswith(
            "check."
        ):
            pairs += list(op.operands)
            kinds.append(str(op.attributes["call_target_name"])[1:-1])
            op.erase()
        elif op.name == "stablehlo.constant" and not _is_size(op):
            ip = ir.InsertionPoint(list(block.operations)[0])
            hidden = ir.Operation.create(
                "stablehlo.optimization_barrier", [op.results[0].type], [op.results[0]], ip=ip
            )
            op.results[0].replace_all_uses_except(hidden.result, hidden)
            hidden.move_after(op)
    if not pairs:
        return False
    old = list(block.operations)[-1].operation
    ir.Operation.create("func.return", operands=pairs, ip=ir.InsertionPoint(old))
    old.erase()
    types = ir.FunctionType.get([], [x.type for x in pairs])
    function.attributes["function_type"] = ir.TypeAttr.get(types)
    function.attributes["sym_name"] = ir.StringAttr.get("main")
    function.attributes["checks"] = ir.ArrayAttr.get([ir.StringAttr.get(kind) for kind in kinds])
    for gone in ("res_attrs", "arg_attrs", "sym_visibility"):
        if gone in function.attributes:
            del function.attributes[gone]
    return True


def _is_size(op: Any) -> bool:
    """A constant says how large something is: hidden, it would be another program."""
    users = [(use.owner.operation.name, use.operand_number) for use in op.results[0].uses]
    return all(i and "dynamic" in name and name not in SLICES for name, i in users)


def agree(x: Any, y: Any, kind: str) -> bool:
    """Equal, or floats within UNITS of the last place, and of a few of the largest value's, or almost equal."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "c":
        return agree(x.real, y.real, kind) and agree(x.imag, y.imag, kind)
    if x.dtype.kind in "iub":
        return bool(np.array_equal(x, y))
    units = float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 2.0**-7
    x, y = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    x, y = x[finite], y[finite]
    if "almost" in kind:  # the interpreter's tolerance
        return bool(np.all(np.abs(x - y) <= 1e-4 * np.maximum(1, np.abs(y))))
    largest = np.max(np.abs(y), initial=0)
    return bool(np.all(np.abs(x - y) <= units * (UNITS * np.abs(y) + 8 * largest) + 1e-30))


def outcome(file: str, plain: bool) -> list[tuple[str, str]]:
    """Category and detail of each program of a file."""
    try:
        modules = [m for text in programs(Path(file).read_text()) for m in pairs_returned(text)]
    except TiducError as error:
        return [("n/a", str(error)[:200])]
    return [_outcome(module, plain) for module in modules] or [("n/a", "nothing expected")]


def _outcome(module: Any, plain: bool) -> tuple[str, str]:
    kinds = stage(_kinds)(module)
    try:
        if not plain:
            legalize_for_iree(module)
        vmfb = compile_module(stage(str)(module))
    except CompileError as error:
        return ("crash" if "crashed" in str(error) else "rejected"), str(error)[:300]
    except TiducError as error:
        return "refused", str(error)[:300]
    try:
        results = Executable(vmfb)()
    except (KeyError, ValueError) as error:
        return "n/a", repr(error)[:200]
    except TiducError as error:
        return "n/a" if "dtype mapping" in str(error) else "crash", str(error)[:300]
    for x, y, kind in zip(results[::2], results[1::2], kinds, strict=True):
        if not agree(x, y, kind):
            tiny = any(map(_has_denormals, (*results[1::2], *stage(_constants)(module))))
            return "flushed" if tiny else "wrong", f"{x!r} for {y!r}"[:400].replace("\n", " ")
    return "ok", ""


def _constants(module: Any) -> list[Any]:
    """The real constants of a function, as arrays."""
    block = module.body.operations[0].operation.regions[0].blocks[0]
    values = [op.operation.attributes["value"] for op in block if op.operation.name == "stablehlo.constant"]
    if any("0x" in str(v) for v in values if "bf16" in str(v.type)):
        return [np.float32(1e-40)]  # bf16 in hexadecimal, which only denormals and such need
    return [
        np.array(v) for v in values if isinstance(v, ir.DenseFPElementsAttr) and "bf16" not in str(v.type)
    ]


def _has_denormals(x: Any) -> bool:
    x = np.asarray(x)
    if x.dtype.kind in "iubc":
        return False
    tiny = 1e-4 if x.dtype == np.float16 else 2.0**-1022 if x.dtype == np.float64 else 2.0**-126
    size = np.abs(x.astype(np.float64))
    return bool(np.any((size < tiny) & (size != 0)))


def _kinds(module: Any) -> list[str]:
    """The checks of a module's pairs, in order."""
    attributes = module.body.operations[0].operation.attributes
    kinds = [kind.value for kind in attributes["checks"]]
    del attributes["checks"]
    return kinds


def work(plain: bool) -> None:
    """A worker: files come in, outcomes go out, a line each."""
    for line in sys.stdin:
        try:
            found = outcome(line.strip(), plain)
        except Exception as error:
            found = [("crash", repr(error)[:300])]
        print("OUTCOME", json.dumps(found), flush=True)


def _tried(files: "Queue[str]", plain: bool, report: Any) -> None:
    """Gives files to workers, one after the other."""
    worker: Any = None
    while not files.empty():
        file = files.get()
        if worker is None:
            command = [sys.executable, __file__, "--work", ".", *(["--plain"] if plain else [])]
            worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        worker.stdin.write(file + "\n")
        worker.stdin.flush()
        line, ready = "", select.select([worker.stdout], [], [], SECONDS)[0]
        while ready and not line.startswith("OUTCOME"):
            line = worker.stdout.readline()
            if not line:
                break
        if line:
            report(file, json.loads(line.partition(" ")[2]))
        else:
            worker.kill()
            worker.wait()
            worker = None
            report(file, [("crash" if ready else "hang", "")])
    if worker is not None:
        worker.stdin.close()
        worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print every outcome that is not ok")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.plain)
        return
    families = defaultdict(list)
    for path in sorted(options.directory.rglob("*.mlir")):
        if re.search(options.filter, path.stem):
            families[path.stem.partition("_")[0]].append(str(path))
    files: Queue[str] = Queue()
    for family in families.values():
        n = len(family) if options.sample is None else min(options.sample, len(family))
        for i in range(n):
            files.put(family[i * len(family) // n])
    counts: Counter[str] = Counter()

    def report(file: str, found: list[tuple[str, str]]) -> None:
        for category, detail in found:
            counts[category] += 1
            if options.list and category not in ("ok", "n/a"):
                print(f"{category:9} {Path(file).stem}: {detail}", flush=True)

    with ThreadPoolExecutor(options.workers) as pool:
        for done in [pool.submit(_tried, files, options.plain, report) for _ in range(options.workers)]:
            done.result()
    print("  ".join(f"{category} {counts[category]}" for category in CATEGORIES))


if __name__ == "__main__":
    main()
