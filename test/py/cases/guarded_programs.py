"""Programs with dynamic sizes, and arguments with several sizes.

Loops, branches and calls combine arrays with these sizes. Some sizes depend on data."""

from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
V, NUMBER = "tensor<?xf32>", "tensor<i32>"
PLACES = "{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
PLACES += "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}"


def a(*sizes: int) -> Any:
    return RNG.standard_normal(sizes).astype(np.float32)


def n(*values: int, dtype: Any = np.int32) -> Any:
    return np.array(values, dtype)


def loop(carry: str, body: str, result: str = V) -> str:
    """Returns the text of a loop with `%k` iterations.

    The loop carries `%z`, whose first value is `%x`. The body must define the following value `%w`.
    """
    return f"""func.func @main(%x: {V}, %y: {V}, %k: {NUMBER}) -> {result} {{
      %c0 = stablehlo.constant dense<0> : {NUMBER}
      %c1 = stablehlo.constant dense<1> : {NUMBER}
      %r:2 = stablehlo.while(%i = %c0, %z = %x) : {NUMBER}, {carry}
        cond {{
          %p = stablehlo.compare LT, %i, %k : ({NUMBER}, {NUMBER}) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          {body}
          %j = stablehlo.add %i, %c1 : {NUMBER}
          stablehlo.return %j, %w : {NUMBER}, {carry}
        }}
      return %r#1 : {result}
    }}"""


def branch(then: str, otherwise: str, after: str = "return %r : tensor<?xf32>") -> str:
    return f"""func.func @main(%x: {V}, %y: {V}, %p: tensor<i1>) -> {V} {{
      %r = "stablehlo.if"(%p) ({{ {then} }}, {{ {otherwise} }}) : (tensor<i1>) -> {V}
      {after}
    }}"""


def of_data(type_: str, body: str) -> str:
    return f"func.func @main(%x: {V}, %n: tensor<{type_}>) -> {V} {{ {body} }}"


ADD = f"%w = stablehlo.add %z, %y : {V}"
IOTA = f"%0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> {V}"

CASES: dict[str, tuple[str, list[list[Any]]]] = {
    "two inputs": (
        f"func.func @main(%x: {V}, %y: {V}) -> {V} {{\n%0 = stablehlo.add %x, %y : {V}\nreturn %0 : {V}\n}}",
        [[a(3), a(3)]],
    ),
    "two matrices": (
        """func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
          %0 = stablehlo.multiply %x, %y : tensor<?x?xf32>
          return %0 : tensor<?x?xf32> }""",
        [[a(3, 4), a(3, 4)]],
    ),
    "static beside dynamic": (
        f"""func.func @main(%x: {V}, %y: tensor<8xf32>) -> tensor<8xf32> {{
          %0 = stablehlo.add %x, %y : ({V}, tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32> }}""",
        [[a(8), a(8)]],
    ),
    "loop": (loop(V, ADD), [[a(3), a(3), np.int32(2)]]),
    "loop that grows": (
        loop(V, f"%w = stablehlo.concatenate %z, %y, dim = 0 : ({V}, {V}) -> {V}"),
        [[a(3), a(2), np.int32(3)]],
    ),
    "loop that slices": (
        loop(
            V,
            f"""%s = stablehlo.dynamic_slice %y, %i, sizes = [1] : ({V}, {NUMBER}) -> tensor<1xf32>
            %t = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
            %w = stablehlo.dynamic_update_slice %z, %s, %i : ({V}, tensor<1xf32>, {NUMBER}) -> {V}""",
        ),
        [[a(3), a(3), np.int32(3)]],
    ),
    "branches": (
        branch(f"%0 = stablehlo.add %x, %y : {V}\nstablehlo.return %0 : {V}", f"stablehlo.return %x : {V}"),
        [[a(3), a(3), np.bool_(True)]],
    ),
    "branches of one size": (
        branch(
            f"%0 = stablehlo.tanh %x : {V}\nstablehlo.return %0 : {V}",
            f"%0 = stablehlo.add %y, %x : {V}\nstablehlo.return %0 : {V}",
            f"%1 = stablehlo.multiply %r, %x : {V}\nreturn %1 : {V}",
        ),
        [[a(3), a(3), np.bool_(True)]],
    ),
    "calls": (
        f"""func.func private @f(%x: {V}, %y: {V}) -> {V} {{
          %0 = stablehlo.add %x, %y : {V}
          %1 = stablehlo.concatenate %0, %x, dim = 0 : ({V}, {V}) -> {V}
          return %1 : {V} }}
        func.func @main(%x: {V}, %y: {V}, %z: {V}) -> {V} {{
          %0 = call @f(%x, %y) : ({V}, {V}) -> {V}
          %1 = call @f(%0, %z) : ({V}, {V}) -> {V}
          return %1 : {V} }}""",
        [[a(3), a(3), a(6)]],
    ),
    "size in data": (
        of_data("1xi32", f"{IOTA}\n%1 = stablehlo.add %0, %x : {V}\nreturn %1 : {V}"),
        [[a(3), n(3)]],
    ),
    "size in data of 64 bits": (
        of_data(
            "1xi64",
            f"""%0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> {V}
            %1 = stablehlo.add %0, %x : {V}
            return %1 : {V}""",
        ),
        [[a(3), n(3, dtype=np.int64)]],
    ),
    "size in data without sign": (
        of_data(
            "1xui32",
            f"""%0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0] : ({V}, tensor<1xui32>) -> {V}
            %1 = stablehlo.add %0, %x : {V}
            return %1 : {V}""",
        ),
        [[a(3), n(3, dtype=np.uint32)]],
    ),
    "padding in data": (
        of_data(
            "1xi32",
            f"""%v = stablehlo.constant dense<0.0> : tensor<f32>
            %c = stablehlo.constant dense<0> : tensor<1xi32>
            %0 = stablehlo.dynamic_pad %x, %v, %n, %c, %n
              : ({V}, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> {V}
            %1 = stablehlo.concatenate %0, %x, dim = 0 : ({V}, {V}) -> {V}
            return %1 : {V}""",
        ),
        [[a(3), n(1)]],
    ),
    "bounds in data": (
        of_data(
            "1xi32",
            f"""%c = stablehlo.constant dense<1> : tensor<1xi32>
            %0 = stablehlo.real_dynamic_slice %x, %c, %n, %c
              : ({V}, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> {V}
            return %0 : {V}""",
        ),
        [[a(4), n(3)]],
    ),
    "window in data": (
        of_data(
            "1xi32",
            f"""%i = stablehlo.constant dense<[[0], [2]]> : tensor<2x1xi32>
            %0 = "stablehlo.dynamic_gather"(%x, %i, %n) {{dimension_numbers = #stablehlo.gather<offset_dims = [0],
              start_index_map = [0], index_vector_dim = 1>}} : ({V}, tensor<2x1xi32>, tensor<1xi32>) -> tensor<?x2xf32>
            %1 = stablehlo.slice %0 [0:2, 1:2] : (tensor<?x2xf32>) -> tensor<2x1xf32>
            %2 = stablehlo.reshape %1 : (tensor<2x1xf32>) -> tensor<2xf32>
            %3 = stablehlo.concatenate %2, %x, dim = 0 : (tensor<2xf32>, {V}) -> {V}
            return %3 : {V}""",
        ),
        [[a(5), n(2)]],
    ),
    "size set": (
        f"""func.func @main(%x: {V}, %n: {NUMBER}) -> {V} {{
          %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : ({V}, {NUMBER}) -> {V}
          return %0 : {V} }}""",
        [[a(4), np.int32(3)]],
    ),
    "reshape of products": (
        """func.func @main(%x: tensor<?x?xf32>, %n: tensor<2xi32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
          %0 = stablehlo.dynamic_reshape %x, %n : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
          %1 = stablehlo.add %0, %y : tensor<?x?xf32>
          return %1 : tensor<?x?xf32> }""",
        [[a(4, 3), n(2, 6), a(2, 6)]],
    ),
    "more elements than 64 bits count": (
        f"""func.func @main(%x: {V}) -> tensor<?x?x?x?xf32> {{
          %n = stablehlo.get_dimension_size %x, dim = 0 : ({V}) -> {NUMBER}
          %m = stablehlo.reshape %n : ({NUMBER}) -> tensor<1xi32>
          %s = stablehlo.concatenate %m, %m, %m, %m, dim = 0
            : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
          %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0] : ({V}, tensor<4xi32>) -> tensor<?x?x?x?xf32>
          return %0 : tensor<?x?x?x?xf32> }}""",
        [[a(3)]],
    ),
    "scatter of two": (
        f"""func.func @main(%x: {V}, %i: tensor<?x1xi32>, %u: {V}) -> {V} {{
          %y = "stablehlo.scatter"(%x, %i, %u) ({{
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              stablehlo.return %q : tensor<f32> }}) {PLACES} : ({V}, tensor<?x1xi32>, {V}) -> {V}
          return %y : {V} }}""",
        [[a(7), n(3, 2).reshape(2, 1), a(2)]],
    ),
    "reduce of two": (
        f"""func.func @main(%x: {V}, %y: {V}) -> tensor<f32> {{
          %v = stablehlo.constant dense<0.0> : tensor<f32>
          %0:2 = stablehlo.reduce(%x init: %v), (%y init: %v) across dimensions = [0]
            : ({V}, {V}, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
            reducer(%p: tensor<f32>, %r: tensor<f32>) (%q: tensor<f32>, %s: tensor<f32>) {{
              %1 = stablehlo.multiply %r, %s : tensor<f32>
              %2 = stablehlo.add %p, %1 : tensor<f32>
              stablehlo.return %2, %s : tensor<f32>, tensor<f32> }}
          return %0#0 : tensor<f32> }}""",
        [[a(3), a(3)]],
    ),
}
