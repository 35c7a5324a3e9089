"""Calls public functions of tiduc concurrently in several threads.

    python in_threads.py NAME,NAME

Each thread makes all calls, but begins with a different call. The script prints each call that raises an error, or
whose result differs from the result in a single thread.
"""

import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np

import tiduc

THREADS = 8
TEXT = """func.func @main(%a: tensor<3xf64>, %x: tensor<3xf64>) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<3xf64>
  %1 = stablehlo.exponential %0 : tensor<3xf64>
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  return %2 : tensor<f64>
}"""
CURVE = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}"""
LOOP = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<f64>
  cond {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.sine %y : tensor<f64>
    stablehlo.return %j, %z : tensor<i32>, tensor<f64>
  }
  return %r#1 : tensor<f64>
}"""
A, X = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 0.125])
_shared: list[tiduc.Program] = []


def shared() -> tiduc.Program:
    """Returns the program that all threads share. Their calls extend its view concurrently."""
    return _shared[0]


def program(text: str = TEXT) -> tiduc.Program:
    return tiduc.load(text)


def numbers(values: Any) -> list[Any]:
    return [np.asarray(y).round(12).tolist() for y in values]


def with_file(write: Callable[[Path], Any], suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"f{suffix}"
        write(path)
        return path.read_bytes()


def refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except tiduc.TiducError as error:
        return str(error)
    return "accepted"


def graphs() -> tuple[Any, Any]:
    """Returns a view, and the graph of `TEXT` in it."""
    view = tiduc.resolve(tiduc.import_stablehlo(tiduc.parse(TEXT), "main", tiduc.OPSET))
    return view, view.graph("main")


def linear() -> str:
    view, graph = graphs()
    with tiduc.context():
        forward = tiduc.linearize(view, graph.outputs, ["x"], tiduc.OPSET)
        tiduc.linear_transpose(view, forward, tiduc.OPSET)
        return str(view.module)


def lowered() -> str:
    view, graph = graphs()
    flat = tiduc.materialize_merge(view, graph.outputs, list(graph.inputs), tiduc.OPSET)
    return str(tiduc.structure(view, flat, tiduc.OPSET))[:6]


def batched() -> int:
    view, graph = graphs()
    return len(tiduc.batch(view, list(graph.outputs), ["x"], 4, tiduc.OPSET).outputs)


def module_round_trip() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.mlir"
        path.write_text(TEXT)
        return str(tiduc.from_module(tiduc.read(path)).signature)


def weights() -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.npz"
        tiduc.write_weights(path, {"a": A})
        return numbers(tiduc.read_weights(path).values())


def eager_gradient() -> list[Any]:
    from tiduc import eager

    with eager.executing(eager.Interpreter()):
        x = eager.Array(X, requires_grad=True)
        y = (np.sin(x) * A).sum()
        y.backward()
        return numbers([x.grad])


def eager_call() -> list[Any]:
    from tiduc import eager

    with eager.executing(eager.Interpreter()):
        x = eager.Array(X, requires_grad=True)
        (y,) = eager.call(shared(), A, x)
        return numbers(eager.grad(y, [x]))


def eager_on_iree() -> list[Any]:
    from tiduc import eager

    x = eager.Array(X, requires_grad=True)
    (x * x).sum().backward()
    return numbers([x.grad])


def runtime_call() -> list[Any]:
    import tiduc.runtime

    with tiduc.runtime.load(shared().compile().vmfb) as module:
        kept = module["main"].keep(A, module.put(X))
        return numbers([kept[0].numpy(), *module["main"](A, X)])


def error_of_parser() -> str:
    return refusal(lambda: tiduc.load("func.func @main(%x: tensor<f64>) { %0 = stablehlo.nothing %x }"))


def unregistered() -> str:
    text = CURVE.replace("stablehlo.sine %x : tensor<f64>", '"mine.op"(%x) : (tensor<f64>) -> tensor<f64>')
    tiduc.parse(text, dialects=("mine",))
    return refusal(lambda: tiduc.parse(text))


def step() -> str:
    network = """func.func @main(%w: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.multiply %w, %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    return str(tiduc.train_step(program(network), loss="mse", train=["w"]).signature)


CALLS: dict[str, Callable[[], Any]] = {
    "load": lambda: program().text,
    "load bytecode": lambda: tiduc.load(pickle.loads(pickle.dumps(program(CURVE))).text).text,
    "from_module read": module_round_trip,
    "errors": error_of_parser,
    "unregistered": unregistered,
    "jvp": lambda: shared().jvp().text,
    "vjp": lambda: shared().vjp().text,
    "grad": lambda: shared().grad("x").text,
    "gauss-newton": lambda: program(CURVE).gauss_newton().text,
    "hvp": lambda: shared().hvp("x").text,
    "jet": lambda: program(CURVE).jet(3).text,
    "derivatives": lambda: program(CURVE).derivatives(3).text,
    "flow": lambda: program(CURVE).flow(3).text,
    "tensor": lambda: shared().tensor(2, "x").text,
    "compressed": lambda: str(shared().jacobian("x", sparsity="auto", compressed="csr").patterns),
    "second-directional": lambda: shared().second_directional("x").text,
    "jacobian": lambda: shared().jacobian("x", sparsity="auto").text,
    "hessian": lambda: shared().hessian("x").text,
    "lagrangian": lambda: program(CURVE).lagrangian().text,
    "laplacian": lambda: shared().laplacian("x").text,
    "batch": lambda: shared().batch({"x": 0, "a": None}, 4).text,
    "together": lambda: str(shared().together(shared().grad("x")).signature),
    "loop": lambda: program(LOOP).vjp().text,
    "rematerialize": lambda: program(LOOP).grad().rematerialize("min").text,
    "graphs": lambda: str(program().grad("x").graphs),
    "flat structured": lambda: str(program(LOOP).flat) + str(program(LOOP).structured),
    "merged module": lambda: str(program().module) + str(len(program().merged.definitions)),
    "lowered module_after": lambda: str(program().lowered()) + str(program().module_after("structure")),
    "signature defaults differentiated": lambda: (
        str(program().signature) + str(dict(program().defaults)) + str(len(program().differentiated("x")))
    ),
    "cost": lambda: str(shared().cost()),
    "trace": lambda: str(tiduc.trace(shared(), [A, X], "vjp").rows),
    "picture": lambda: len(shared()._repr_html_()),
    "save": lambda: with_file(program().save, ".mlir"),
    "pickle": lambda: pickle.loads(pickle.dumps(shared())).text,
    "lower": lambda: str(shared().lower().module),
    "compile and call": lambda: numbers([shared()(A, X), shared().on("cpu")(A, X)]),
    "compile reference": lambda: numbers(shared().grad("x").compile(engine="reference")(A, X)),
    "link": lambda: str(tiduc.link([("f", tiduc.parse(TEXT))])),
    "run_pipeline": lambda: str(tiduc.run_pipeline(tiduc.parse(TEXT), "tidu-import,cse")),
    "split": lambda: str(tiduc.split(shared(), ["x"]).forward.signature),
    "linearize linear_transpose": linear,
    "resolve import_stablehlo batch": batched,
    "materialize_merge structure": lowered,
    "train_step": step,
    "weights": weights,
    "eager": eager_gradient,
    "eager call": eager_call,
    "eager on IREE": eager_on_iree,
    "runtime": runtime_call,
}


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return repr(error)


def main(names: list[str]) -> None:
    barrier, wrong, results = Barrier(THREADS), list[str](), list[tuple[str, Any]]()

    def work(first: int) -> None:
        barrier.wait()
        if not first or not _shared:
            _shared.append(program())
        for name in names[first % len(names) :] + names[: first % len(names)]:
            try:
                results.append((name, CALLS[name]()))
            except BaseException as error:
                wrong.append(f"{name}: {error!r}")

    threads = [Thread(target=work, args=(5 * i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {name: outcome(CALLS[name]) for name in names}
    wrong += [f"{name}: {y} for {expected[name]}" for name, y in results if y != expected[name]]
    print("\n".join(wrong))
    sys.exit(len(wrong) > 0)


if __name__ == "__main__":
    sys.setswitchinterval(1e-5)
    main(sys.argv[1].split(",") if len(sys.argv) > 1 else list(CALLS))
