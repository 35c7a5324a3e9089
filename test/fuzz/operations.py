"""The Python operations that the fuzzer runs on an input, such as the methods of `Program`.

An operation takes a `Subject` and raises an exception if it fails. It also checks its result: emitted IR must be valid
text that can be parsed again.
"""

import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from cases.archives import plain, write
from outcomes import Invalid
from watch import watched

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.prepare import Prepared
from tiduc.checking.check import check
from tiduc.dialect.errors import TiducError
from tiduc.dialect.mlir.emit import artifact, bytecode, emit
from tiduc.explain import as_json, explain
from tiduc.linking import link
from tiduc.models.files import import_model
from tiduc.models.torch import isolated
from tiduc.opt import PASSES, run_pipeline
from tiduc.program import Program
from tiduc.runtime import cache as modules_cache
from tiduc.runtime import worker
from tiduc.runtime.arrays import parse_inputs, random_array
from tiduc.runtime.modules import load as load_compiled
from tiduc.runtime.process import Limits
from tiduc.runtime.signature import SignatureValue, TensorType
from tiduc.runtime.weights import read_weights
from tiduc.splitting import split

MOST = 100_000
"""A program is run only if its arguments have at most this number of elements."""
LIMITS = Limits(seconds=10, mebibytes=2048)
"""The limits of the reference interpreter, which is slow, and of isolated reading, which could take hours."""
MEMORIES = ("auto", "stack", "sqrt", "log")


class Subject:
    """An input in a file, the program that is loaded from it, and a random generator."""

    def __init__(self, path: Path, draw: Random, isolated: bool = False) -> None:
        self.path, self.draw = path, draw
        self.isolation = {"isolated": True, "limits": LIMITS} if isolated else {}

    @cached_property
    def program(self) -> Program:
        inline, memory = self.draw.randrange(5) == 0, self.draw.choice(MEMORIES)
        return tiduc.load(self.path, inline=inline, loop_memory=memory, **self.isolation)

    @property
    def wrt(self) -> list[int] | None:
        """Draws a subset of the inputs, or None, which stands for all differentiable inputs."""
        inputs = range(len(self.program.inputs))
        return self.draw.choice([None, None, [i for i in inputs if self.draw.randrange(2)]])

    @property
    def module(self) -> Any:
        return self.program.module if self.isolation else tiduc.read(self.path)


def reparsed(module: Any) -> None:
    """Raises `Invalid` unless the text and the bytecode of a module can be parsed again."""
    written = emit(module)
    try:
        text = written.decode("utf-8", "surrogateescape")
        if '"util.' in text:  # tiduc's parser does not know IREE's ops
            return
        tiduc.parse(written)
        if "sdy." not in text:  # bytecode cannot contain attributes of Shardy
            with tiduc.context():
                tiduc.parse(bytecode(module))
    except TiducError as error:
        raise Invalid(f"the emitted module does not parse: {error}\n{text[:3000]}") from None


def _emitted(program: Program) -> None:
    reparsed(program.module)


def _load(s: Subject) -> None:
    assert repr(s.program)
    assert str(s.program.signature) is not None


def _text(s: Subject) -> None:
    _emitted(s.program)


def _method(name: str, **options: Any) -> Callable[[Subject], None]:
    def run(s: Subject) -> None:
        _emitted(getattr(s.program, name)(wrt=s.wrt, **options))

    return run


def _twice(first: str, second: str) -> Callable[[Subject], None]:
    def run(s: Subject) -> None:
        _emitted(getattr(getattr(s.program, first)(), second)())

    return run


def _graphs(s: Subject) -> None:
    derivative = s.program.vjp(s.wrt)
    for module in (derivative.graphs, derivative.flat, derivative.structured):
        reparsed(module)


def _split(s: Subject) -> None:
    parts = split(s.program, s.wrt)
    _emitted(parts.forward)
    _emitted(parts.backward)
    assert str(parts)


def _explain(s: Subject) -> None:
    as_json(explain(s.module, s.program, s.wrt))


def _save(s: Subject) -> None:
    path = s.path.with_name("saved.mlir")
    derivative = s.program.jvp(s.wrt)
    derivative.save(path)
    reloaded = tiduc.load(path)
    if str(reloaded.signature) != str(derivative.signature):
        raise Invalid(
            f"a saved program has another signature after it is loaded:\n{derivative.signature}\n{reloaded.signature}"
        )


def _pickle(s: Subject) -> None:
    unpickled = pickle.loads(pickle.dumps(s.program))
    _emitted(unpickled)


def _artifact(s: Subject) -> None:
    with tiduc.context():
        written = artifact(s.program.module)
    tiduc.load(written)


def pipeline(draw: Random) -> str:
    """Returns the text of a random pass pipeline.

    It has the passes of a derivative in order, with other passes inserted, or up to three arbitrary passes.
    """
    usual = ["tidu-import", "tidu-linearize", "tidu-linear-transpose", "tidu-materialize-merge", "tidu-lower"]
    others = [*PASSES, "canonicalize", "cse", "inline", "symbol-dce", "tidu-batch{size=2}", "tidu-resolve"]
    others += ["stablehlo-aggressive-simplification", "chlo-legalize-to-stablehlo", "stablehlo-refine-shapes"]
    chosen = [name for name in usual if draw.randrange(8)]
    for _ in range(draw.randrange(4)):
        name = draw.choice(others)
        nested = name.startswith(("chlo", "stablehlo-agg"))
        chosen.insert(draw.randint(0, len(chosen)), f"func.func({name})" if nested else name)
    if draw.randrange(2):
        return ",".join(chosen[: draw.randint(1, len(chosen))] if chosen else ["cse"])
    return ",".join(draw.sample(others, draw.randint(1, 3)))


def _opt(s: Subject) -> None:
    module = s.module
    run_pipeline(module, pipeline(s.draw))
    if '"flow.' in str(module):  # tiduc's parser does not know IREE's dialects
        assert module.operation.verify()
    else:
        reparsed(module)


def _link(s: Subject) -> None:
    module = s.module
    reparsed(link([("a.mlir", module), ("b.mlir", s.program.vjp(s.wrt).graphs)]))


def _source(target: str) -> Callable[[Subject], None]:
    def run(s: Subject) -> None:
        next(Prepared(s.program.lower(), Options(target)).applicable())

    return run


def _arguments(program: Program) -> list[Any]:
    types = [TensorType.parse(str(value.type).replace("?", "2")) for value in program.signature.inputs]
    rng = np.random.default_rng(0)
    if any(t.dtype is None or np.prod([n or 0 for n in t.shape], dtype=float) > MOST for t in types):
        raise tiduc.InputError("the fuzzer has no argument of this type")
    return [random_array(t, rng) for t in types]


def _evaluate(s: Subject) -> None:
    s.program.compile(engine="reference", limits=LIMITS)(*_arguments(s.program))


def _check(s: Subject) -> None:
    list(check(s.program, _arguments(s.program), lambda p: p.compile(engine="reference", limits=LIMITS)))


def _compile(s: Subject) -> None:
    run = s.program.compile(s.draw.choice(["vmvx", "cpu"]), cached=False)
    run(*_arguments(s.program))


def _bytes(s: Subject) -> None:
    with suppress(TiducError):
        tiduc.load(s.path.read_bytes())


def _run_compiled(s: Subject) -> None:
    with load_compiled(s.path) as module:
        for run in module.values():
            types = [value.type for value in run.signature.inputs]
            run(*(np.ones([2 if n is None else n for n in t.shape], t.dtype) for t in types))


def _weights(s: Subject) -> None:
    if s.path.suffix in (".npy", ".npz") and s.draw.randrange(2):
        types = [SignatureValue("x", TensorType.parse(t)) for t in ("2x3xf32", "4xi64", "?xbf16")]
        parse_inputs([f"@{s.path}{s.draw.choice(['', ':x', ':*', ':none'])}"], types)
    else:
        read_weights(s.path)


def _import(s: Subject) -> None:
    _emitted(import_model(s.path, lift_constants=bool(s.draw.randrange(2)), **s.isolation))


def _import_watched(s: Subject) -> None:
    """Imports a file in this process, and checks that the import does nothing else, such as opening another file.

    With `isolated`, tiduc's worker process imports the file.
    """
    if s.isolation:
        _import(s)
        return
    worker._serving = True  # runs the worker's code in this process, which is watched
    _import_a_plain_archive()
    with watched(s.path.resolve().parent):
        import_model(s.path, lift_constants=bool(s.draw.randrange(2)))


class _Built(TiducError):
    """Raised to end an import as soon as the program of an archive is built."""


def _build_watched(s: Subject) -> None:
    """Imports a file like `_import_watched`, but skips the slow steps: PyTorch's decompositions and torch-mlir."""

    def built(*_: Any) -> None:
        raise _Built("built")

    _import_a_plain_archive()
    with patch.object(isolated, "stablehlo", built), suppress(_Built):
        _import_watched(s)


@cache
def _import_a_plain_archive() -> None:
    """Imports a valid archive, so that PyTorch loads all Python modules before the watched import."""
    with TemporaryDirectory() as folder:
        import_model(write(Path(folder) / "plain.pt2", plain()))


def _cache(s: Subject) -> None:
    modules_cache.info()
    modules_cache.read(s.path.stem)
    modules_cache.write("0" * 64, b"x")
    modules_cache.clear()


PROGRAM: dict[str, tuple[Callable[[Subject], None], int]] = {
    "text": (_text, 6),
    "jvp": (_method("jvp"), 10),
    "jvp, batched": (_method("jvp", batch=2), 4),
    "vjp": (_method("vjp"), 14),
    "vjp, batched": (_method("vjp", batch=3), 4),
    "vjp, conjugate": (_method("vjp", conjugate=True), 2),
    "grad": (_method("grad", value=True), 5),
    "hvp": (_method("hvp"), 5),
    "jvp of vjp": (_twice("vjp", "jvp"), 4),
    "vjp of jvp": (_twice("jvp", "vjp"), 4),
    "vjp of vjp": (_twice("vjp", "vjp"), 3),
    "jacobian": (_method("jacobian"), 4),
    "jacobian, forward": (_method("jacobian", mode="forward"), 2),
    "jacobian, sparse": (_method("jacobian", sparsity="auto"), 2),
    "jacobian, compressed": (_method("jacobian", compressed="csr"), 2),
    "hessian": (_method("hessian"), 2),
    "gauss_newton": (_method("gauss_newton", compressed="csc"), 1),
    "second_directional": (_method("second_directional"), 2),
    "lagrangian": (_method("lagrangian"), 1),
    "laplacian": (_method("laplacian"), 2),
    "jet": (_method("jet", order=3), 4),
    "derivatives": (_method("derivatives", order=3), 1),
    "graphs": (_graphs, 4),
    "split": (_split, 4),
    "explain": (_explain, 4),
    "save": (_save, 3),
    "pickle": (_pickle, 2),
    "artifact": (_artifact, 2),
    "opt": (_opt, 8),
    "link": (_link, 2),
    "source, cpu": (_source("cpu"), 6),
    "source, vulkan": (_source("vulkan"), 2),
    "evaluate": (_evaluate, 4),
    "check": (_check, 1),
    "compile": (_compile, 0),
}
"""Maps names to the operations on a program, and to the weight with which each is chosen at random."""

OTHER: dict[str, Callable[[Subject], None]] = {
    "load": _load,
    "bytes": _bytes,
    "run compiled": _run_compiled,
    "weights": _weights,
    "import": _import,
    "import, watched": _import_watched,
    "build, watched": _build_watched,
    "cache": _cache,
}
