"""drop_shardings: removes shardings from a program, because an IREE module runs on one device.

    sdy.mesh @mesh = <["d"=2]>                                          (removed)
    %1 = sdy.sharding_constraint %0 <@mesh, [{"d"}]>   ->   uses of %1 read %0
    %x: tensor<4xf32> {sdy.sharding = ...}             ->   %x: tensor<4xf32>

A program with shardings is a program on whole arrays, and its values do not depend on the shardings.
"""

from torch_mlir import ir

from tiduc.backends.iree.fault import missing
from tiduc.dialect.graph.functions import functions_in, replace, within
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.shardy import CONSTRAINT, MESH, RESHARD

_ATTRIBUTES = ("sdy.sharding", "sdy.sharding_rule")
"""Shardy's attributes of ops."""


@missing("IREE does not know meshes of devices; tiduc drops them, since a module runs on one device.", "mesh")
@missing(
    "IREE crashes on sharding constraints; tiduc drops them, since a module runs on one device.", "constraint"
)
def drop_shardings(module: ir.Module | IrOp) -> None:
    """Removes Shardy's meshes, constraints and attributes from a module, in place.

    Manual computations stay, because their values depend on the number of devices.
    """
    for op in within(module.operation):
        if op.name in (CONSTRAINT, RESHARD):
            replace(op, list(op.operands))
        elif op.name == MESH:
            op.erase()
        else:
            for name in _ATTRIBUTES:
                if name in op.attributes:
                    del op.attributes[name]
    for function in functions_in(module):
        for side in ("arg_attrs", "res_attrs"):
            if side in function.attributes:
                every = [_others(attributes) for attributes in ir.ArrayAttr(function.attributes[side])]
                function.attributes[side] = ir.ArrayAttr.get(every)


def _others(attributes: ir.Attribute) -> ir.DictAttr:
    """The attributes of an argument or a result that are not Shardy's."""
    own = named_attributes(attributes)
    return ir.DictAttr.get({name: value for name, value in own.items() if name not in _ATTRIBUTES})
