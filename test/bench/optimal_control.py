"""Compares static libraries of tiduc with C code of CasADi: python test/bench/optimal_control.py [--help]

Each problem of control (optimal_control_problems.py) is a function in f64, written once for JAX and for CasADi. tiduc
imports the function from JAX, differentiates it and writes a static library. CasADi differentiates its own graph of the
function and writes C code. The C compiler makes object files of both: with `-O2` for tiduc's C code, and with `--flags`
for CasADi's. A C program calls both alternately. Both replace products by constant zeros by zero: CasADi always does,
and tiduc does with `--assume-finite`. The columns:

    call      the processor time of a call of tiduc's library, the least of many rounds
    size      the size of code and constants in tiduc's object files
    make      the processor time to make the object files, from the start of Python, including its imports
    ratio     tiduc's figure divided by CasADi's; the last row has the geometric means of the ratios

First, the script checks that the results of both agree within 1e-12 of the largest element of a result. With --write,
the table is written to docs/benchmarks.md. The script needs JAX, CasADi (`pip install '.[casadi]'`) and a C compiler.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from on_device import PAGE, table
from optimal_control_problems import Casadi, Jax, Matrices, Problem, elements, matrix, problems

TOLERANCE = 1e-12
SIDES = "tiduc", "casadi"


# ---- the two sides -------------------------------------------------------------------------------------------------


def program_of(problem: Problem) -> Any:
    """tiduc's program for a problem."""
    import jax

    import tiduc

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    m = Jax()
    example = [x[0] if problem.batch else x for x in problem.arguments]
    program = tiduc.from_jax(lambda *xs: problem.function(m, *xs), *example)
    names = [program.inputs[i].name for i in problem.wrt]
    if problem.derivative == "jacobian":
        program = program.jacobian(names, value=True)
    elif problem.derivative == "gradient":
        program = program.grad(names, value=True)
    return program.batch(0, problem.batch) if problem.batch else program


def by_tiduc(problem: Problem, folder: Path) -> None:
    """Makes tiduc's object files `net.o` and `host.o`, and writes the shapes of the results to `net.json`."""
    from tiduc.backends.backend import Options
    from tiduc.backends.iree.static.library import compile_library

    program = program_of(problem)
    library = compile_library(program.lower(), "net", Options("cpu", finite=True))
    (folder / "net.o").write_bytes(library.kernels)
    (folder / "net.c").write_text(library.host)
    (folder / "net.h").write_text(library.header)
    subprocess.run(["cc", "-O2", "-c", "net.c", "-o", "host.o"], cwd=folder, check=True)
    (folder / "net.json").write_text(json.dumps([list(x.type.shape) for x in program.signature.outputs]))


def casadi_function(problem: Problem) -> Any:
    """CasADi's function for a problem."""
    import casadi as ca

    if problem.matrices:
        symbols = [ca.MX.sym(f"x{i}", *np.shape(x)) for i, x in enumerate(problem.arguments)]
        results = problem.function(Matrices(), *symbols)
        results = [results]
    else:
        shapes = [x.shape[1:] if problem.batch else x.shape for x in problem.arguments]
        symbols = [ca.SX.sym(f"x{i}", *(shape or (1,))) for i, shape in enumerate(shapes)]
        given = [elements(x, shape) for x, shape in zip(symbols, shapes, strict=True)]
        results = problem.function(Casadi(), *given)
        results = [matrix(y) for y in (results if isinstance(results, tuple) else (results,))]
    wrt = [symbols[i] for i in problem.wrt]
    if problem.derivative == "jacobian":
        results += [ca.jacobian(results[0], x) for x in wrt]
    elif problem.derivative == "gradient":
        results += [ca.gradient(results[0], x) for x in wrt]
    function = ca.Function("cas", symbols, results)
    return function.map(problem.batch) if problem.batch else function


def by_casadi(problem: Problem, folder: Path, flags: Sequence[str]) -> None:
    """Makes CasADi's object file `cas.o`, and writes work sizes and sparsity patterns of results to `cas.json`."""
    import casadi as ca

    function = casadi_function(problem)
    generator = ca.CodeGenerator("cas.c", {"main": False, "casadi_int": "long long int"})
    generator.add(function)
    generator.generate(f"{folder}/")
    subprocess.run(["cc", *flags, "-c", "cas.c", "-o", "cas.o"], cwd=folder, check=True)
    patterns = [function.sparsity_out(i) for i in range(function.n_out())]
    described = [[*p.shape, list(p.row()), list(p.colind())] for p in patterns]
    (folder / "cas.json").write_text(json.dumps([function.name(), function.sz_arg(), function.sz_res(),
        function.sz_iw(), function.sz_w(), described]))  # fmt: skip


def in_columns(problem: Problem, x: Any) -> Any:
    """Returns the elements of an argument in CasADi's order, which is column-major. Batches are concatenated."""
    return x.ravel() if problem.batch else np.asarray(x).ravel(order="F")


def dense(problem: Problem, described: Any, values: Any, shape: Sequence[int]) -> Any:
    """Returns the array of tiduc's shape for CasADi's nonzeros `values`. `described` is the sparsity pattern."""
    rows, columns, row, starts = described
    found = np.zeros((rows, columns))
    found[row, np.repeat(np.arange(columns), np.diff(starts))] = values
    if problem.batch:
        found = found.reshape(rows, problem.batch, -1).transpose(1, 0, 2)
        return found.reshape(shape)
    parts = [*shape]
    return found.reshape(parts, order="F") if problem.matrices and len(parts) < 3 else found.reshape(parts)


# ---- measuring -----------------------------------------------------------------------------------------------------

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "net.h"
#define N(x) (sizeof(x) / sizeof *(x))
int CAS(const double **, double **, long long int *, double *, int);
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}
DECLARED
static const double *arg[ARGS];
static double *res[RESULTS], w[WORK];
static long long int iw[WORDS];
static int tiduc(void) { return CALL; }
static int casadi(void) {
  SET
  return CAS(arg, res, iw, w, 0);
}
int main(int count, char **given) {
  FILE *in = fopen("in", "rb"), *out = fopen("out", "wb");
  READ
  if (tiduc() || casadi()) return 1;
  WRITE
  double least[2] = {1e30, 1e30}, seconds = count > 1 ? atof(given[1]) : 0, start = now();
  int (*sides[2])(void) = {tiduc, casadi}, many[2];
  for (int s = 0; s < 2; s++) {
    double t = now();
    for (many[s] = 0; now() - t < 1000; many[s]++) sides[s]();
  }
  while (now() - start < 1e6 * seconds)
    for (int s = 0; s < 2; s++) {
      double t = now();
      for (int i = 0; i < many[s]; i++) sides[s]();
      t = (now() - t) / many[s];
      if (t < least[s]) least[s] = t;
    }
  printf("%g %g\n", least[0], least[1]);
  return 0;
}
"""


def program_in_c(problem: Problem, shapes: Sequence[Sequence[int]], cas: Any) -> str:
    """Returns the C program that calls tiduc's library and CasADi's code alternately."""
    name, args, results, words, work, described = cas
    declared, reads, writes = [], [], []
    for i, x in enumerate(problem.arguments):
        declared.append(f"static _Alignas(64) double x{i}[{x.size}], cx{i}[{x.size}];")
        reads.append(
            f"if (fread(x{i}, 8, N(x{i}), in) + fread(cx{i}, 8, N(cx{i}), in) != {2 * x.size}) return 2;"
        )
    for i, (shape, pattern) in enumerate(zip(shapes, described, strict=True)):
        sizes = math.prod(shape), len(pattern[2])
        declared.append(f"static _Alignas(64) double y{i}[{sizes[0]}], cy{i}[{max(1, sizes[1])}];")
        writes.append(f"fwrite(y{i}, 8, {sizes[0]}, out), fwrite(cy{i}, 8, {sizes[1]}, out);")
    inputs, outputs = range(len(problem.arguments)), range(len(shapes))
    call = ", ".join([*(f"x{i}" for i in inputs), *(f"y{i}" for i in outputs)])
    settings = [*(f"arg[{i}] = cx{i};" for i in inputs), *(f"res[{i}] = cy{i};" for i in outputs)]
    parts = {
        "DECLARED": "\n".join(declared), "ARGS": args + 1, "RESULTS": results + 1, "WORK": work + 1,
        "WORDS": words + 1, "CALL": f"net({call})", "SET": "\n  ".join(settings), "READ": "\n  ".join(reads),
        "WRITE": "\n  ".join(writes) + "\n  fclose(out);", "CAS": name,
    }  # fmt: skip
    text = MAIN
    for key, value in parts.items():
        text = text.replace(key, str(value))
    return text


def made(name: str, side: str, folder: Path, flags: str) -> float:
    """Makes the object files of tiduc or CasADi in a new process.

    Returns the processor time of this process and its child processes.
    """
    started = subprocess.Popen(
        [sys.executable, __file__, "--make", side, str(folder), f"--flags={flags}", name]
    )
    _, status, usage = os.wait4(started.pid, 0)
    assert status == 0, (name, side, status)
    return usage.ru_utime + usage.ru_stime


def size(*files: Path) -> int:
    """Returns the size of code and constants in object files, in bytes."""
    told = subprocess.run(["size", *files], check=True, stdout=subprocess.PIPE, text=True).stdout
    return sum(int(x) + int(y) for x, y, *_ in map(str.split, told.splitlines()[1:]))


def measured(name: str, seconds: float, flags: str) -> tuple[list[float], list[float]]:
    """Returns the figures of tiduc, and their ratios to CasADi's figures.

    The figures are the microseconds of a call, the KiB of the object files, and the seconds to make them.
    """
    problem = problems()[name]
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        make = [made(name, side, folder, flags) for side in SIDES]
        shapes = json.loads((folder / "net.json").read_text())
        cas = json.loads((folder / "cas.json").read_text())
        (folder / "main.c").write_text(program_in_c(problem, shapes, cas))
        files = "main.c", "net.o", "host.o", "cas.o", "-lm", "-o", "main"
        subprocess.run(["cc", "-O2", *files], cwd=folder, check=True)
        pairs = ((np.asarray(x).ravel(), in_columns(problem, x)) for x in problem.arguments)
        (folder / "in").write_bytes(b"".join(each.tobytes() for pair in pairs for each in pair))
        times = subprocess.run(
            ["./main", str(seconds)], cwd=folder, check=True, stdout=subprocess.PIPE
        ).stdout
        check(problem, name, shapes, cas[-1], np.fromfile(folder / "out"))
        sizes = size(folder / "net.o", folder / "host.o") / 1024, size(folder / "cas.o") / 1024
    both = list(zip(map(float, times.split()), sizes, make, strict=True))
    return list(both[0]), [x / y for x, y in zip(*both, strict=True)]


def check(problem: Problem, name: str, shapes: Any, patterns: Any, values: Any) -> None:
    """Asserts that the results of tiduc and CasADi agree."""
    for i, (shape, pattern) in enumerate(zip(shapes, patterns, strict=True)):
        count, nonzeros = math.prod(shape), len(pattern[2])
        ours, theirs, values = np.split(values, [count, count + nonzeros])
        wanted = dense(problem, pattern, theirs, shape)
        error = np.max(np.abs(ours.reshape(shape) - wanted)) / np.max(np.abs(wanted))
        assert error <= TOLERANCE, f"{name}: result {i} differs by {error:.1e} of its largest value"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="PROBLEM", help="by default all")
    parser.add_argument("--seconds", type=float, default=2.0, help="of calls for each problem")
    parser.add_argument("--flags", default="-O2", help="of the C compiler for CasADi's code")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.make:
        side, folder = chosen.make
        problem = problems()[chosen.names[0]]
        by_tiduc(problem, Path(folder)) if side == "tiduc" else by_casadi(
            problem, Path(folder), chosen.flags.split()
        )
        return
    rows, ratios = [], []
    for name in chosen.names or problems():
        own, ratio = measured(name, chosen.seconds, chosen.flags)
        ratios.append(ratio)
        cells = [f"{x:.{digits}f}" for x, digits in zip(own, (2, 0, 1), strict=True)]
        rows.append([name, *(cell for x, y in zip(cells, ratio, strict=True) for cell in (x, f"{y:.2f}"))])
        print(*rows[-1], flush=True)
    means = np.exp(np.mean(np.log(ratios), axis=0))
    rows.append(["geometric mean", *(cell for x in means for cell in ("", f"{x:.2f}"))])
    head = "problem", "call, µs", "ratio", "size, KiB", "ratio", "make, s", "ratio"
    report = "\n".join(table([*head], rows))
    print(report)
    if chosen.write:
        begin, end = "<!-- optimal_control.py -->", "<!-- end of optimal_control.py -->"
        before, _, rest = PAGE.read_text().partition(begin)
        PAGE.write_text(f"{before}{begin}\n\n{report}\n\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
