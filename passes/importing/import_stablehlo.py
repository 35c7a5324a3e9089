"""import: converts `func.func`s of StableHLO and CHLO to primal `tidu.graph`s.

    func.func @main(%a: T, %x: T) -> T {       "tidu.graph"() ({ ^bb0(%a: T, %x: T):
      %0 = stablehlo.multiply %a, %x      ->     %0 = stablehlo.multiply %a, %x
      return %0                                  stablehlo.return %0
    }                                          }) {sym_name = "main", inputs = [@a, @x]}

A pass of StableHLO turns composites without a rule into calls. Calls are inlined or become calls of graphs
(`calls.py`), scans become loops (`scans.py`), and functions named `relu` get a relu's derivative (`relus.py`). Each
public function becomes a graph. Any other function that is still called becomes a private graph. An input's key is its
`tidu.name` attribute, else the name in its location, else `argN`. JAX writes names into locations, and the parser takes
them from the text. All attributes of the module, functions, arguments, results and ops are kept.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from torch_mlir import ir

from tiduc.dialect.dynamic.calls import mark_sums
from tiduc.dialect.errors import ParseError, Unsupported
from tiduc.dialect.graph.functions import symbol, within
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.tuples import flatten_tuples
from tiduc.dialect.mlir.context import run_passes, stage
from tiduc.dialect.ops.attributes import location_name, readable
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, GRAPHS
from tiduc.dialect.ops.ir_types import AnyModule, IrOp
from tiduc.dialect.ops.verify import ACTIVE, ACTIVE_OUTPUTS, INPUT_OF, NAME, OUTPUT_OF, TERMINATOR
from tiduc.passes.importing.calls import convert_calls
from tiduc.passes.importing.constraints import CONSTRAINTS, check_constraints
from tiduc.passes.importing.equal_values import set_equal_within
from tiduc.passes.importing.own_derivatives import keep_functions
from tiduc.passes.importing.relus import mark_every_relu, mark_relus
from tiduc.passes.importing.rng import RNG, expand_rng, refuse_rng
from tiduc.passes.importing.scans import SCAN, expand_scans
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

_OWN = ("sym_name", "function_type", "sym_visibility")
_OF_GRAPHS = {INPUT_OF, OUTPUT_OF, ACTIVE_OUTPUTS}
"""Attributes that have a meaning only on graphs. If a function has one of them, import verifies the new graph."""

_COMPOSITE = "stablehlo.composite"
_NAMING = (CUSTOM_CALL, _COMPOSITE)
"""Ops that name functions in attributes, but are not `func.call`."""

_CALLING = {"func.call", _COMPOSITE, SCAN}
"""`func.call`, and ops that become such calls."""

_CHECKED = {*CONSTRAINTS, *_NAMING, *_CALLING, RNG}
"""Ops that import checks or replaces. They are collected in a single walk, because a walk calls Python for every op."""


@stage
def import_stablehlo(
    module: AnyModule,
    only: str | None = None,
    opset: OpSet = OPSET,
    inline: bool = False,
    relu: bool = False,
    equal_within: float | None = None,
) -> Any:
    """Returns a new module with a graph for each public function. `module` is not changed.

    Functions that custom calls and composites name stay functions. `only` names the single function to import, public
    or not. `opset` says which composites have a rule. With `inline`, every call that may be inlined is inlined. With
    `relu`, each maximum of a value and 0 gets the derivative of a relu. Eigenvalues or singular values count as equal
    if they differ by at most `equal_within` units in the last place of the largest one. Raises `Unsupported` for a
    function that has several blocks or is recursive.
    """
    imported = clone(module)
    names = _check_ops(imported)
    derivatives = keep_functions(imported, opset)
    kept = ",".join(opset.called(_COMPOSITE))
    run_passes(
        imported.operation,
        f"builtin.module(func.func(stablehlo-legalize-composite-to-call{{except={kept}}}))",
    )
    if SCAN in names:
        expand_scans(imported)
    symbols = list(operations(imported.body))
    functions = {symbol(op): op for op in symbols if op.name == "func.func"}
    mark_relus(functions)
    if relu:
        mark_every_relu(imported)
    if equal_within is not None:
        set_equal_within(imported, equal_within)
    named = set() if names.isdisjoint(_NAMING) else _named_by_ops(symbols) & functions.keys()
    roots = [name for name, op in functions.items() if _is_root(name, op, only)]
    called = list(derivatives)
    if derivatives or not names.isdisjoint(_CALLING):
        convert_calls(functions, sorted(named), inline=True)
        called += convert_calls(functions, [*roots, *derivatives], inline)
    if RNG in names:
        _expand_draws(symbols, functions, roots, {*called, *named})
    for name, op in functions.items():
        if name in named:
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
            continue
        if name in roots or name in called:
            _to_graph(op, is_private=name not in roots)
        op.erase()
    return imported


def _check_ops(module: ir.Module) -> set[str]:
    """Checks the ops in `_CHECKED`, flattens tuples, and marks sums over dynamic windows. Returns the ops' names."""
    ops = flatten_tuples(within(module.operation, _CHECKED))
    mark_sums(module, ops)
    check_constraints(ops)
    return {op.name for op in ops}


def _expand_draws(
    symbols: Iterable[ir.Operation],
    functions: Mapping[str, ir.Operation],
    roots: Collection[str],
    kept: Collection[str],
) -> None:
    """Expands the `rng` ops of the functions `roots`, except those in `kept`.

    Raises `Unsupported` if a graph or a function in `kept` has an `rng`, because it cannot take a seed.
    """
    for op in symbols:
        if op.name == "tidu.graph" or symbol(op) in kept:
            refuse_rng(op)
    for name in roots:
        if name not in kept:
            expand_rng(functions[name])


def _is_root(name: str, function: IrOp, only: str | None) -> bool:
    if not len(function.regions[0].blocks):
        return False
    visibility = function.attributes.get("sym_visibility")
    return only == name or (
        only is None and (visibility is None or ir.StringAttr(visibility).value == "public")
    )


def _named_by_ops(symbols: Iterable[IrOp]) -> set[str]:
    """The names of the functions that custom calls and composites name."""
    names: set[str] = set()
    for op in (op for each in symbols for op in within(each, _NAMING)):
        if op.name == _COMPOSITE:
            names.add(op.attributes["decomposition"].value)
        elif GRAPHS in op.attributes:
            names.update(callee.value for callee in op.attributes[GRAPHS])
    return names


def clone(module: AnyModule) -> ir.Module:
    """A copy of a module."""
    copy = ir.Module.create(loc=module.operation.location)
    for attribute in module.operation.attributes:
        copy.operation.attributes[attribute] = module.operation.attributes[attribute]
    ip = ir.InsertionPoint(copy.body)
    for op in operations(module.body):
        op.clone(ip)
    return copy


def _to_graph(function: IrOp, is_private: bool) -> None:
    """Creates the graph of a function in front of the function, and moves the function's body into the graph."""
    if len(function.regions[0].blocks) != 1:
        raise Unsupported("a function of several blocks cannot be differentiated", function.location)
    block = function.regions[0].blocks[0]
    name = function.attributes["sym_name"]
    if is_private:  # the program's inputs may have the same names, but keys must differ
        keys = [f"{name.value}.{i}" for i in range(len(block.arguments))]
    else:
        keys = _keys(block, function.attributes.get("arg_attrs"))
    attributes = {name: function.attributes[name] for name in function.attributes if name not in _OWN}
    attributes["sym_name"] = name
    if is_private:
        attributes["sym_visibility"] = ir.StringAttr.get("private")
    attributes["inputs"] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(key) for key in keys])
    graph = ir.Operation.create(
        "tidu.graph", attributes=attributes, regions=1, loc=function.location, ip=ir.InsertionPoint(function)
    )
    block.append_to(graph.regions[0])
    is_checked = not _OF_GRAPHS.isdisjoint(attributes)
    for op in operations(block):
        if op.name == "func.return":
            returned, ip = list(op.operands), ir.InsertionPoint(op)
            end = ir.Operation.create(TERMINATOR, operands=returned, loc=op.location, ip=ip)
            op.erase()
            end.verify()  # a function may return types that StableHLO ops may not take
        elif ACTIVE in op.attributes:
            is_checked = True
    if is_checked:
        graph.verify()


def _keys(block: ir.Block, arg_attrs: ir.Attribute | None) -> list[str]:
    """A distinct key for each argument."""
    keys: dict[str, None] = {}
    given = None if arg_attrs is None else ir.ArrayAttr(arg_attrs)
    for i, argument in enumerate(block.arguments):
        key = f"arg{i}"
        if given is not None and NAME in ir.DictAttr(given[i]):
            key = name_in(ir.DictAttr(given[i]), argument.location)
        elif isinstance(argument.location, ir.NameLoc):
            key = location_name(argument.location)
        if not key:
            raise ParseError(f"argument {i} has an empty name", argument.location)
        base, copy = key, 1
        while key in keys:
            copy += 1
            key = f"{base}.{copy}"
        keys[key] = None
    return list(keys)


def name_in(attributes: ir.DictAttr, location: ir.Location) -> str:
    """The `tidu.name` among an argument's or a result's attributes; raises `ParseError` if it is not a string."""
    name = readable(ir.DictAttr(attributes), NAME)
    if not isinstance(name, ir.StringAttr):
        raise ParseError(f"expects a string as {NAME}", location)
    return str(name.value)
