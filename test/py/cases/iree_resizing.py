"""A program with large index arrays, parts of which IREE computes when it loads the module.

PyTorch emits such index arrays for bilinear resizing. Each index begins with the number of the image, which is the
constant 0. IREE without tiduc stores several index arrays in one array, so that half of the elements are wrong.
"""

from typing import Any

import numpy as np

PART = "tensor<1x256x32x32x1xi64>"
INDICES = "tensor<1x256x32x32x4xi64>"
PLANE = "tensor<1x256x32x32xi64>"
IMAGE = "tensor<1x256x32x32xf32>"
SMALL = "tensor<1x256x16x16xf32>"
LOW = "tensor<32x1xi64>"
LINE = "tensor<32xi64>"
RESULT = "tensor<1x512x32x32xf32>"
FOUR = f"({PART}, {PART}, {PART}, {PART}) -> {INDICES}"
GATHER = """<{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1, 2, 3],
  start_index_map = [0, 1, 2, 3], index_vector_dim = 4>, slice_sizes = array<i64: 1, 1, 1, 1>}>"""

_TEXT = f"""
func.func @main(%x: tensor<1x256x1024xf32>, %y: tensor<1x256x256xf32>,
   %rows: {LOW}, %columns: {LINE}, %low: {LOW}, %high: {LINE}) -> {RESULT} {{
%image = stablehlo.constant dense<START> : {PART}
%last = stablehlo.constant dense<15> : {LINE}
%lower = stablehlo.constant dense<15> : {LOW}
%large = stablehlo.reshape %x : (tensor<1x256x1024xf32>) -> {IMAGE}
%numbers = stablehlo.iota dim = 0 : tensor<256xi64>
%n0 = stablehlo.reshape %numbers : (tensor<256xi64>) -> tensor<256x1x1xi64>
%n1 = stablehlo.broadcast_in_dim %n0, dims = [1, 2, 3] : (tensor<256x1x1xi64>) -> {PLANE}
%n = stablehlo.reshape %n1 : ({PLANE}) -> {PART}
%h0 = stablehlo.broadcast_in_dim %high, dims = [3] : ({LINE}) -> {PLANE}
%h = stablehlo.reshape %h0 : ({PLANE}) -> {PART}
%l0 = stablehlo.broadcast_in_dim %low, dims = [2, 3] : ({LOW}) -> {PLANE}
%l = stablehlo.reshape %l0 : ({PLANE}) -> {PART}
%i0 = stablehlo.concatenate %image, %n, %l, %h, dim = 4 : {FOUR}
%g0 = "stablehlo.gather"(%large, %i0) {GATHER} : ({IMAGE}, {INDICES}) -> {IMAGE}
%sum0 = stablehlo.add %large, %g0 : {IMAGE}
%small = stablehlo.reshape %y : (tensor<1x256x256xf32>) -> {SMALL}
%r0 = stablehlo.broadcast_in_dim %rows, dims = [2, 3] : ({LOW}) -> {PLANE}
%r = stablehlo.reshape %r0 : ({PLANE}) -> {PART}
%c0 = stablehlo.broadcast_in_dim %columns, dims = [3] : ({LINE}) -> {PLANE}
%c = stablehlo.reshape %c0 : ({PLANE}) -> {PART}
%i1 = stablehlo.concatenate %image, %n, %r, %c, dim = 4 : {FOUR}
%g1 = "stablehlo.gather"(%small, %i1) {GATHER} : ({SMALL}, {INDICES}) -> {IMAGE}
%k0 = stablehlo.broadcast_in_dim %last, dims = [3] : ({LINE}) -> {PLANE}
%k = stablehlo.reshape %k0 : ({PLANE}) -> {PART}
%i2 = stablehlo.concatenate %image, %n, %r, %k, dim = 4 : {FOUR}
%g2 = "stablehlo.gather"(%small, %i2) {GATHER} : ({SMALL}, {INDICES}) -> {IMAGE}
%m0 = stablehlo.broadcast_in_dim %lower, dims = [2, 3] : ({LOW}) -> {PLANE}
%m = stablehlo.reshape %m0 : ({PLANE}) -> {PART}
%i3 = stablehlo.concatenate %image, %n, %m, %c, dim = 4 : {FOUR}
%g3 = "stablehlo.gather"(%small, %i3) {GATHER} : ({SMALL}, {INDICES}) -> {IMAGE}
%i4 = stablehlo.concatenate %image, %n, %m, %k, dim = 4 : {FOUR}
%g4 = "stablehlo.gather"(%small, %i4) {GATHER} : ({SMALL}, {INDICES}) -> {IMAGE}
%s1 = stablehlo.add %g1, %g2 : {IMAGE}
%s2 = stablehlo.add %g3, %g4 : {IMAGE}
%sum = stablehlo.add %s1, %s2 : {IMAGE}
%result = stablehlo.concatenate %sum, %sum0, dim = 1 : ({IMAGE}, {IMAGE}) -> {RESULT}
return %result : {RESULT}
}}
"""


def resized(start: int) -> str:
    """Returns the program whose indices begin with this number. A gather clamps it to 0, because there is one image."""
    return _TEXT.replace("START", str(start))


def arguments(rng: Any) -> list[Any]:
    """Draws the arguments of the program.

    They are a large and a small image, rows and columns of the small image, and rows and columns of the large image.
    """
    images = [rng.standard_normal((1, 256, n)).astype(np.float32) for n in (1024, 256)]
    rows, columns = rng.integers(0, 16, (2, 32))
    low, high = rng.integers(0, 32, (2, 32))
    return [*images, rows[:, None], columns, low[:, None], high]


def expected(x: Any, y: Any, rows: Any, columns: Any, low: Any, high: Any) -> Any:
    """Computes the result of the program with NumPy."""
    large, small = x.reshape(256, 32, 32), y.reshape(256, 16, 16)
    last = np.full(32, 15)
    parts = [small[:, i[:, None], j] for i in (rows[:, 0], last) for j in (columns, last)]
    result = (parts[0] + parts[1]) + (parts[2] + parts[3]), large + large[:, low, high]
    return np.concatenate(result)[None]
