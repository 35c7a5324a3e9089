"""Programs of one or two ops with dynamic sizes, and arguments of several sizes."""

from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
X, XX, SCALAR = "tensor<?xf64>", "tensor<?x?xf64>", "tensor<f64>"


def a(*sizes: int) -> Any:
    return RNG.standard_normal(sizes)


def program(arguments: str, result: str, body: str) -> str:
    """Returns the text of a function that squares %y, so that second derivatives are not zero. `body` defines %y."""
    squared = f"%z = stablehlo.multiply %y, %y : {result}\nreturn %z : {result}"
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n{squared}\n}}"


def sizes_of(x: str, rank: int = 2) -> str:
    """Returns ops that compute %shape, the sizes of a value. All sizes of the value are dynamic."""
    type_ = f"tensor<{'?x' * rank}f64>"
    lines = []
    for d in range(rank):
        lines += [
            f"%n{d} = stablehlo.get_dimension_size {x}, dim = {d} : ({type_}) -> tensor<i32>",
            f"%m{d} = stablehlo.reshape %n{d} : (tensor<i32>) -> tensor<1xi32>",
        ]
    names, types = ", ".join(f"%m{d}" for d in range(rank)), ", ".join(["tensor<1xi32>"] * rank)
    lines.append(f"%shape = stablehlo.concatenate {names}, dim = 0 : ({types}) -> tensor<{rank}xi32>")
    return "\n".join(lines)


def reduce(name: str, init: str = "%v") -> str:
    return (
        f"%y = stablehlo.reduce(%x init: {init}) applies stablehlo.{name} across dimensions = [0] : "
        f"({XX}, {SCALAR}) -> {X}"
    )


def window(body: str, attributes: str, x: str, y: str) -> str:
    return f"""%y = "stablehlo.reduce_window"(%x, %v) ({{
      ^bb0(%p: {SCALAR}, %q: {SCALAR}):
        %r = stablehlo.{body} %p, %q : {SCALAR}
        stablehlo.return %r : {SCALAR} }}) {{{attributes}}} : ({x}, {SCALAR}) -> {y}"""


INFINITY = f"%v = stablehlo.constant dense<0xFFF0000000000000> : {SCALAR}\n"
GATHER = (
    '%y = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], '
    "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>} "
)
SCATTER = (
    "{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
    "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}"
)
DYNAMIC_PAD = (
    f"%y = stablehlo.dynamic_pad %x, %v, %a, %b, %c : ({X}, {SCALAR}" + ", tensor<1xi32>" * 3 + f") -> {X}"
)


def padding(low: int, high: int, interior: int) -> str:
    named = zip("abc", (low, high, interior), strict=True)
    return "\n".join(f"%{k} = stablehlo.constant dense<{n}> : tensor<1xi32>" for k, n in named)


CASES: dict[str, tuple[str, list[list[Any]]]] = {
    "tanh": (
        program("%x: tensor<?x4xf64>", "tensor<?x4xf64>", "%y = stablehlo.tanh %x : tensor<?x4xf64>"),
        [[a(2, 4)], [a(0, 4)]],
    ),
    "divide and power": (
        program(
            f"%x: {X}, %w: {X}", X, f"%0 = stablehlo.divide %x, %w : {X}\n%y = stablehlo.power %0, %w : {X}"
        ),
        [[abs(a(2)), abs(a(2))], [abs(a(3)), abs(a(3))]],
    ),
    "maximum": (
        program(f"%x: {XX}, %w: {XX}", XX, f"%y = stablehlo.maximum %x, %w : {XX}"),
        [[a(2, 3), a(2, 3)]],
    ),
    "clamp by a scalar": (
        program(
            f"%l: {SCALAR}, %x: {X}, %h: {X}",
            X,
            f"%y = stablehlo.clamp %l, %x, %h : ({SCALAR}, {X}, {X}) -> {X}",
        ),
        [[np.array(-0.5), a(5), abs(a(5))]],
    ),
    "select": (
        program(
            f"%p: tensor<?xi1>, %x: {X}, %w: {X}", X, f"%y = stablehlo.select %p, %x, %w : tensor<?xi1>, {X}"
        ),
        [[a(3) > 0, a(3), a(3)]],
    ),
    "convert and imag": (
        program(
            f"%x: {X}, %w: tensor<?xcomplex<f64>>",
            X,
            f"""%0 = stablehlo.convert %x : ({X}) -> tensor<?xcomplex<f64>>
            %1 = stablehlo.multiply %0, %w : tensor<?xcomplex<f64>>
            %y = stablehlo.imag %1 : (tensor<?xcomplex<f64>>) -> {X}""",
        ),
        [[a(3), a(3) + 1j * a(3)]],
    ),
    "static and dynamic": (
        program(
            f"%x: {X}, %w: tensor<3xf64>", X, f"%y = stablehlo.multiply %x, %w : ({X}, tensor<3xf64>) -> {X}"
        ),
        [[a(3), a(3)]],
    ),
    "sum": (program(f"%x: {XX}, %v: {SCALAR}", X, reduce("add")), [[a(2, 3), a()], [a(3, 1), a()]]),
    "largest": (program(f"%x: {XX}, %v: {SCALAR}", X, reduce("maximum")), [[a(2, 3), a()]]),
    "largest of perhaps none": (
        program(f"%x: {XX}", X, INFINITY + reduce("maximum")).replace("%y, %y", "%y, %y"),
        [[a(2, 3)], [a(3, 1)]],
    ),
    "matrix product": (
        program(
            f"%x: {XX}, %w: {XX}",
            XX,
            f"%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({XX}, {XX}) -> {XX}",
        ),
        [[a(2, 3), a(3, 4)], [a(1, 2), a(2, 2)]],
    ),
    "transpose": (
        program(
            "%x: tensor<?x2x?xf64>",
            "tensor<?x?x2xf64>",
            "%y = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<?x2x?xf64>) -> tensor<?x?x2xf64>",
        ),
        [[a(3, 2, 4)]],
    ),
    "concatenate": (
        program(
            f"%x: {X}, %w: {X}", X, f"%y = stablehlo.concatenate %x, %w, %x, dim = 0 : ({X}, {X}, {X}) -> {X}"
        ),
        [[a(3), a(1)], [a(0), a(2)]],
    ),
    "pad": (
        program(
            f"%x: tensor<?x3xf64>, %v: {SCALAR}",
            "tensor<?x4xf64>",
            "%y = stablehlo.pad %x, %v, low = [1, -1], high = [-2, 0], interior = [2, 1] : "
            f"(tensor<?x3xf64>, {SCALAR}) -> tensor<?x4xf64>",
        ),
        [[a(3, 3), a()], [a(1, 3), a()]],
    ),
    "slice": (
        program(
            "%x: tensor<?x5xf64>",
            "tensor<2x2xf64>",
            "%y = stablehlo.slice %x [1:3, 0:4:2] : (tensor<?x5xf64>) -> tensor<2x2xf64>",
        ),
        [[a(3, 5)], [a(6, 5)]],
    ),
    "broadcast_in_dim": (
        program(
            f"%x: {X}",
            "tensor<2x3xf64>",
            f"%y = stablehlo.broadcast_in_dim %x, dims = [1] : ({X}) -> tensor<2x3xf64>",
        ),
        [[a(3)], [a(1)]],
    ),
    "reshape": (
        program(f"%x: {X}", "tensor<2x3xf64>", f"%y = stablehlo.reshape %x : ({X}) -> tensor<2x3xf64>"),
        [[a(6)]],
    ),
    "reverse": (program(f"%x: {X}", X, f"%y = stablehlo.reverse %x, dims = [0] : {X}"), [[a(3)]]),
    "dynamic_broadcast_in_dim": (  # whether a size is 1 is known only at run time
        program(
            f"%x: {XX}, %w: {XX}",
            XX,
            f"""{sizes_of("%w")}
            %0 = stablehlo.dynamic_broadcast_in_dim %x, %shape, dims = [1, 0] : ({XX}, tensor<2xi32>) -> {XX}
            %y = stablehlo.multiply %0, %w : {XX}""",
        ),
        [[a(3, 2), a(2, 3)], [a(1, 2), a(2, 4)], [a(3, 1), a(2, 3)], [a(1, 1), a(2, 3)], [a(1, 2), a(2, 0)]],
    ),
    "broadcast_multiply": (
        program(f"%x: {X}, %w: {XX}", XX, f"%y = chlo.broadcast_multiply %x, %w : ({X}, {XX}) -> {XX}"),
        [[a(3), a(2, 3)], [a(1), a(2, 3)], [a(3), a(2, 1)], [a(1), a(0, 1)]],
    ),
    "dynamic_reshape": (
        program(
            f"%x: {XX}, %w: {X}",
            X,
            f"""{sizes_of("%x")}
            %0 = stablehlo.multiply %m0, %m1 : tensor<1xi32>
            %1 = stablehlo.dynamic_reshape %x, %0 : ({XX}, tensor<1xi32>) -> {X}
            %y = stablehlo.multiply %1, %w : {X}""",
        ),
        [[a(3, 2), a(6)], [a(1, 4), a(4)]],
    ),
    "real_dynamic_slice": (
        program(
            f"%x: {X}, %w: {X}",
            X,
            f"""{sizes_of("%x", 1)}
            %1 = stablehlo.constant dense<1> : tensor<1xi32>
            %2 = stablehlo.constant dense<2> : tensor<1xi32>
            %3 = stablehlo.real_dynamic_slice %x, %1, %shape, %2
              : ({X}, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> {X}
            %y = stablehlo.multiply %3, %w : {X}""",
        ),
        [[a(6), a(3)], [a(5), a(2)], [a(1), a(0)]],
    ),
    **{
        f"dynamic_pad by {ends}": (
            program(f"%x: {X}, %v: {SCALAR}", X, f"{padding(*ends)}\n{DYNAMIC_PAD}"),
            points,
        )
        for ends, points in (
            ((1, 2, 0), [[a(3), a()]]),
            ((-1, 2, 1), [[a(3), a()], [a(1), a()]]),
            ((4, -7, 0), [[a(3), a()]]),
            ((1, -1, 2), [[a(3), a()]]),
        )
    },
    "dynamic_iota": (
        program(
            f"%x: {X}",
            X,
            f"""{sizes_of("%x", 1)}
            %0 = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi32>) -> {X}
            %y = stablehlo.multiply %0, %x : {X}""",
        ),
        [[a(3)]],
    ),
    "dynamic_conv": (
        program(
            "%x: tensor<?x5x3xf64>, %w: tensor<2x3x4xf64>",
            "tensor<?x5x4xf64>",
            """%p = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
            %y = "stablehlo.dynamic_conv"(%x, %w, %p) {
              dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
              batch_group_count = 1 : i64, feature_group_count = 1 : i64}
              : (tensor<?x5x3xf64>, tensor<2x3x4xf64>, tensor<1x2xi32>) -> tensor<?x5x4xf64>""",
        ),
        [[a(2, 5, 3), a(2, 3, 4)]],
    ),
    **{
        f"gather of {rows} by {i}": (
            program(
                f"%x: tensor<{rows}x4xf64>, %i: tensor<?x{i}>",
                "tensor<?x4xf64>",
                f"{GATHER}: (tensor<{rows}x4xf64>, tensor<?x{i}>) -> tensor<?x4xf64>",
            ),
            [[a(7, 4), np.array([3, 3, 200], dtype)], [a(7, 4), np.array([0], dtype)]],
        )
        for rows, i, dtype in (("7", "i32", np.int32), ("?", "i64", np.int64), ("?", "ui8", np.uint8))
    },
    "scatter": (
        program(
            "%x: tensor<?x4xf64>, %i: tensor<?x1xi32>, %u: tensor<?x4xf64>",
            "tensor<?x4xf64>",
            f"""%y = "stablehlo.scatter"(%x, %i, %u) ({{
              ^bb0(%p: {SCALAR}, %q: {SCALAR}):
                %r = stablehlo.add %p, %q : {SCALAR}
                stablehlo.return %r : {SCALAR} }}) {SCATTER}
                : (tensor<?x4xf64>, tensor<?x1xi32>, tensor<?x4xf64>) -> tensor<?x4xf64>""",
        ),
        [[a(7, 4), np.array([[3], [3], [9]], np.int32), a(3, 4)]],
    ),
    "sums over windows": (
        program(
            "%x: tensor<?x5xf64>",
            "tensor<?x4xf64>",
            f"%v = stablehlo.constant dense<0.0> : {SCALAR}\n"
            + window("add", "window_dimensions = array<i64: 1, 2>", "tensor<?x5xf64>", "tensor<?x4xf64>"),
        ),
        [[a(2, 5)]],
    ),
    **{
        f"largest of windows of {n}": (
            program(
                "%x: tensor<?x6xf64>",
                f"tensor<?x{places}xf64>",
                INFINITY
                + window(
                    "maximum",
                    f"window_dimensions = array<i64: 1, {n}>, window_strides = array<i64: 1, 2>",
                    "tensor<?x6xf64>",
                    f"tensor<?x{places}xf64>",
                ),
            ),
            [[a(3, 6)]],
        )
        for n, places in ((2, 3), (3, 2))
    },
    "chlo.broadcast_multiply": (
        program(f"%x: {X}, %w: {XX}", XX, f"%y = chlo.broadcast_multiply %x, %w : ({X}, {XX}) -> {XX}"),
        [[a(3), a(2, 3)], [a(1), a(2, 3)], [a(3), a(2, 1)]],
    ),
    "batch_norm_inference": (
        program(
            "%x: tensor<?x3xf64>, %s: tensor<3xf64>, %v: tensor<3xf64>",
            "tensor<?x3xf64>",
            """%0 = stablehlo.multiply %v, %v : tensor<3xf64>
            %y = "stablehlo.batch_norm_inference"(%x, %s, %s, %v, %0) {epsilon = 0.001 : f32, feature_index = 1 : i64}
              : (tensor<?x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<?x3xf64>""",
        ),
        [[a(4, 3), a(3), a(3)]],
    ),
    "sort": (
        program(
            "%x: tensor<?x3xf64>",
            "tensor<?x3xf64>",
            f"""%y = "stablehlo.sort"(%x) ({{
              ^bb0(%p: {SCALAR}, %q: {SCALAR}):
                %r = stablehlo.compare LT, %p, %q : ({SCALAR}, {SCALAR}) -> tensor<i1>
                stablehlo.return %r : tensor<i1> }}) {{dimension = 0 : i64}} : (tensor<?x3xf64>) -> tensor<?x3xf64>""",
        ),
        [[a(4, 3)]],
    ),
    "zero derivatives": (
        f"func.func @main(%x: {XX}, %w: {X}) -> ({XX}, {X}) {{ return %x, %w : {XX}, {X} }}",
        [[a(4, 3), a(2)]],
    ),
}
