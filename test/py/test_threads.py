"""Threads of one process: each public call of tiduc, from eight threads of a new process at once."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from harness import in_threads

import tiduc
from tiduc import eager, runtime
from tiduc.dialect.turns import turn

SCRIPT = Path(in_threads.__file__)
SAMPLE = "load,errors,unregistered,grad,jacobian,loop,compile and call,eager,link,pickle"
VALUES = {
    "OPSET", "CompileError", "Executable", "Graph", "InputError", "Model", "OpSet", "ParseError", "Port", "Program",
    "RequestError", "ResolveError", "RuleError", "Signature", "Split", "TiducError", "Unsupported", "View", "Zero",
    "from_jax", "from_onnx", "from_torch", "import_model",  # which need other packages
}  # fmt: skip
"""The public names that are not called: types, and imports of models, which run the frameworks' own code."""


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


def test_calls_run_while_a_thread_works_on_the_ir() -> None:
    """The lock is for the IR alone: compiled programs run without it."""
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
