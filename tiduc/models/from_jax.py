"""Imports JAX functions by way of `jax.export`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError, RequestError, TiducError, Unsupported, first_line
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.ops.attributes import location_name, named_attributes
from tiduc.dialect.ops.verify import NAME
from tiduc.linking import link
from tiduc.models.constants import entry_of, lift
from tiduc.models.expansions import Expansion, expand_calls
from tiduc.models.jax.callbacks import Callbacks
from tiduc.models.jax.dependence import calls_that_depend
from tiduc.models.jax.derivatives import LEVELS, OwnDerivatives
from tiduc.models.jax.export import Export, read_export
from tiduc.models.jax.lowerings import disabled_checks, expansions, keeps_stops, lowering_rules
from tiduc.models.jax.naming import OwnDerivative, name_derivatives
from tiduc.models.jax.static import without_static_leaves
from tiduc.models.model import Model, model_of

if TYPE_CHECKING:
    import jax


_RULES = "_override_lowering_rules"
"""The parameter of `jax.export.export` for lowering rules. If JAX renames it, exports expand functions of CHLO."""


def from_jax(
    function: "Callable[..., object] | jax.stages.Lowered | jax.export.Exported",
    *example: object,
    lift_constants: bool = False,
    custom_derivatives: bool | int = True,
    **keywords: object,
) -> Model:
    """The program of a function, traced on example arguments: arrays, pytrees of arrays, or `jax.ShapeDtypeStruct`s.

    The inputs are the leaves of the arguments, with names such as `params['w']`. Leaves that JAX cannot trace, such as
    the functions in a module of equinox, are constants. With `lift_constants`, arrays that the function closes over are
    inputs, too; they are the first inputs. Functions with `jax.custom_jvp` or `jax.custom_vjp` keep these derivatives.
    `custom_derivatives` may be the highest order of kept derivatives. If it is False, the ops of the functions are
    differentiated. `function` may also be a `Lowered` or an `Exported`, which contain no custom derivatives. Raises
    `TiducError` if JAX cannot trace the function, and `Unsupported` if a solver reads a traced array of an outer
    function.
    """
    jax = _jax()
    if isinstance(function, jax.stages.Lowered | jax.export.Exported):
        if example or keywords:
            raise RequestError(f"{type(function).__name__} is traced already and takes no example arguments")
        return _model(_traced(jax, function), lift_constants, names_of_module=True)
    traced, example, keywords = without_static_leaves(jax, function, example, keywords)
    is_jitted = traced is function and hasattr(function, "trace")  # equinox's filter_jit has only `lower`
    jitted: Any = traced if is_jitted else jax.jit(traced, keep_unused=True)
    own = OwnDerivatives(jax, LEVELS if custom_derivatives is True else int(custom_derivatives))
    callbacks = Callbacks()
    exported = _exported(jax, jitted, example, keywords, own, callbacks)
    derivatives = {}
    for derivative in own.collected:  # the export of a derivative may add further derivatives to the list
        if own.is_closed(derivative):
            traced = jax.jit(derivative.function, keep_unused=True)
            derivatives[derivative] = _exported(
                jax, traced, derivative.arguments, {}, own, callbacks, derivative
            )
    callbacks.warn()
    stored = Export(
        module=exported.mlir_module_serialized,
        arguments=_names(jax, function, example, keywords),
        results=[""] * len(exported.out_avals),
        kept=list(exported.module_kept_var_idx),
        has_effects=bool(exported.ordered_effects),
    )
    modules = {derivative: export.mlir_module_serialized for derivative, export in derivatives.items()}
    return _model(stored, lift_constants, expand=expansions(jax), derivatives=modules)


def _traced(jax: ModuleType, program: "jax.stages.Lowered | jax.export.Exported") -> Export:
    """The module of a program that JAX has lowered or exported, with the names of inputs and outputs."""
    args, keywords = jax.tree_util.tree_unflatten(program.in_tree, range(program.in_tree.num_leaves))
    names, results = _names(jax, None, args, keywords), [""] * program.out_tree.num_leaves
    if isinstance(program, jax.export.Exported):
        kept = list(program.module_kept_var_idx)
        return Export(program.mlir_module_serialized, names, results, kept, bool(program.ordered_effects))
    return Export(program.as_text(debug_info=True).encode(), names, results, None, has_effects=False)


def _exported(
    jax: ModuleType,
    jitted: "jax.stages.Wrapped",
    example: Sequence[object],
    keywords: Mapping[str, object],
    own: OwnDerivatives,
    callbacks: Callbacks,
    derivative: OwnDerivative | None = None,
) -> Any:
    """Exports a function by JAX. `own` collects the custom derivatives of functions that this function calls."""
    settings: dict[str, Any] = {}
    try:
        if _RULES in inspect.signature(jax.export.export).parameters:
            closed = jitted.trace(*example, **keywords).jaxpr
            if len(closed.jaxpr.invars) != len(jax.tree_util.tree_leaves((example, keywords))):
                raise RequestError(
                    "the function reads an array that JAX traces in an outer function; make the array an argument"
                )
            rules = lowering_rules(jax, keeps_stops(closed))
            level, first = (derivative.level, derivative.first_tangent) if derivative else (0, None)
            linear = set() if first is None else calls_that_depend(closed, first)
            settings[_RULES] = rules + own.lowering_rules(level, linear) + callbacks.lowering_rules(jax)
            settings["disabled_checks"] = disabled_checks(jax)
        return jax.export.export(jitted, **settings)(*example, **keywords)
    except TiducError:
        raise
    except Exception as error:  # raised by the function itself, or by tracing
        raise TiducError(f"JAX cannot export the function: {first_line(error)}") from error


def from_jax_export(source: bytes | bytearray | str | Path, *, lift_constants: bool = False) -> Model:
    """Reads a program that `jax.export` serialized, from bytes or from a file. JAX need not be installed.

    The names of inputs are those that the module stores. If it stores no name for an input, the name is the path of the
    argument, such as `arg0['w']`. Raises `ParseError` if the bytes are not a JAX export.
    """
    try:
        data = Path(source).read_bytes() if isinstance(source, str | Path) else bytes(source)
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(source)) from None
    file = str(source) if isinstance(source, str | Path) else None
    return _model(read_export(data, file), lift_constants, file, names_of_module=True)


def _jax() -> Any:
    try:
        import jax
        import jax.export
    except ImportError:
        raise TiducError("importing functions of JAX requires JAX: pip install 'tiduc[jax]'") from None
    return jax


def _names(
    jax: ModuleType,
    function: Callable[..., object] | None,
    args: Sequence[object],
    keywords: Mapping[str, object],
) -> list[str]:
    """The name of each leaf of the arguments: the name of the parameter, followed by the path to the leaf."""
    parameters = _parameters(function, len(args))
    leaves, _ = jax.tree_util.tree_flatten_with_path((tuple(args), dict(keywords)))
    names = []
    for (_, first, *rest), _ in leaves:
        base = parameters[first.idx] if hasattr(first, "idx") else first.key
        names.append(base + jax.tree_util.keystr(rest))
    return names


def _parameters(function: Callable[..., object] | None, count: int) -> list[str]:
    """The names of the function's first `count` positional arguments."""
    named: list[str] = []
    try:
        parameters = list(inspect.signature(function).parameters.values()) if function is not None else []
    except (TypeError, ValueError):  # built-in functions have no signature
        parameters = []
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            named.append(parameter.name)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            named += [f"{parameter.name}[{i}]" for i in range(count - len(named))]
    return [*named, *(f"arg{i}" for i in range(len(named), count))]


@stage
def _model(
    export: Export,
    lift_constants: bool,
    file: str | None = None,
    names_of_module: bool = False,
    expand: Mapping[str, Expansion] | None = None,
    derivatives: Mapping[OwnDerivative, bytes] | None = None,
) -> Model:
    """The model of an export. Each custom call named in `expand` is replaced by its expansion.

    With `names_of_module`, names in the locations of the module take precedence over the names in `export`.
    """
    module = parse(export.module, file)
    if derivatives:
        module = _with_derivatives(module, derivatives)
    if expand:
        expand_calls(module, expand)
    function = entry_of(module)
    arguments = list(function.regions[0].blocks[0].arguments)
    kept = list(range(len(arguments))) if export.kept is None else export.kept
    if export.has_effects or len(arguments) != len(kept):
        raise Unsupported(
            "a function with side effects, or with sizes as arguments, cannot be differentiated", file
        )
    results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
    if len(results) != len(export.results):
        raise ParseError("the results of the export differ from those of its module", file)
    before = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else None
    attributes = []
    for i, (number, argument) in enumerate(zip(kept, arguments, strict=True)):
        own = named_attributes(before[i]) if before is not None else {}
        is_named = names_of_module and isinstance(argument.location, ir.NameLoc)
        name = location_name(argument.location) if is_named else export.arguments[number]
        attributes.append(ir.DictAttr.get(own | {NAME: ir.StringAttr.get(name)}))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    weights = lift(module) if lift_constants else {}
    return model_of(module, weights)


def _with_derivatives(module: ir.Module, derivatives: Mapping[OwnDerivative, bytes]) -> Any:
    """Links the module with the modules in `derivatives`, which compute derivatives of the module's functions."""
    modules = [("", module)]
    for own, contents in derivatives.items():
        modules.append((own.name, parse(contents)))
        ir.SymbolTable.set_symbol_name(entry_of(modules[-1][1]), own.name)
    linked = link(modules)
    name_derivatives(linked, list(derivatives))
    return linked
