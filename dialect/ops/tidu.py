"""The `tidu` dialect: ops for graphs, for references between graphs, and for names of values.

The dialect is defined by means of the bindings' module `ext`. Its ops are therefore registered, and are verified when
they are parsed. Graphs contain ops of StableHLO and CHLO. `verify.py` verifies the `tidu` ops within one graph, and
`passes/resolve.py` checks the references between graphs.

    "tidu.graph"() <{...}> ({
    ^bb0(%x: tensor<f64>, %a: tensor<f64>):
      %0 = stablehlo.multiply %a, %x : tensor<f64>
      "tidu.name"(%0) {sym_name = "p2"} : (tensor<f64>) -> ()
      stablehlo.return %0 : tensor<f64>
    }) {sym_name = "F0", inputs = [@x, @a]} : () -> ()

`ext` reads the annotations below as objects, so this file must not import `annotations` from `__future__`.
"""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from tiduc.dialect.ops import verify
from tiduc.dialect.ops.ir_types import IrOp


class Tidu(ext.Dialect, name="tidu"):
    """The dialect of graphs that may refer to values of other graphs."""


class GraphOp(Tidu.Operation, name="graph", traits=[ir.IsIsolatedFromAboveTrait]):
    """A graph: one region with one block, which ends in `stablehlo.return`. The block's arguments are the inputs.

    `inputs` holds an input key for each block argument. Equal keys in two graphs denote the same input.

    The inputs and outputs of a *linear* graph are tangents or cotangents. It has three more attributes:
    `tidu.input_of` and `tidu.output_of` refer to the primal values of its inputs and outputs, and
    `tidu.active_outputs` flags the active outputs. Only active outputs are operands of `stablehlo.return`.
    """

    sym_name: ir.StringAttr
    inputs: ir.ArrayAttr
    body: ir.Region

    @staticmethod
    def verify_invariants(op: IrOp) -> bool:
        return verify.graph(op)


class External(Tidu.Operation, name="external", traits=[ext.Pure]):
    """Stands for a value of another graph. The attribute `ref` names the graph and the value, as in `@F0::@p3`."""

    ref: Any
    value: ext.Result[Any]

    @staticmethod
    def verify_invariants(op: IrOp) -> bool:
        return verify.external(op)


class Name(Tidu.Operation, name="name"):
    """Gives a value of a graph the symbol name by which other graphs refer to it."""

    sym_name: ir.StringAttr
    value: ext.Operand[Any]

    @staticmethod
    def verify_invariants(op: IrOp) -> bool:
        return verify.name(op)


class Bind(Tidu.Operation, name="bind"):
    """Binds an input to a value: the value that `value` names (`@S0::@seed`) replaces all uses of the input `input`."""

    input: Any
    value: Any

    @staticmethod
    def verify_invariants(op: IrOp) -> bool:
        return verify.bind(op)
