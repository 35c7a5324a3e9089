"""shard: annotates the inputs of a program with Shardy's attributes. The engine `xla` propagates these attributes.

shard(program, {"data": 4, "model": 2}, {"x": ["data"], "w": [None, "model"]})
"""

from collections.abc import Mapping, Sequence
from math import prod

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import functions_in, symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import context, stage
from tiduc.dialect.ops import shardy
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.shapes.types import is_complex, is_float
from tiduc.program import Program, from_module
from tiduc.runtime.signature import SignatureValue

MESH = "mesh"
_KEY = "sdy.sharding"

Axes = Sequence[str | None]
"""For each dimension of an array, the mesh axis that splits the dimension, or None if it is not split."""


@stage
def shard(
    program: Program, mesh: Mapping[str, int], shardings: Mapping[str, Axes], fully: str | None = None
) -> Program:
    """Returns a program in which the inputs named in `shardings` are split among the devices of a mesh.

    `mesh` maps each axis to its size, in order. `shardings` maps the name of an input to a list with, for each
    dimension, the axis that splits the dimension, or None. Dimensions beyond the list and other inputs are not split.
    If an output has the name and the shape of an input, it is split in the same way, so that the new state of a
    training step can be the state of the next step. XLA chooses the shardings of all other values.

    `fully` is an axis for fully sharded data parallelism. It also splits each float input that it does not split yet,
    along the largest unsplit dimension that is divisible by the size of the axis. The program gathers such an input
    before it uses the input.

    Raises `RequestError` for an unknown input or axis, an axis that splits two dimensions of an input, a dimension that
    the axis does not divide, a mesh of more than `shardy.MOST_DEVICES` devices, and a program that is sharded already.
    """
    context().allow_unregistered_dialects = True  # permanently, because clones of the module also need it
    ops = operations(program.module.body)
    if shardy.partitions_of(program.module) > 1 or any(op.name == shardy.MESH for op in ops):
        raise RequestError("the program is sharded already")
    if not 1 <= prod(mesh.values()) <= shardy.MOST_DEVICES:
        raise RequestError(f"a mesh has 1 to {shardy.MOST_DEVICES:,} devices, not {prod(mesh.values()):,}")
    inputs = {value.name: value for value in program.signature.inputs}
    for name, axes in shardings.items():
        if name not in inputs:
            raise RequestError(f"there is no input {name!r} to shard; there are: {', '.join(inputs)}")
        _check(name, inputs[name].type.shape, axes, mesh)
    if fully is not None and fully not in mesh:
        raise RequestError(f"there is no axis {fully!r} in the mesh; there are: {', '.join(mesh)}")
    used = {name: _padded(shardings.get(name, ()), value) for name, value in inputs.items()}
    floats = {port.name for port in program.inputs if is_float(port.type) or is_complex(port.type)}
    stored = {
        name: used[name] if fully is None or name not in floats else _fully(used[name], value, fully, mesh)
        for name, value in inputs.items()
    }
    module = ir.Module.create()
    for op in operations(program.module.body):
        module.body.append(op.operation.clone())
    for key, attribute in program.module.operation.attributes.items():
        module.operation.attributes[key] = attribute
    function = next(op for op in functions_in(module) if symbol(op) == program.name)
    _annotate(function, "arg_attrs", list(stored.values()))
    states = [
        stored[value.name]
        if value.name in inputs and inputs[value.name].type.shape == value.type.shape
        else None
        for value in program.signature.outputs
    ]
    if any(axes is not None for axes in states):
        _annotate(function, "res_attrs", states)
    _gather(function, [used[name] if used[name] != stored[name] else None for name in inputs])
    for key, number in ((shardy.PARTITIONS, prod(mesh.values())), ("mhlo.num_replicas", 1)):
        module.operation.attributes[key] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
    _declare(module, mesh)
    return from_module(module, program.name, program.opset)


def _annotate(function: ir.Operation, side: str, axes: Sequence[Axes | None]) -> None:
    """Adds shardings to the attributes of a function's arguments or results. Changes the function in place."""
    given = function.attributes.get(side)
    attributes = list(ir.ArrayAttr(given)) if given is not None else [ir.DictAttr.get({})] * len(axes)
    function.attributes[side] = ir.ArrayAttr.get(
        [
            of
            if split is None
            else ir.DictAttr.get({**named_attributes(ir.DictAttr(of)), _KEY: _attribute(split)})
            for of, split in zip(attributes, axes, strict=True)
        ]
    )


def _gather(function: ir.Operation, axes: Sequence[Axes | None]) -> None:
    """Constrains each argument whose entry in `axes` is not None to this sharding. Changes the function in place.

    All uses of the argument become uses of the constraint's result.
    """
    block = function.regions[0].blocks[0]
    first = block.operations[0].operation
    for argument, split in zip(list(block.arguments), axes, strict=True):
        if split is not None:
            whole = shardy.call(
                shardy.CONSTRAINT, argument, argument.type, {"sharding": _attribute(split)}, first
            )
            argument.replace_all_uses_except(whole, whole.owner.operation)


def _declare(module: ir.Module, mesh: Mapping[str, int]) -> None:
    """Adds an op that declares the mesh to a module, in place."""
    axes = ", ".join(f'"{axis}"={size}' for axis, size in mesh.items())
    attributes = {"sym_name": ir.StringAttr.get(MESH), "mesh": ir.Attribute.parse(f"#sdy.mesh<[{axes}]>")}
    before = ir.InsertionPoint.at_block_begin(module.body)
    ir.Operation.create(shardy.MESH, [], [], attributes, loc=ir.Location.unknown(), ip=before)


def _attribute(axes: Axes) -> ir.Attribute:
    parts = ", ".join("{" + (f'"{axis}"' if axis else "") + "}" for axis in axes)
    return ir.Attribute.parse(f"#sdy.sharding<@{MESH}, [{parts}]>")


def _padded(axes: Axes, value: SignatureValue) -> list[str | None]:
    return [*axes, *[None] * (len(value.type.shape) - len(axes))]


def _fully(
    axes: Sequence[str | None], value: SignatureValue, axis: str, mesh: Mapping[str, int]
) -> list[str | None]:
    """The axes of an input that `axis` also splits, if it can and does not yet."""
    shape = value.type.shape
    free = [
        (size, -i)
        for i, size in enumerate(shape)
        if size is not None and size and axes[i] is None and size % mesh[axis] == 0
    ]
    if not free or axis in axes:
        return list(axes)
    at = -max(free)[1]
    return [axis if i == at else each for i, each in enumerate(axes)]


def _check(name: str, shape: Sequence[int | None], axes: Axes, mesh: Mapping[str, int]) -> None:
    """Raises `RequestError` if the axes cannot split an input of this shape."""
    if len(axes) > len(shape):
        raise RequestError(f"{name} has {len(shape)} dimensions, but its sharding names {len(axes)}")
    used = [axis for axis in axes if axis]
    if len(set(used)) < len(used):
        raise RequestError(f"the sharding of {name} uses an axis twice")
    for size, axis in zip(shape, axes, strict=False):
        if axis and axis not in mesh:
            raise RequestError(f"there is no axis {axis!r} in the mesh; there are: {', '.join(mesh)}")
        if axis and size is not None and size % mesh[axis]:
            raise RequestError(
                f"{mesh[axis]} devices along {axis!r} do not divide a dimension of size {size} of {name}"
            )
