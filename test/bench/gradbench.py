"""Runs tiduc as a tool of GradBench (https://gradben.ch), and prints a table of times for GradBench's problems.

    python test/bench/gradbench.py                    answers messages of GradBench on standard input, one in a line
    python test/bench/gradbench.py --tool jax         answers them with jax.grad and XLA instead of tiduc
    python test/bench/gradbench.py --table            prints a table for small inputs, with tiduc and JAX
    python test/bench/gradbench.py --table --beside 'pytorch=python .../tools/pytorch/run.py'

With --table, this script sends messages to tiduc, JAX and the tools of GradBench in --beside. It exits if the answers
of two tools differ. The table has the least time of a call in microseconds. This time includes conversions from and to
NumPy arrays, but not compilation.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from gradbench_problems import BLOCKS, GRADIENT, NEWTON, PROBLEMS, VALUE, Array, Json, Problem

import tiduc

jax.config.update("jax_enable_x64", True)
Call = Callable[[], Sequence[Array]]

# ---- tools: each returns a function without arguments that computes the result which a message requests --------------


def by_tiduc(function: Callable[..., Any], arrays: list[Array], asked: str, wrt: Sequence[int]) -> Call:
    program: tiduc.Program = tiduc.from_jax(function, *arrays)
    if asked == GRADIENT:
        program = program.grad(list(wrt))
    elif asked == BLOCKS:
        program = program.jacobian(list(wrt), sparsity="block-diagonal")
    elif asked == NEWTON:
        program, arrays = program.grad(list(wrt)).jvp(list(wrt)), [*arrays, np.ones_like(arrays[wrt[0]])]
    compiled = program.compile()
    return lambda: compiled(*arrays)


def by_jax(function: Callable[..., Any], arrays: list[Array], asked: str, wrt: Sequence[int]) -> Call:
    if asked == GRADIENT:
        function = jax.grad(function, tuple(wrt))
    elif asked == BLOCKS:
        function = rows_alone(function, wrt)
    elif asked == NEWTON:
        gradient = jax.grad(function)
        rest, ones = arrays[1:], np.ones_like(arrays[0])
        arrays = arrays[:1]
        return by_jax(lambda x: jax.jvp(lambda x: gradient(x, *rest), (x,), (ones,)), arrays, VALUE, wrt)
    compiled = jax.jit(function)

    def call() -> list[Array]:
        results = compiled(*arrays)
        return [np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))]

    return call


def rows_alone(function: Callable[..., Any], wrt: Sequence[int]) -> Callable[..., Any]:
    """Returns a function that computes the diagonal blocks of the Jacobian, one block for each row of the arguments."""
    return jax.vmap(jax.jacrev(lambda *rows: function(*(row[None] for row in rows))[0], tuple(wrt)))


TOOLS = {"tiduc": by_tiduc, "jax": by_jax}

# ---- the protocol: one JSON object per line --------------------------------------------------------------------------


def answers(tool: str, messages: Iterator[str]) -> Iterator[Json]:
    """Yields the response to each message."""
    for line in messages:
        message = json.loads(line)
        response = {"id": message["id"]}
        if message["kind"] == "start":
            response["tool"] = tool
        elif message["kind"] == "define":
            response["success"] = message["module"] in (*PROBLEMS, "hello")
        elif message["kind"] == "evaluate":
            try:
                response |= evaluated(tool, message["module"], message["function"], message["input"])
            except Exception as error:  # GradBench records the error and continues with the next message
                response |= {"success": False, "error": f"{type(error).__name__}: {error}"}
        yield response


def evaluated(tool: str, module: str, function: str, given: Any) -> Json:
    if module == "hello":  # the input of this problem is a number, and its calls are not timed
        asked, x = {"square": VALUE, "double": GRADIENT}[function], np.array(given, np.float64)
        (output,) = TOOLS[tool](lambda x: x * x, [x], asked, (0,))()
        return {"success": True, "output": float(output)}
    problem = PROBLEMS[module]
    asked = problem.functions[function]
    whole = problem.whole(given)
    arrays = [np.array(whole[name], np.float64) for name in problem.arrays]
    objective = problem.objective(given)
    if module == "ode" and asked == GRADIENT:  # GradBench requests the gradient of the last element
        call = TOOLS[tool](lambda x: objective(x)[-1], arrays, asked, problem.wrt)
    else:
        call = TOOLS[tool](objective, arrays, asked, problem.wrt)
    output = _output(problem, asked, given, call())
    spent: list[int] = []
    while len(spent) < given["min_runs"] or sum(spent) < 1e9 * given["min_seconds"]:
        start = time.perf_counter_ns()
        call()
        spent.append(time.perf_counter_ns() - start)
    timings = [{"name": "evaluate", "nanoseconds": each} for each in spent]
    return {"success": True, "output": output, "timings": timings}


def _output(problem: Problem, asked: str, given: Json, results: Sequence[Array]) -> Any:
    if asked == VALUE:
        return problem.value(given, results)
    return problem.output(given, [results[0] / results[1]] if asked == NEWTON else results)


# ---- the table: sends messages with small inputs to the tools --------------------------------------------------------


class Tool(NamedTuple):
    """A process that answers GradBench's messages."""

    name: str
    process: "subprocess.Popen[str]"

    def ask(self, **message: Any) -> Json:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"id": 0, **message}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended")
        response: Json = json.loads(line)
        return response


def started(name: str, command: Sequence[str]) -> Tool:
    pipe = subprocess.PIPE
    return Tool(name, subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))


def compare(module: str, names: tuple[str, list[Any]], wanted: Any, found: Any) -> None:
    """Exits if two outputs differ by more than the tolerance of GradBench."""
    x, y = (np.array(leaves(output)) for output in (wanted, found))
    if x.shape != y.shape or np.any(np.abs(x - y) > 1e-4 * np.maximum(1, np.abs(x) + np.abs(y))):
        sys.exit(f"{module}: {names} differ")


def leaves(output: Any) -> list[float]:
    parts = output.values() if isinstance(output, dict) else output
    return [x for part in parts for x in leaves(part)] if isinstance(output, dict | list) else [output]


def table(tools: Sequence[Tool], seconds: float, only: Sequence[str]) -> Iterator[str]:
    """Yields the lines of a table: a line for each problem, function and input, with the least time of each tool."""
    yield f"| problem | function | input | {' | '.join(tool.name for tool in tools)} |"
    yield f"|---|---|---|{'---:|' * len(tools)}"
    for module in only:
        problem, rng = PROBLEMS[module], np.random.default_rng(0)
        knowing = [tool for tool in tools if tool.ask(kind="define", module=module)["success"]]
        for size, given in problem.inputs(rng):
            runs = {**given, "min_runs": 3, "min_seconds": seconds}
            for function in problem.functions:
                cells, wanted = dict.fromkeys([tool.name for tool in tools], "-"), None
                for tool in knowing:
                    response = tool.ask(kind="evaluate", module=module, function=function, input=runs)
                    if not response["success"]:
                        cells[tool.name] = "fails"
                        continue
                    times = [timing["nanoseconds"] for timing in response["timings"]]
                    cells[tool.name] = f"{min(times) / 1e3:.0f}"
                    if wanted is None:
                        wanted = response["output"]
                    compare(module, (function, [tools[0].name, tool.name]), wanted, response["output"])
                yield f"| {module} | {function} | {size} | {' | '.join(cells.values())} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tool", choices=TOOLS, default="tiduc")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of each evaluation")
    parser.add_argument("--beside", nargs="+", default=[], metavar="NAME=COMMAND")
    parser.add_argument(
        "--multithreaded", action="store_true", help="GradBench's option; both tools use all cores"
    )
    options = parser.parse_args()
    if not options.table:
        for response in answers(options.tool, sys.stdin):
            print(json.dumps(response), flush=True)
        return
    own = {name: [sys.executable, str(Path(__file__)), "--tool", name] for name in TOOLS}
    others = {
        name: shlex.split(command) for name, _, command in (text.partition("=") for text in options.beside)
    }
    tools = [started(name, command) for name, command in (own | others).items()]
    for line in table(tools, options.seconds, options.only):
        print(line, flush=True)
    for tool in tools:
        tool.process.communicate()


if __name__ == "__main__":
    main()
