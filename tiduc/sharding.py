"""shard: annotates the inputs of a program with Shardy's attributes; the engine `xla` propagates them.

shard(program, {"data": 4, "model": 2}, {"x": ["data"], "w": [None, "model"]})
"""

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.program import Program, from_module

MESH = "mesh"
_KEY = "sdy.sharding"


@stage
def shard(
    program: Program, mesh: Mapping[str, int], shardings: Mapping[str, Sequence[str | None]]
) -> Program:
    """The program with the inputs named in `shardings` split among the devices of a mesh.

    `mesh` maps each axis to its size, in order. `shardings` lists, for each input, the axis that splits each dimension,
    or None. Further dimensions and other inputs are not split. XLA chooses the shardings of all other values. Raises
    `RequestError` for:

    - an unknown input or axis;
    - an axis that splits two dimensions of an input;
    - a dimension that the axis does not divide;
    - a program that is sharded already.
    """
    module = program.module.operation.clone().operation
    text = str(module)
    if "mhlo.num_partitions = 1 " not in text and "mhlo.num_partitions" in text or "sdy.mesh" in text:
        raise RequestError("the program is sharded already")
    known = {value.name: value.type.shape for value in program.signature.inputs}
    for name, axes in shardings.items():
        if name not in known:
            raise RequestError(f"there is no input {name!r} to shard; there are: {', '.join(known)}")
        _check(name, known[name], axes, mesh)
    function = next(
        op.operation
        for op in module.regions[0].blocks[0].operations
        if op.operation.attributes.get("sym_name") == ir.StringAttr.get(program.name)
    )
    given = function.attributes.get("arg_attrs")
    attributes = list(ir.ArrayAttr(given)) if given is not None else [ir.DictAttr.get({})] * len(known)
    spelled: dict[str, str] = {}
    for i, name in enumerate(known):
        axes = shardings.get(name, ())
        parts = ", ".join(
            "{" + (f'"{axis}"' if axis else "") + "}" for axis in _padded(axes, len(known[name]))
        )
        spelled[f'"tiduc.sharding.{i}"'] = f"#sdy.sharding<@{MESH}, [{parts}]>"
        # The wheel does not have Shardy's dialect, so the attribute is written into the text.
        held = ir.StringAttr.get(f"tiduc.sharding.{i}")
        attributes[i] = ir.DictAttr.get({**named_attributes(ir.DictAttr(attributes[i])), _KEY: held})
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    count = 1
    for size in mesh.values():
        count *= size
    for key, number in (("num_partitions", count), ("num_replicas", 1)):
        module.attributes[f"mhlo.{key}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
    text = str(module)
    for held_text, attribute in spelled.items():
        text = text.replace(held_text, attribute)
    head, body = text.split("\n", 1)
    axes_text = ", ".join(f'"{axis}"={size}' for axis, size in mesh.items())
    return from_module(
        parse(f"{head}\n  sdy.mesh @{MESH} = <[{axes_text}]>\n{body}"), program.name, program.opset
    )


def _padded(axes: Sequence[str | None], rank: int) -> list[str | None]:
    return [*axes, *[None] * (rank - len(axes))]


def _check(
    name: str, shape: Sequence[int | None], axes: Sequence[str | None], mesh: Mapping[str, int]
) -> None:
    """Raises `RequestError` for axes that cannot split an input of this shape."""
    if len(axes) > len(shape):
        raise RequestError(f"{name} has {len(shape)} dimensions, and its sharding names {len(axes)}")
    used = [axis for axis in axes if axis]
    if len(set(used)) < len(used):
        raise RequestError(f"the sharding of {name} uses an axis twice")
    for size, axis in zip(shape, axes, strict=False):
        if axis and axis not in mesh:
            raise RequestError(f"there is no axis {axis!r} in the mesh; there are: {', '.join(mesh)}")
        if axis and size is not None and size % mesh[axis]:
            raise RequestError(
                f"{mesh[axis]} devices along {axis!r} do not divide a dimension of {size} of {name}"
            )
