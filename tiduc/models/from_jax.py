"""Imports JAX functions by way of `jax.export`."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch_mlir import ir

from tiduc.dialect.attributes import named_attributes
from tiduc.dialect.context import parse, stage
from tiduc.dialect.errors import ParseError, TiducError, Unsupported
from tiduc.dialect.verify import NAME
from tiduc.models.constants import entry_of, lift
from tiduc.models.model import Model, model_of


def from_jax(
    function: Callable[..., Any], *example: Any, lift_constants: bool = False, **keywords: Any
) -> Model:
    """The program of a function, traced on example arguments: arrays, pytrees of arrays, or `jax.ShapeDtypeStruct`s.

    The inputs are the leaves of the arguments, with names such as `params['w']`. With `lift_constants`,
    arrays that the function closes over are inputs too, before the others. `TiducError` where JAX cannot
    trace the function.
    """
    jax = _jax()
    jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    try:
        exported = jax.export.export(jitted)(*example, **keywords)
    except Exception as error:  # raised by the function itself, or by tracing
        raise TiducError(f"JAX cannot export the function: {_line(error)}") from error
    return _model(exported, _names(jax, function, example, keywords), lift_constants)


def from_jax_export(source: bytes | bytearray | str | Path, *, lift_constants: bool = False) -> Model:
    """The program in a `jax.export` serialization, or in a file of one; inputs are named by their position.

    `ParseError` where the bytes are not a JAX export.
    """
    jax = _jax()
    try:
        data = Path(source).read_bytes() if isinstance(source, str | Path) else source
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(source)) from None
    file = str(source) if isinstance(source, str | Path) else None
    try:
        exported = jax.export.deserialize(bytearray(data))
        args, keywords = jax.tree.unflatten(exported.in_tree, range(len(exported.in_avals)))
        names = _names(jax, None, args, keywords)
    except Exception as error:  # raised by flatbuffers or JAX
        raise ParseError(f"not a serialized export of JAX: {_line(error)}", file) from error
    return _model(exported, names, lift_constants)


def _jax() -> Any:
    try:
        import jax
        import jax.export
    except ImportError:
        raise TiducError("functions of JAX need it: pip install 'tiduc[jax]'") from None
    return jax


def _names(jax: Any, function: Any, args: Any, keywords: Any) -> list[str]:
    """The name of each leaf: its parameter's name and its path within the argument."""
    parameters = _parameters(function, len(args))
    leaves, _ = jax.tree_util.tree_flatten_with_path((tuple(args), dict(keywords)))
    names = []
    for (_, first, *rest), _ in leaves:
        base = parameters[first.idx] if hasattr(first, "idx") else first.key
        names.append(base + jax.tree_util.keystr(rest))
    return names


def _parameters(function: Any, count: int) -> list[str]:
    """The names of the function's positional parameters, one for each of `count` arguments."""
    named: list[str] = []
    try:
        parameters = inspect.signature(function).parameters.values() if function is not None else ()
    except (TypeError, ValueError):  # built-in functions have no signature
        parameters = ()
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            named.append(parameter.name)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            named += [f"{parameter.name}[{i}]" for i in range(count - len(named))]
    return [*named, *(f"arg{i}" for i in range(len(named), count))]


@stage
def _model(exported: Any, names: list[str], lift_constants: bool) -> Model:
    module = _parsed(exported)
    function = entry_of(module)
    if len(names) != len(exported.in_avals) or not set(exported.module_kept_var_idx) <= set(
        range(len(names))
    ):
        raise Unsupported("the export's arguments are not its function's inputs")
    if len(exported.ordered_effects) or len(function.regions[0].blocks[0].arguments) != len(
        exported.module_kept_var_idx
    ):
        raise Unsupported(
            "a function with side effects, or with sizes as arguments, cannot be differentiated"
        )
    kept = [names[i] for i in exported.module_kept_var_idx]
    before = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else None
    attributes = []
    for i, name in enumerate(kept):
        own = named_attributes(before[i]) if before is not None else {}
        attributes.append(ir.DictAttr.get(own | {NAME: ir.StringAttr.get(name)}))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    weights = lift(module) if lift_constants else {}
    return model_of(module, weights)


def _parsed(exported: Any) -> Any:
    """The export's module; parsed as text where calls carry Shardy attributes (LAPACK), which bytecode hides."""
    try:
        return parse(exported.mlir_module_serialized)
    except ParseError as error:
        try:
            text = exported.mlir_module()
        except Exception:  # JAX cannot read the bytes either
            raise error from None
        return parse(text)


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
