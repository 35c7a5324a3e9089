"""The `tidu` dialect: graphs, references between graphs, names of values.

Defined through MLIR's `ext`, so these are registered ops, checked when they are parsed. Primitives are not here:
they are StableHLO and CHLO ops, untouched. What the ops of one graph owe each other is in `dialect/verify.py`; what
graphs owe each other is checked by `passes/resolve.py`.

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

from tiduc.dialect import verify


class Tidu(ext.Dialect, name="tidu"):
    """Graphs that refer to one another, and what turns them into derivatives."""


class Graph(Tidu.Operation, name="graph", traits=[ir.IsIsolatedFromAboveTrait]):
    """A graph: one region of one block, whose arguments are the graph's inputs, and which ends in `stablehlo.return`.

    `inputs` holds one input key a block argument. The same key in two graphs means the same input.
    A *linear* graph also carries `tidu.input_of` and `tidu.output_of`, the references of the values that its
    inputs and outputs are tangents (or cotangents) of, and `tidu.active_outputs`, which of its outputs are active;
    only these are operands of its `stablehlo.return`.
    """

    sym_name: ir.StringAttr
    inputs: ir.ArrayAttr
    body: ir.Region

    @staticmethod
    def verify_invariants(op: Any) -> bool:
        return verify.graph(op)


class External(Tidu.Operation, name="external", traits=[ext.Pure]):
    """A value defined in another graph, by symbol: `@F0::@p3`."""

    ref: Any
    value: ext.Result[Any]

    @staticmethod
    def verify_invariants(op: Any) -> bool:
        return verify.external(op)


class Name(Tidu.Operation, name="name"):
    """The symbol name by which other graphs refer to a value of this one."""

    sym_name: ir.StringAttr
    value: ext.Operand[Any]

    @staticmethod
    def verify_invariants(op: Any) -> bool:
        return verify.name(op)


class Bind(Tidu.Operation, name="bind"):
    """Gives an input key a value: wherever `input` is read, `value`, such as `@S0::@seed`, stands in its place."""

    input: Any
    value: Any

    @staticmethod
    def verify_invariants(op: Any) -> bool:
        return verify.bind(op)
