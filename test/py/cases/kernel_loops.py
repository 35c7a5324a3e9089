"""Loops that tiduc compiles to single dispatches of IREE, for `test_iree_loops_to_kernels.py`."""

from cases.looping import looping

V, M = "tensor<6xf64>", "tensor<6x6xf64>"


def summed(other: str) -> str:
    """Returns the text of a loop that contains another loop.

    The inner loop adds to the first carried value, %a. The ops in `other` must define %q, the following value of %b.
    """
    text = looping(
        f"{V} {V}",
        f"""%ten = stablehlo.constant dense<10> : tensor<i32>
        %z:2 = stablehlo.while(%m = %i, %w = %a) : tensor<i32>, {V}
        cond {{
          %d = stablehlo.compare LT, %m, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %d : tensor<i1>
        }} do {{
          %f = stablehlo.sine %b : {V}
          %g = stablehlo.add %w, %f : {V}
          %l = stablehlo.add %m, %one : tensor<i32>
          stablehlo.return %l, %g : tensor<i32>, {V}
        }}
        {other}""",
    )
    return text.replace("return %j, %p,", "return %j, %z#1,")


LOOPS = {
    "exchange": looping(f"{V} {V}", f"%p = stablehlo.negate %b : {V}\n%q = stablehlo.add %a, %b : {V}"),
    "turned": looping(
        f"{V} {M}",
        f"""%p = stablehlo.reverse %a, dims = [0] : {V}
        %t = stablehlo.transpose %b, dims = [1, 0] : ({M}) -> {M}
        %h = stablehlo.constant dense<0.5> : {M}
        %u = stablehlo.multiply %t, %h : {M}
        %q = stablehlo.add %b, %u : {M}""",
    ),
    "matrix": looping(
        f"{V} {M} tensor<7x6xf64>",
        f"""%v = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : ({M}, {V}) -> {V}
        %w = stablehlo.tanh %v : {V}
        %s = stablehlo.slice %w [1:6] : ({V}) -> tensor<5xf64>
        %zero64 = stablehlo.constant dense<0.0> : tensor<f64>
        %x = stablehlo.pad %s, %zero64, low = [0], high = [1], interior = [0]
          : (tensor<5xf64>, tensor<f64>) -> {V}
        %p = stablehlo.add %x, %a : {V}
        %o = stablehlo.dot_general %p, %w, contracting_dims = [] x [] : ({V}, {V}) -> {M}
        %q = stablehlo.subtract %b, %o : {M}
        %row = stablehlo.reshape %p : ({V}) -> tensor<1x6xf64>
        %r = stablehlo.dynamic_update_slice %c, %row, %i, %zero
          : (tensor<7x6xf64>, tensor<1x6xf64>, tensor<i32>, tensor<i32>) -> tensor<7x6xf64>""",
    ),
    "shifted": looping(
        "tensor<7x6xf64>",
        """%old = stablehlo.dynamic_slice %a, %zero, %zero, sizes = [1, 6]
          : (tensor<7x6xf64>, tensor<i32>, tensor<i32>) -> tensor<1x6xf64>
        %new = stablehlo.add %old, %old : tensor<1x6xf64>
        %p = stablehlo.dynamic_update_slice %a, %new, %j, %zero
          : (tensor<7x6xf64>, tensor<1x6xf64>, tensor<i32>, tensor<i32>) -> tensor<7x6xf64>""",
        9,
    ),
    "twice": looping(
        f"{V} tensor<i64>",
        f"""%ten = stablehlo.constant dense<10> : tensor<i64>
        %z:2 = stablehlo.while(%m = %b, %w = %a) : tensor<i64>, {V}
        cond {{
          %d = stablehlo.compare LT, %m, %ten : (tensor<i64>, tensor<i64>) -> tensor<i1>
          stablehlo.return %d : tensor<i1>
        }} do {{
          %two = stablehlo.constant dense<2> : tensor<i64>
          %e = stablehlo.add %m, %two : tensor<i64>
          %f = stablehlo.sine %w : {V}
          %g = stablehlo.add %f, %a : {V}
          stablehlo.return %e, %g : tensor<i64>, {V}
        }}
        %p = stablehlo.multiply %z#1, %a : {V}
        %q = stablehlo.subtract %z#0, %ten : tensor<i64>""",
    ),
    "solved": looping(
        f"{V} {M}",
        f"""%c = stablehlo.reshape %a : ({V}) -> tensor<6x1xf64>
        %x = "stablehlo.triangular_solve"(%b, %c) <{{left_side = true, lower = true, unit_diagonal = true,
          transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : ({M}, tensor<6x1xf64>) -> tensor<6x1xf64>
        %s = stablehlo.reshape %x : (tensor<6x1xf64>) -> {V}
        %p = stablehlo.tanh %s : {V}
        %q = stablehlo.add %b, %b : {M}""",
        4,
    ),
    "put": looping(
        V,
        f"""%k = stablehlo.multiply %i, %i : tensor<i32>
        %x = stablehlo.dynamic_slice %a, %i, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %u = stablehlo.reshape %x : (tensor<1xf64>) -> tensor<f64>
        %at = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
        %p = "stablehlo.scatter"(%a, %at, %u) ({{
        ^bb0(%old: tensor<f64>, %new: tensor<f64>):
          %sum = stablehlo.add %old, %new : tensor<f64>
          stablehlo.return %sum : tensor<f64>
        }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0]>}} : ({V}, tensor<1xi32>, tensor<f64>) -> {V}""",
    ),
    "taken": looping(
        M,
        f"""%k = stablehlo.multiply %i, %i : tensor<i32>
        %two = stablehlo.constant dense<2> : tensor<1xi32>
        %r = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
        %s = stablehlo.subtract %two, %r : tensor<1xi32>
        %at = stablehlo.concatenate %s, %r, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %g = "stablehlo.gather"(%a, %at) {{dimension_numbers = #stablehlo.gather<offset_dims = [0],
          collapsed_slice_dims = [1], start_index_map = [1, 0]>, slice_sizes = array<i64: 4, 1>}}
          : ({M}, tensor<2xi32>) -> tensor<4xf64>
        %t = stablehlo.sine %g : tensor<4xf64>
        %u = stablehlo.reshape %t : (tensor<4xf64>) -> tensor<1x4xf64>
        %p = stablehlo.dynamic_update_slice %a, %u, %i, %k
          : ({M}, tensor<1x4xf64>, tensor<i32>, tensor<i32>) -> {M}""",
    ),
    "flags": looping(
        "tensor<6xi1>",
        """%x = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<6xi1>, tensor<i32>) -> tensor<1xi1>
        %y = stablehlo.not %x : tensor<1xi1>
        %p = stablehlo.dynamic_update_slice %a, %y, %j
          : (tensor<6xi1>, tensor<1xi1>, tensor<i32>) -> tensor<6xi1>""",
    ),
    "predicates": looping(
        f"{V} tensor<6xi1> tensor<i1>",
        f"""%s = stablehlo.sine %a : {V}
        %t = stablehlo.add %s, %a : {V}
        %p = stablehlo.select %b, %t, %s : tensor<6xi1>, {V}
        %d = stablehlo.compare LT, %t, %a : ({V}, {V}) -> tensor<6xi1>
        %q = stablehlo.xor %d, %b : tensor<6xi1>
        %false = stablehlo.constant dense<false> : tensor<i1>
        %e = stablehlo.reduce(%q init: %false) applies stablehlo.or across dimensions = [0]
          : (tensor<6xi1>, tensor<i1>) -> tensor<i1>
        %w:2 = stablehlo.while(%m = %c, %v = %i) : tensor<i1>, tensor<i32>
        cond {{
          stablehlo.return %m : tensor<i1>
        }} do {{
          %u = stablehlo.add %v, %one : tensor<i32>
          %h = stablehlo.compare LT, %u, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %h, %u : tensor<i1>, tensor<i32>
        }}
        %k = stablehlo.compare EQ, %w#1, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %r = stablehlo.and %e, %k : tensor<i1>""",
    ),
    "unsigned": looping(
        "tensor<ui32> tensor<6xui8>",
        """%three = stablehlo.constant dense<3> : tensor<ui32>
        %h = stablehlo.divide %a, %three : tensor<ui32>
        %p = stablehlo.add %h, %three : tensor<ui32>
        %k = stablehlo.convert %a : (tensor<ui32>) -> tensor<ui8>
        %r = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<ui8>) -> tensor<6xui8>
        %s = stablehlo.add %b, %r : tensor<6xui8>
        %q = stablehlo.reverse %s, dims = [0] : tensor<6xui8>""",
    ),
    "branches": looping(
        f"{V} {V}",
        f"""%low = stablehlo.constant dense<3> : tensor<i32>
        %k = stablehlo.subtract %i, %low : tensor<i32>
        %p, %s = "stablehlo.case"(%k) ({{
          %u = stablehlo.sine %a : {V}
          stablehlo.return %u, %a : {V}, {V}
        }}, {{
          %u = stablehlo.log %a : {V}
          stablehlo.return %b, %u : {V}, {V}
        }}, {{
          stablehlo.return %b, %a : {V}, {V}
        }}) : (tensor<i32>) -> ({V}, {V})
        %two = stablehlo.constant dense<2> : tensor<i32>
        %even = stablehlo.remainder %i, %two : tensor<i32>
        %go = stablehlo.compare EQ, %even, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %q = "stablehlo.if"(%go) ({{
          stablehlo.return %s : {V}
        }}, {{
          %v = "stablehlo.case"(%even) ({{
            %w = stablehlo.add %s, %p : {V}
            stablehlo.return %w : {V}
          }}, {{
            stablehlo.return %p : {V}
          }}) : (tensor<i32>) -> {V}
          stablehlo.return %v : {V}
        }}) : (tensor<i1>) -> {V}""",
    ),
    "put and kept": looping(
        f"{V} {M}",
        f"""%s = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : ({M}, {V}) -> {V}
        %x = stablehlo.dynamic_slice %s, %i, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %p = stablehlo.dynamic_update_slice %a, %x, %i : ({V}, tensor<1xf64>, tensor<i32>) -> {V}
        %r = stablehlo.reshape %a : ({V}) -> tensor<1x6xf64>
        %q = stablehlo.dynamic_update_slice %b, %r, %i, %zero
          : ({M}, tensor<1x6xf64>, tensor<i32>, tensor<i32>) -> {M}""",
        6,
    ),
    "summed inside": summed(f"%q = stablehlo.tanh %b : {V}"),
    "many starts": looping(
        V,
        "%x0 = stablehlo.sine %a : tensor<6xf64>\n"
        + "".join(
            f"""%s{k} = stablehlo.slice %x{k} [5:6] : ({V}) -> tensor<1xf64>
            %t{k} = stablehlo.slice %x{k} [0:5] : ({V}) -> tensor<5xf64>
            %x{k + 1} = stablehlo.concatenate %s{k}, %t{k}, dim = 0 : (tensor<1xf64>, tensor<5xf64>) -> {V}
            """
            for k in range(40)
        )
        + f"%p = stablehlo.add %x40, %a : {V}",
    ),
    "two put": looping(
        V,
        f"""%five = stablehlo.constant dense<5> : tensor<i32>
        %k = stablehlo.subtract %five, %i : tensor<i32>
        %x = stablehlo.dynamic_slice %a, %i, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %y = stablehlo.dynamic_slice %a, %k, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %b = stablehlo.dynamic_update_slice %a, %y, %i : ({V}, tensor<1xf64>, tensor<i32>) -> {V}
        %p = stablehlo.dynamic_update_slice %b, %x, %k : ({V}, tensor<1xf64>, tensor<i32>) -> {V}""",
        3,
    ),
}
