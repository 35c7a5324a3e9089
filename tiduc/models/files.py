"""Imports a model from a file. The suffix of the file determines the importer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tiduc.dialect.errors import ParseError, RequestError
from tiduc.dialect.mlir.context import read
from tiduc.dialect.mlir.formats import format_at
from tiduc.dialect.progress import during
from tiduc.models.constants import lift
from tiduc.models.legalize import legalize
from tiduc.models.model import Model, model_of
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.runtime.arrays import Array
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import Died, Worker


@dataclass(frozen=True)
class ModelFileOptions:
    """The options of `import_model`, which apply to all importers or to some of them.

    `sizes`, `constants` and `straight_through` apply to ONNX models, `trust` and `cached` to `.pt2` files, and `entry`
    to MLIR files.
    """

    lift_constants: bool
    sizes: Mapping[str, int]
    constants: Mapping[str, Array]
    straight_through: bool
    trust: bool
    limits: Limits | None
    entry: str | None
    cached: bool


@during("import_model")
def import_model(
    path: str | Path,
    *,
    lift_constants: bool = False,
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    straight_through: bool = False,
    trust: bool = False,
    isolated: bool = False,
    limits: Limits | None = None,
    opset: OpSet = OPSET,
    entry: str | None = None,
    cached: bool = True,
) -> Model:
    """The model in a file of ONNX (`.onnx`), `torch.export` (`.pt2`), `jax.export` (`.jaxexport`) or MLIR (`.mlir`).

    With `lift_constants`, the weights of the model are inputs. For an ONNX model, `sizes` sets dynamic dimensions by
    name, and `constants` gives the values of inputs by name, which are then removed from the program. With
    `straight_through`, roundings in an ONNX model's quantizations have derivative one. Without `trust`, no code in a
    `.pt2` file is executed. With `isolated`, a separate process reads the file, within `limits`; otherwise only
    torch-mlir's pipelines run in a separate process. For an MLIR file, `opset` holds the derivative rules, `entry`
    names the function, and the file may have ops of the opset's dialects. `cached` says whether the program of a `.pt2`
    file may come from the cache of an earlier import. Raises `RequestError` for another suffix, for `isolated` with an
    `opset` of your own, and for an `entry` with a file that is not MLIR. Also raises the errors of the importer.
    """
    options = ModelFileOptions(
        lift_constants, sizes or {}, constants or {}, straight_through, trust, limits, entry, cached
    )
    if not isolated:
        return _imported(path, options, opset)
    if opset is not OPSET:
        raise RequestError("a separate process cannot use rules of your own", str(path))
    with Worker() as worker:
        try:
            return worker.call(_imported, limits or Limits(), path, options)
        except Died as died:
            raise ParseError(f"reading {died}", str(path)) from None


def _imported(path: str | Path, options: ModelFileOptions, opset: OpSet = OPSET) -> Model:
    suffix = Path(path).suffix.lower()
    importer = _IMPORTERS.get(suffix)
    if importer is None:
        if known := format_at(str(path)):
            raise RequestError(known.message(), str(path))
        raise RequestError(
            f"unknown kind of file: models are read from files {', '.join(_IMPORTERS)}", str(path)
        )
    for option, given in (("sizes", options.sizes), ("constants", options.constants)):
        if given and suffix != ".onnx":
            raise RequestError(f"{option} can be set by name for ONNX models only", str(path))
    if options.straight_through and suffix != ".onnx":
        raise RequestError("straight_through is an option of ONNX models", str(path))
    try:
        if importer is _mlir:
            return _mlir(path, options, opset)
        if options.entry is not None:
            raise RequestError("the option entry is for MLIR files only", str(path))
        return importer(path, options)
    except UnicodeDecodeError:  # protobuf decodes a name at its first use
        raise ParseError("a name is not UTF-8 text", str(path)) from None


def _onnx(path: str | Path, options: ModelFileOptions) -> Model:
    from tiduc.models.from_onnx import from_onnx

    return from_onnx(
        path,
        lift_constants=options.lift_constants,
        sizes=options.sizes,
        constants=options.constants,
        straight_through=options.straight_through,
        limits=options.limits,
    )


def _torch(path: str | Path, options: ModelFileOptions) -> Model:
    from tiduc.models.from_torch import from_torch

    return from_torch(
        path,
        lift_constants=options.lift_constants,
        trust=options.trust,
        limits=options.limits,
        cached=options.cached,
    )


def _jax(path: str | Path, options: ModelFileOptions) -> Model:
    from tiduc.models.from_jax import from_jax_export

    return from_jax_export(Path(path), lift_constants=options.lift_constants)


def _mlir(path: str | Path, options: ModelFileOptions, opset: OpSet = OPSET) -> Model:
    module, entry = read(path, opset.dialects), options.entry
    legalize(module, opset.dialects)
    return model_of(module, lift(module, entry) if options.lift_constants else {}, entry, opset)


_IMPORTERS: dict[str, Callable[[str | Path, ModelFileOptions], Model]] = {
    ".onnx": _onnx,
    ".pt2": _torch,
    ".jaxexport": _jax,
    ".mlir": _mlir,
    ".mlirbc": _mlir,
}
"""Maps a suffix to its importer. An importer imports the package of its framework when it is called."""
