"""Ports: the arguments and results of a program, with their names, their types, and their values in the graphs."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Protocol, TypeVar

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.attributes import location_name, named_attributes, readable
from tiduc.dialect.ops.verify import FROZEN, HELD, NAME
from tiduc.passes.importing.import_stablehlo import name_in
from tiduc.passes.materialize_merge import Zero
from tiduc.passes.rules.registry import OpSet
from tiduc.runtime.signature import SignatureValue, TensorType

Wrt = Sequence[int | str] | int | str | None
"""The inputs with respect to which a program is differentiated, by position or name.

None means all inputs that have tangents and are not frozen.
"""

_PRINTED = re.compile(r"arg([0-9]{1,9})")


@dataclass(frozen=True)
class Port:
    """An argument or result of a program: its name, its MLIR type, and its attributes in the MLIR signature."""

    name: str
    type: Any
    attributes: ir.Attribute | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class InputPort(Port):
    """An argument of a program, and the key that identifies it in the graphs."""

    key: str


@dataclass(frozen=True)
class OutputPort(Port):
    """A result of a program, and its value in the graphs, or a symbolic `Zero`."""

    value: Value | Zero


P = TypeVar("P", bound=Port)


class Function(Protocol):
    """The properties of `Program` that modules use which `program.py` imports."""

    @property
    def name(self) -> str: ...
    @property
    def view(self) -> View: ...
    @property
    def opset(self) -> OpSet: ...
    @property
    def inputs(self) -> tuple[InputPort, ...]: ...
    @property
    def outputs(self) -> tuple[OutputPort, ...]: ...
    @property
    def beside(self) -> tuple[Any, ...]: ...
    @property
    def loop_memory(self) -> str: ...
    @property
    def memory(self) -> str: ...
    @property
    def merged(self) -> Graph: ...
    @property
    def module(self) -> Any: ...

    def differentiated(self, wrt: Wrt) -> list[InputPort]:
        """The inputs that `wrt` names."""


def smooth(program: Function, ports: Sequence[P]) -> list[P]:
    """The ports whose types have tangents, such as tensors of floats."""
    return [port for port in ports if program.opset.builder.tangent_type(port.type) is not None]


def held_because(port: Port, kinds: Sequence[str] = (FROZEN, HELD)) -> str:
    """The reason why training skips a weight unless the user names the weight. Returns "" if there is no reason.

    `kinds` are the names of the attributes that may have the reason.
    """
    reasons = [port.attributes and readable(ir.DictAttr(port.attributes), kind) for kind in kinds]
    return next((reason.value for reason in reasons if isinstance(reason, ir.StringAttr)), "")


def with_attributes(port: P, more: Mapping[str, ir.Attribute]) -> P:
    """A copy of the port with the additional attributes `more`."""
    own = {} if port.attributes is None else named_attributes(port.attributes)
    return replace(port, attributes=ir.DictAttr.get({**own, **more}))


def differentiated(program: Function, wrt: Wrt) -> list[InputPort]:
    """The inputs that `wrt` names. Raises `RequestError` for an unknown, repeated or nondifferentiable input.

    If `wrt` is None, returns all inputs that have tangents and are not frozen. Raises `RequestError` if all inputs with
    tangents are frozen.
    """
    if wrt is None:
        able = smooth(program, program.inputs)
        free = [port for port in able if not held_because(port, (FROZEN,))]
        if able and not free:
            listed = ", ".join(f"{port.name} ({held_because(port)})" for port in able)
            raise RequestError(f"name inputs in wrt, because all of them are frozen: {listed}")
        return free
    wrt = wrt if isinstance(wrt, str) or not isinstance(wrt, Iterable) else list(wrt)
    if (name := _constant_in(program, wrt)) is not None:
        raise RequestError(
            f"{name!r} in wrt is a constant of the program; import the model with its weights as inputs: "
            "lift_constants=True in Python, --lift-constants on the command line"
        )
    ports = select_ports(program.inputs, wrt)
    for port in ports:
        if program.opset.builder.tangent_type(port.type) is None:
            raise RequestError(f"input {port.name!r} of type {port.type} has no derivative")
    return ports


def _constant_in(program: Function, wrt: Wrt) -> str | None:
    """The first name in `wrt` that is the name of a constant, such as a weight, and not of an input.

    Returns None if there is no such name.
    """
    inputs = {port.name for port in program.inputs}
    entries = [wrt] if isinstance(wrt, str) else wrt if isinstance(wrt, Iterable) else ()
    unknown = [entry for entry in entries if isinstance(entry, str) and entry not in inputs]
    if not unknown:
        return None
    places = [
        op.location for op in program.view.graph(program.name).definitions if op.name == "stablehlo.constant"
    ]
    constants = {location_name(place) for place in places if isinstance(place, ir.NameLoc)}
    return next((name for name in unknown if name in constants), None)


def described(port: Port) -> SignatureValue:
    """The name and the array type of a port. Raises `RequestError` if the port's type is not that of an array."""
    spelled = str(port.type)
    try:
        # After a comma, the type may have an encoding, such as the bounds of dynamic dimensions.
        return SignatureValue(
            port.name, TensorType.parse(spelled.removeprefix("tensor<").removesuffix(">").split(",")[0])
        )
    except ValueError:
        raise RequestError(f"{port.name!r} of type {spelled} cannot be passed as an array") from None


def shown(ports: Sequence[Port]) -> str:
    """The ports as a text in parentheses, for a signature. A port that is not an array is shown with its MLIR type."""

    def one(port: Port) -> str:
        try:
            return str(described(port))
        except RequestError:
            return f"{port.name}: {port.type}"

    return f"({', '.join(map(one, ports))})"


def select_ports(ports: Sequence[P], wrt: object) -> list[P]:
    """The ports that `wrt` selects. `wrt` is a position, a name, or a list of positions and names.

    If no port has the name `argN`, which MLIR prints for arguments without a name, it selects the port at position N.
    Raises `RequestError` for unknown or repeated ports.
    """
    if isinstance(wrt, str | Integral):
        entries: Iterable[object] = [wrt]
    elif isinstance(wrt, Iterable):
        entries = wrt
    else:
        raise RequestError(f"wrt is a position, a name, or a list of these, not {wrt!r}")
    named, selected = {port.name: port for port in ports}, {}
    for entry in entries:
        port = named.get(entry) if isinstance(entry, str) else None
        position = _position(entry)
        if port is None and position is not None:
            port = ports[position] if 0 <= position < len(ports) else None
        if port is None:
            names = ", ".join(f"{i}: {port.name}" for i, port in enumerate(ports))
            raise RequestError(f"unknown input {entry!r} in wrt; the inputs are {names or 'none'}")
        if port.name in selected:
            raise RequestError(f"input {port.name!r} is given twice in wrt")
        selected[port.name] = port
    return list(selected.values())


def _position(entry: object) -> int | None:
    """The position that an entry of `wrt` gives as a number or as `argN`. Returns None for other entries."""
    if isinstance(entry, Integral) and not isinstance(entry, bool):
        return int(entry)
    printed = _PRINTED.fullmatch(entry) if isinstance(entry, str) else None
    return int(printed[1]) if printed else None


def with_ports(ports: Sequence[P], more: Sequence[P]) -> tuple[P, ...]:
    """The ports followed by `more`. If a name in `more` is already in use, a number is appended to it."""
    names = {port.name for port in ports}
    added = []
    for port in more:
        name, copy = port.name, 1
        while name in names:
            copy += 1
            name = f"{port.name}.{copy}"
        names.add(name)
        added.append(replace(port, name=name))
    return (*ports, *added)


ALIASED = "tf.aliasing_output"
"""The attribute of a donated argument. Its value is the index of the output that may reuse the argument's buffer."""


def attributes_of(ports: Sequence[Port], default: str, same: Collection[int] = ()) -> ir.ArrayAttr:
    """The attributes of each port, including its name unless the name is the default, such as `arg0`.

    `same` has the positions of outputs that are also outputs of the source program. The attribute `ALIASED` of a port
    is dropped if it refers to another output.
    """
    described = []
    for i, port in enumerate(ports):
        attributes = named_attributes(port.attributes) if port.attributes is not None else {}
        if ALIASED in attributes and attributes[ALIASED].value not in same:
            del attributes[ALIASED]
        if port.name != f"{default}{i}":
            attributes[NAME] = ir.StringAttr.get(port.name)
        described.append(ir.DictAttr.get(attributes))
    return ir.ArrayAttr.get(described)


def ports_of(graph: Graph) -> tuple[tuple[InputPort, ...], tuple[OutputPort, ...]]:
    """The inputs and outputs of an imported graph, with the names and attributes of the function."""
    results = [y for y in graph.outputs if y is not None]
    arg_attrs = graph.attributes.get("arg_attrs") or [None] * len(graph.inputs)
    res_attrs = graph.attributes.get("res_attrs") or [None] * len(results)
    inputs = [
        InputPort(key, x.type, key, attributes=attributes)
        for (key, x), attributes in zip(graph.inputs.items(), arg_attrs, strict=True)
    ]
    outputs = [
        OutputPort(result_name(attributes, i, graph.location), x.type, x, attributes=attributes)
        for i, (x, attributes) in enumerate(zip(results, res_attrs, strict=True))
    ]
    return with_ports((), inputs), with_ports((), outputs)


def result_name(attributes: ir.DictAttr | None, position: int, location: ir.Location) -> str:
    """The name of a result: its `tidu.name`, otherwise JAX's path in `jax.result_info`, otherwise `resultN`.

    JAX's path for the entry "loss" of a dictionary is `result['loss']`. A path without names, such as `result[0]`, is
    not used, because it only repeats the position.
    """
    default = f"result{position}"
    if attributes is None:
        return default
    if NAME in ir.DictAttr(attributes):
        return name_in(attributes, location) or default
    path = readable(ir.DictAttr(attributes), "jax.result_info")
    if not isinstance(path, ir.StringAttr) or not re.search(r"[\['.][A-Za-z_]", path.value):
        return default
    return f"result{path.value.removeprefix('result')}"
