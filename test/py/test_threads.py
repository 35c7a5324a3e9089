"""Eight threads of a new process concurrently call each public function of tiduc."""

import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import sleep
from typing import Any

import numpy as np
import pytest
from harness import in_threads
from harness.stages import EXP_AX

import tiduc
from tiduc import eager, runtime
from tiduc.dialect.graph.graph import definition_of
from tiduc.dialect.turns import turn

SCRIPT = Path(in_threads.__file__)
SAMPLE = "load,errors,unregistered,grad,jacobian,loop,compile and call,eager,link,pickle"
VALUES = {
    "OPSET", "CompileError", "Executable", "Graph", "InputError", "Model", "OpSet", "ParseError", "Port", "Program",
    "RequestError", "ResolveError", "RuleError", "RunTrace", "Signature", "Split", "TiducError",
    "Unsupported", "View", "Zero",
    "from_jax", "from_onnx", "from_torch", "grad", "import_model", "jit",  # these functions need other packages
}  # fmt: skip
"""Public names that these tests do not call: types, and imports of models, which run code of other frameworks."""


def run(names: str) -> str:
    command = [sys.executable, str(SCRIPT), names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.strip()


def test_threads_load_programs_in_a_new_process() -> None:
    assert run("load,load bytecode") == ""


@pytest.mark.more
def test_a_sample_of_calls_from_threads() -> None:
    assert run(SAMPLE) == ""


@pytest.mark.slow
@pytest.mark.parametrize("time", range(2))
def test_all_calls_from_threads(time: int) -> None:
    assert run(",".join(in_threads.CALLS)) == ""


def test_each_public_call_is_tried() -> None:
    calls = SCRIPT.read_text()
    tried = set(re.findall(r"\b\w+\b", calls))
    assert set(tiduc.__all__) - VALUES - tried == set()
    assert {name for name in vars(tiduc.Program) if not name.startswith("_")} - tried <= {
        *tiduc.Program.__dataclass_fields__,
        "text",
    } | {"view"}
    assert {"load"} <= set(runtime.__all__) & tried
    assert {"Array", "grad", "call", "executing"} <= set(eager.__all__) & tried


def test_threads_extend_one_view() -> None:
    program = tiduc.load(in_threads.TEXT)

    def derived(n: int) -> str:
        return str(
            (program.grad("x") if n % 2 else program.jvp().grad("x", value=False)).text
            if n % 3
            else program.vjp().text
        )

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(derived, [1, 3, 1, 3, 1, 3, 1, 3] * 4))
    assert set(texts) == {derived(1), derived(3)}


def in_eight_threads(work: Callable[[int], Any]) -> list[Any]:
    """The results of eight concurrent calls, which start at the same time."""
    barrier = Barrier(8)

    def waited(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(waited, range(8)))


def test_threads_read_a_graph_of_a_view_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*args: Any) -> Any:
        sleep(1e-4)  # lets another thread run
        return definition_of(*args)

    monkeypatch.setattr("tiduc.dialect.graph.view.definition_of", slowly)
    view = tiduc.resolve(tiduc.parse(EXP_AX))
    values = in_eight_threads(lambda _: view.value(("F0", "p3")) if _ % 2 else view.graph("F0").outputs[0])
    assert len(set(values)) == 1
    assert len(view.graph("F0").definitions) == 2
    names = in_eight_threads(lambda _: [view.fresh("U") for _ in range(20)])
    assert len({name for some in names for name in some}) == 160


def test_threads_build_and_transform_graphs_of_one_view() -> None:
    """If eight threads use builders and passes on one view, each thread gets the graph of a single-threaded run."""
    view = tiduc.resolve(tiduc.parse(EXP_AX))

    def derived(_: int) -> list[str]:
        with tiduc.context():
            b: Any = tiduc.OPSET.builder(view, view.fresh("U"))
            y = b.cosine(b.multiply(view.value(("F0", "p3")), b.input("x", view.input("x").type)))
            b.finish([y])
        forward = tiduc.linearize(view, [y], ["x"], tiduc.OPSET)
        back = tiduc.linear_transpose(view, forward, tiduc.OPSET)
        wanted = [y, *forward.outputs, *back.outputs]
        flat = tiduc.materialize_merge(view, wanted, ["a", "x"], tiduc.OPSET, name="flat")
        return [*flat.inputs][:2] + [op.name for op in flat.definitions]

    results = [derived(0), *(y for _ in range(4) for y in in_eight_threads(derived))]
    assert [y for y in results if y != results[0]] == []
    assert len(view.graphs) == 1 + 3 * 33


def test_calls_run_while_a_thread_works_on_the_ir() -> None:
    """A compiled program can run while another thread holds the lock of the IR."""
    compiled = tiduc.load(in_threads.TEXT).compile()
    with turn(), ThreadPoolExecutor(1) as pool:
        (y,) = pool.submit(compiled, in_threads.A, in_threads.X).result(timeout=60)
    np.testing.assert_allclose(y, np.exp(in_threads.A * in_threads.X).sum())


def test_a_forked_process_has_its_own_turns() -> None:
    code = """
import os, threading
import tiduc
from tiduc.dialect.turns import turn
inside, done = threading.Event(), threading.Event()
def hold():
    with turn():
        inside.set()
        done.wait()
tiduc.context()
threading.Thread(target=hold).start()
inside.wait()
child = os.fork()
if not child:
    text = "func.func @main(%x: tensor<f64>) -> tensor<f64> { return %x : tensor<f64> }"
    os._exit(tiduc.load(text).name != "main")
_, status = os.waitpid(child, 0)
done.set()
print(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
