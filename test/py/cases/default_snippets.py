"""A few lines of Python for each public name, as a user would write them.

Each snippet runs after `SETUP` in a separate process, in the folder of `default_paths.py`. It uses the default engine,
target and executor. If it raises an exception, the test fails.
"""

SETUP = """
import numpy as np
import tiduc
from tiduc import eager, runtime

W = np.linspace(-1, 1, 4 * 4, dtype=np.float32).reshape(4, 4)
X = np.array([0.5, -1, 2, 0], np.float32)

def is_near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * max(1, np.abs(wanted).max()))

def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(kind)
"""

_VIEW = """
view = tiduc.resolve(tiduc.import_stablehlo(tiduc.read("f.mlir")))
graph = view.graph("main")
linear = tiduc.linearize(view, graph.outputs, ["x"], tiduc.OPSET)
"""

OF_TIDUC: dict[str, str] = {
    "CompileError": "refused(tiduc.CompileError, lambda: tiduc.load('f.mlir').compile('vulkan'))",
    "Executable": """
compiled = tiduc.load("v.mlir").compile()
compiled.save("saved.vmfb")
is_near(tiduc.Executable.load("saved.vmfb")(W, X)[0], np.tanh(W @ X))
(kept,) = compiled.keep(W, X)
is_near(kept.numpy(), np.tanh(W @ X))""",
    "Graph": _VIEW + "assert isinstance(graph, tiduc.Graph) and list(graph.keys) == ['a', 'x']",
    "InputError": "refused(tiduc.InputError, lambda: tiduc.load('v.mlir').compile()(W))",
    "Model": """
model = tiduc.import_model("digits.onnx", lift_constants=True)
assert isinstance(model, tiduc.Model) and model.weights
images = np.zeros([d for d in model.signature.inputs[-1].type.shape], np.float32)
assert np.all(np.isfinite(model(images)))""",
    "OPSET": "assert isinstance(tiduc.OPSET, tiduc.OpSet)",
    "OpSet": "assert tiduc.load('f.mlir', opset=tiduc.OPSET.extended()).grad('x')(2.0, 0.0) == 2",
    "ParseError": "refused(tiduc.ParseError, lambda: tiduc.load('func.func @main( {'))",
    "Port": "assert isinstance(tiduc.load('f.mlir').inputs[0], tiduc.Port)",
    "Program": """
program = tiduc.load("f.mlir")
assert isinstance(program, tiduc.Program)
y, dy = program.jvp("x")(2.0, 0.5, 1.0)
is_near([y, dy], [np.e, 2 * np.e])
y, dx = program.vjp("x")(2.0, 0.5, 1.0)
is_near(dx, 2 * np.e)
is_near(program.hvp("x")(2.0, 0.5, 1.0), 4 * np.e)
is_near(tiduc.load("v.mlir").jacobian("x")(W, X), (1 - np.tanh(W @ X)[:, None] ** 2) * W)""",
    "RequestError": "refused(tiduc.RequestError, lambda: tiduc.load('f.mlir').grad('nothing'))",
    "ResolveError": "refused(tiduc.ResolveError, lambda: tiduc.resolve(tiduc.read('f.mlir')).graph('nothing'))",
    "RuleError": """
opset = tiduc.OPSET.extended()
opset.linearize("stablehlo.cosine")(lambda b, op, dx: [dx, dx])  # two results for one
text = open("f.mlir").read().replace("exponential", "cosine")
refused(tiduc.RuleError, lambda: tiduc.load(text, opset=opset).grad("x"))""",
    "Signature": "assert isinstance(tiduc.load('f.mlir').compile().signature, tiduc.Signature)",
    "RunTrace": "assert isinstance(tiduc.trace(tiduc.load('f.mlir'), [2.0, 0.5]), tiduc.RunTrace)",
    "Split": "assert isinstance(tiduc.split(tiduc.load('f.mlir')), tiduc.Split)",
    "TiducError": "refused(tiduc.TiducError, lambda: tiduc.load('missing.mlir'))",
    "Unsupported": """
text = open("f.mlir").read().replace("exponential %0 :", "custom_call @no(%0) : (tensor<f64>) ->")
refused(tiduc.Unsupported, lambda: tiduc.load(text).grad("x"))""",
    "View": _VIEW + "assert isinstance(view, tiduc.View)",
    "Zero": _VIEW
    + """
flat = tiduc.materialize_merge(view, [tiduc.Zero(graph.outputs[0].type)], ["a", "x"], tiduc.OPSET)
assert len(flat.outputs) == 1""",
    "batch": """
view = tiduc.resolve(tiduc.import_stablehlo(tiduc.read("f.mlir")))
assert tiduc.batch(view, view.graph("main").outputs, ["x"], 3, tiduc.OPSET).outputs""",
    "context": "assert tiduc.context() is tiduc.context()",
    "from_jax": """
import jax.numpy as jnp
program = tiduc.from_jax(lambda w, x: jnp.sum(jnp.tanh(w @ x)), W, X)
is_near(program.grad(1)(W, X), W.T @ (1 - np.tanh(W @ X) ** 2))""",
    "from_module": "assert tiduc.from_module(tiduc.read('f.mlir')).grad('x')(2.0, 0.0) == 2",
    "from_onnx": "assert tiduc.from_onnx('digits.onnx').grad",
    "from_torch": """
import torch
module = torch.nn.Linear(4, 4)
program = tiduc.from_torch(module, (torch.from_numpy(X),))
is_near(program(X), module(torch.from_numpy(X)).detach())""",
    "grad": """
import torch
x = torch.from_numpy(X)
is_near(tiduc.grad(lambda x: torch.sin(x).sum())(x), torch.cos(x))
sine = torch.compile(torch.sin, backend="tiduc", options={"fallback": False})
is_near(sine(x), torch.sin(x))""",
    "import_model": "assert tiduc.import_model('digits.onnx').signature",
    "import_stablehlo": "assert 'tidu.graph' in str(tiduc.import_stablehlo(tiduc.read('f.mlir')))",
    "jit": """
import jax.numpy as jnp
is_near(tiduc.jit(lambda x: jnp.tanh(x))(X), np.tanh(X))""",
    "linear_transpose": _VIEW + "assert tiduc.linear_transpose(view, linear, tiduc.OPSET).linear",
    "linearize": _VIEW + "assert linear.linear and len(linear.keys) == 1",
    "link": """
files = [(name, tiduc.read(name)) for name in ("uses.mlir", "library/other.mlir")]
assert "sine" in str(tiduc.link(files))""",
    "load": "is_near(tiduc.load('f.mlir').grad('x')(2.0, 0.5), 2 * np.e)",
    "lower": _VIEW
    + """
flat = tiduc.materialize_merge(view, graph.outputs, ["a", "x"], tiduc.OPSET)
assert "func.func" in str(tiduc.lower(flat, view=view))""",
    "materialize_merge": _VIEW
    + "assert tiduc.materialize_merge(view, graph.outputs, ['a', 'x'], tiduc.OPSET)",
    "parse": "assert tiduc.parse(open('f.mlir').read())",
    "read": "assert tiduc.read('f.mlir')",
    "read_weights": "assert np.array_equal(tiduc.read_weights('w.safetensors')['w'], np.eye(4))",
    "resolve": "assert tiduc.resolve(tiduc.import_stablehlo(tiduc.read('f.mlir'))).graph('main')",
    "run_pipeline": """
done = tiduc.run_pipeline(tiduc.read("f.mlir"), "tidu-grad{wrt=x},cse")
assert "func.func" in str(done or "func.func")""",
    "split": "assert tiduc.split(tiduc.load('f.mlir')).table()",
    "trace": "assert tiduc.trace(tiduc.load('f.mlir'), [2.0, 0.5], 'vjp').rows",
    "structure": _VIEW
    + """
flat = tiduc.materialize_merge(view, graph.outputs, ["a", "x"], tiduc.OPSET)
assert tiduc.structure(view, flat, tiduc.OPSET)""",
    "train_step": """
model = tiduc.import_model("digits.onnx", lift_constants=True)
step = tiduc.train_step(model, loss="softmax-cross-entropy", optimizer="adam")
assert step.compile().vmfb""",
    "write_weights": """
tiduc.write_weights("written.npz", {"w": W})
assert np.array_equal(tiduc.read_weights("written.npz")["w"], W)""",
}

_MODULE = "module = runtime.load('f.vmfb')\n"

OF_RUNTIME: dict[str, str] = {
    "DeviceArray": _MODULE
    + "kept = module['main'].keep(2.0, 0.5)[0]\nassert isinstance(kept, runtime.DeviceArray)",
    "Executable": "is_near(runtime.Executable.load('f.vmfb')(2.0, 0.5)[0], np.e)",
    "InputError": _MODULE + "refused(runtime.InputError, lambda: module['main'](1.0))",
    "Limits": "is_near(tiduc.load('f.mlir').compile(limits=runtime.Limits(seconds=600))(2.0, 0.5)[0], np.e)",
    "Module": _MODULE + "assert isinstance(module, runtime.Module) and list(module) == ['main']",
    "RequestError": "refused(runtime.TiducError, lambda: runtime.load('f.vmfb', devices=['nothing']))",
    "Signature": _MODULE + "assert isinstance(module['main'].signature, runtime.Signature)",
    "TiducError": "refused(runtime.TiducError, lambda: runtime.load('missing.vmfb'))",
    "available_devices": "assert 'local-sync' in runtime.available_devices()",
    "load": """
for target in ("cpu", "cpu-threads"):
    with runtime.load("f.vmfb", target=target) as module:
        is_near(module["main"](2.0, 0.5)[0], np.e)
with runtime.load("f.vmfb", isolated=True) as module:
    is_near(module["main"](2.0, 0.5)[0], np.e)""",
}

_SQUARES = """
x = eager.Array(np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64), requires_grad=True)
y = np.sum(x @ x)
"""
_RECORDED = """
executor, recorder = eager.Iree(), eager.Recorder()
scalar = np.dtype("f8"), ()
graph = recorder.graphs.op("exp(x) y", (scalar, scalar), lambda b, x, y: [b.multiply(b.exponential(x), y)])
x = eager.EagerInput("x", np.array(0.0), requires_grad=True)
y = eager.EagerInput("y", np.array(4.0))
(z,) = recorder.record(graph, [x, y])
"""

OF_EAGER: dict[str, str] = {
    "Array": _SQUARES
    + """
y.backward()
ones = np.ones((64, 64), np.float32)
is_near(x.grad.data, ones @ x.data.T + x.data.T @ ones)""",
    "Compiling": "assert isinstance(eager.Iree(), eager.Compiling)",
    "EagerInput": _RECORDED + "assert eager.backward([z], [np.array(1.0)], executor)['x'] == 4",
    "EagerOutput": _RECORDED + "assert isinstance(z, eager.EagerOutput)",
    "Executor": _RECORDED + "assert executor.add_operands(np.array(1.0), np.array(2.0)) == 3",
    "Graphs": _RECORDED + "assert isinstance(recorder.graphs, eager.Graphs)",
    "Interpreter": "with eager.executing(eager.Interpreter()):\n    assert np.sum(eager.Array([1.0, 2.0])) == 3",
    "Iree": "with eager.executing(eager.Iree()):\n    assert np.sum(eager.Array([1.0, 2.0])) == 3",
    "KeySource": """
class Keys:
    count = 0

    def fresh(self):
        self.count += 1
        return f"key{self.count}"

assert eager.Recorder(Keys())""",
    "RecordedGraph": _RECORDED + "assert isinstance(graph, eager.RecordedGraph)",
    "Recorder": _RECORDED + "assert eager.backward([z], [np.array(1.0)], executor)['x'] == 4",
    "Session": "with eager.executing(eager.Session(limit=8)):\n    assert np.sum(eager.Array([1.0, 2.0])) == 3",
    "Trace": _RECORDED + "assert isinstance(z.trace, eager.Trace)",
    "TransposedLinear": _RECORDED + "assert eager.TransposedLinear",
    "backward": _RECORDED + "assert eager.backward([z], [np.array(1.0)], executor)['x'] == 4",
    "backward_from": _SQUARES + "eager.backward_from([y], [np.float32(1)])\nassert x.grad.shape == (64, 64)",
    "call": """
x = eager.Array(X, requires_grad=True)
(v,) = eager.call(tiduc.load("v.mlir"), W, x)
y = np.sum(v)
y.backward()
is_near(x.grad.data, W.T @ (1 - np.tanh(W @ X) ** 2))""",
    "checkpoint": _SQUARES
    + "np.sum(eager.checkpoint(lambda x: np.exp(x), x)).backward()\nis_near(x.grad.data, np.exp(x.data))",
    "executing": "with eager.executing(eager.Iree('cpu-threads')):\n    assert np.sum(eager.Array([1.0, 2.0])) == 3",
    "grad": _SQUARES + "assert eager.grad(y, x).shape == (64, 64)",
    "no_grad": "with eager.no_grad():\n    assert not np.sum(eager.Array([1.0], requires_grad=True)).requires_grad",
    "program_of": "is_near(eager.program_of(lambda x: np.exp(x) * x, 1.0)(1.0), np.e)",
    "recorded_backward": _RECORDED
    + """
seed = eager.EagerInput("seed", np.array(1.0))
assert eager.recorded_backward([z], [seed], executor, recorder)["x"].data == 4""",
    "rehearsing": """
with eager.rehearsing():
    x = eager.Array([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()""",
    "session": "assert isinstance(eager.session(), eager.Session)",
}

SCRIPTS: dict[str, str] = {
    "eager_mlp.py": "",
    "export.py": "read: exports the models from JAX 0.10.2 into this folder",
    "export_onnx.py": "read: trains a network in PyTorch, and writes digits.onnx into this folder",
    "finetune_on_device.py": "step.vmfb step_state.npz --steps 5",
    "from_torch.py": "",
    "implicit_layers.py": "--size 8",
    "in_a_browser.py": "net.html",
    "models.py": "read: the models that export.py exports",
    "optimal_control.py": "",
    "pinn_beam.py": "--steps 20",
    "potential.py": "",
    "taylor_ode.py": "",
    "train_in_a_browser.py": "digits.html",
    "train_on_device.py": "train --steps 5",
    "train_on_processes.py": "--steps 2",
}
"""Maps the scripts in `examples` to their arguments. After `read:`, the text is the reason why a script is not run."""

OF_TRAINING: dict[str, str] = {
    "fit": """
model = tiduc.load("batch.mlir")
data = {"x": np.eye(3, dtype=np.float32), "target": np.ones((3, 2), np.float32)}
step = tiduc.train_step(model, train=["w"], infer=model)
state = {"w": np.zeros((3, 2), np.float32)}
run = tiduc.training.fit(step, data, state=state, epochs=100, batch=2, rate=0.5, validation=data)
is_near(run.losses[0], 1)
assert len(run.losses) == 200 and run.validations[-1] < 0.1""",
}
