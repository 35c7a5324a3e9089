"""Programs with several ops or results that IREE without tiduc rejects, or for which it computes wrong results."""

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from cases.iree_calls import CALLS
from cases.iree_case import NAN, Array
from cases.iree_complex_programs import COMPLEX
from cases.iree_fills import FILLS
from cases.iree_pools import IMAGE, POOLS, POOLS_OF_EQUAL_SIZES
from cases.iree_returned_twice import RETURNED
from cases.iree_sizes import SIZES
from cases.iree_strides import STRIDES
from cases.iree_sums import SUMS
from cases.iree_vmvx_programs import VMVX

RNG = np.random.default_rng(0)
T = "tensor<6x6xf32>"
S = "tensor<9x9xf32>"
M, INDEX = "tensor<2x4xi32>", "tensor<i32>"
F8, PREDICATE = "tensor<4xf8E4M3FN>", "tensor<3xi1>"
FLOATS = np.array([NAN, 1, -2, 0.5], np.float32)


def function(signature: str, body: str) -> str:
    return f"func.func @main{signature} {{\n{body}\n}}\n"


VECTORS_FIRST = """
func.func @main(%x: tensor<5x4xf32>, %i: tensor<1x5x3x3xi32>) -> tensor<5x3x3x1xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [3], collapsed_slice_dims = [], operand_batching_dims = [0],
      start_indices_batching_dims = [1], start_index_map = [1], index_vector_dim = 0>,
    slice_sizes = array<i64: 1, 1>, indices_are_sorted = false
  }> : (tensor<5x4xf32>, tensor<1x5x3x3xi32>) -> tensor<5x3x3x1xf32>
  return %0 : tensor<5x3x3x1xf32>
}
"""
STEPS = """
func.func @main(%x: tensor<9x3xf32>, %i: tensor<4x1xi32>) -> tensor<2x4xf32> {
  %0 = stablehlo.slice %x [0:9:2, 1:2] : (tensor<9x3xf32>) -> tensor<5x1xf32>
  %1 = "stablehlo.gather"(%0, %i) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 2, 1>, indices_are_sorted = false
  }> : (tensor<5x1xf32>, tensor<4x1xi32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
"""
COLUMN = """
func.func @main(%x: tensor<3x5x4xf64>, %i: tensor<3x5x1xi32>) -> tensor<3x5xf64> {
  %0 = stablehlo.slice %x [0:3, 0:5, 0:1] : (tensor<3x5x4xf64>) -> tensor<3x5x1xf64>
  %1 = stablehlo.reshape %0 : (tensor<3x5x1xf64>) -> tensor<3x5xf64>
  %2 = "stablehlo.gather"(%1, %i) <{
    dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
      start_index_map = [1], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 1>
  }> : (tensor<3x5xf64>, tensor<3x5x1xi32>) -> tensor<3x5xf64>
  return %2 : tensor<3x5xf64>
}
"""
"""A gather of elements of a strided column. `jnp.linalg.solve(a, a[..., :1])` permutes such a column."""
WINDOWS_OVER_NOTHING = """
func.func @main(%x: tensor<0xi16>, %y: tensor<0xi16>) -> (tensor<1xi16>, tensor<1xi16>) {
  %zero = stablehlo.constant dense<0> : tensor<i16>
  %least = stablehlo.constant dense<-32768> : tensor<i16>
  %0:2 = "stablehlo.reduce_window"(%x, %y, %least, %zero) <{
    padding = dense<2> : tensor<1x2xi64>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>
  }> ({
  ^bb0(%a: tensor<i16>, %b: tensor<i16>, %c: tensor<i16>, %d: tensor<i16>):
    %1 = stablehlo.maximum %a, %c : tensor<i16>
    %2 = stablehlo.or %b, %d : tensor<i16>
    stablehlo.return %1, %2 : tensor<i16>, tensor<i16>
  }) : (tensor<0xi16>, tensor<0xi16>, tensor<i16>, tensor<i16>) -> (tensor<1xi16>, tensor<1xi16>)
  return %0#0, %0#1 : tensor<1xi16>, tensor<1xi16>
}
"""
SLICED = """
func.func @main(%x: tensor<1000xf32>, %i: tensor<i32>) -> (tensor<160xf32>, tensor<160xf32>, tensor<4x128xi8>) {
  %0 = stablehlo.slice %x [3:163] : (tensor<1000xf32>) -> tensor<160xf32>
  %1 = stablehlo.negate %0 : tensor<160xf32>
  %2 = stablehlo.dynamic_slice %x, %i, sizes = [160] : (tensor<1000xf32>, tensor<i32>) -> tensor<160xf32>
  %3 = stablehlo.negate %2 : tensor<160xf32>
  %4 = stablehlo.convert %x : (tensor<1000xf32>) -> tensor<1000xi8>
  %5 = stablehlo.slice %4 [2:515] : (tensor<1000xi8>) -> tensor<513xi8>
  %6 = stablehlo.slice %5 [1:513] : (tensor<513xi8>) -> tensor<512xi8>
  %7 = stablehlo.reshape %6 : (tensor<512xi8>) -> tensor<4x128xi8>
  %8 = stablehlo.negate %7 : tensor<4x128xi8>
  return %1, %3, %8 : tensor<160xf32>, tensor<160xf32>, tensor<4x128xi8>
}
"""
CONCATENATED = """
func.func @main(%x: tensor<163xf32>, %y: tensor<64x64xf32>) -> tensor<4259xf32> {
  %0 = stablehlo.negate %x : tensor<163xf32>
  %1 = stablehlo.negate %y : tensor<64x64xf32>
  %2 = stablehlo.reshape %1 : (tensor<64x64xf32>) -> tensor<4096xf32>
  %3 = stablehlo.concatenate %0, %2, dim = 0 : (tensor<163xf32>, tensor<4096xf32>) -> tensor<4259xf32>
  return %3 : tensor<4259xf32>
}
"""
GROUPED = """func.func @main(%x: tensor<1x4x4xf32>, %k: tensor<2x2x6xf32>) -> tensor<1x3x6xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<1x4x4xf32>, tensor<2x2x6xf32>) -> tensor<1x3x6xf32>
  return %0 : tensor<1x3x6xf32>
}"""
NESTED = """func.func @main(%p: tensor<f64>, %q: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %x = stablehlo.sine %p : tensor<f64>
  %outside = stablehlo.compare GT, %p, %zero : (tensor<f64>, tensor<f64>) -> tensor<i1>
  %0:3 = "stablehlo.if"(%outside) ({
    %inside = stablehlo.compare GT, %q, %zero : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %1:3 = "stablehlo.if"(%inside) ({
      %2 = stablehlo.multiply %x, %q : tensor<f64>
      %3 = stablehlo.multiply %x, %2 : tensor<f64>
      %4 = stablehlo.multiply %q, %2 : tensor<f64>
      stablehlo.return %2, %3, %4 : tensor<f64>, tensor<f64>, tensor<f64>
    }, {
      stablehlo.return %x, %zero, %q : tensor<f64>, tensor<f64>, tensor<f64>
    }) : (tensor<i1>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
    %5 = stablehlo.multiply %x, %1#2 : tensor<f64>
    stablehlo.return %1#0, %5, %1#0 : tensor<f64>, tensor<f64>, tensor<f64>
  }, {
    stablehlo.return %q, %zero, %p : tensor<f64>, tensor<f64>, tensor<f64>
  }) : (tensor<i1>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
  return %0#0, %0#1, %0#2 : tensor<f64>, tensor<f64>, tensor<f64>
}
"""
SHIFTED = """func.func @main(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %y:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<6x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %less = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %square = stablehlo.multiply %i, %i : tensor<i32>
    %to = stablehlo.subtract %square, %one : tensor<i32>
    %rows = stablehlo.dynamic_slice %a, %i, %zero, sizes = [2, 4]
      : (tensor<6x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
    %b = stablehlo.dynamic_update_slice %a, %rows, %to, %zero
      : (tensor<6x4xf32>, tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<6x4xf32>
    stablehlo.return %j, %b : tensor<i32>, tensor<6x4xf32>
  }
  return %y#1 : tensor<6x4xf32>
}"""
V = "tensor<9xf32>"
SAME_BEGINNING = f"""
func.func @main(%a: {S}, %b: {S}) -> (tensor<18x9xf32>, tensor<18x9xf32>) {{
  %q = stablehlo.negate %b : {S}
  %p = stablehlo.multiply %q, %a : {S}
  %x = stablehlo.concatenate %p, %b, dim = 0 : ({S}, {S}) -> tensor<18x9xf32>
  %y = stablehlo.concatenate %p, %q, dim = 0 : ({S}, {S}) -> tensor<18x9xf32>
  return %x, %y : tensor<18x9xf32>, tensor<18x9xf32>
}}
"""
ROWS_AND_COLUMNS = f"""
func.func @main(%x: {S}) -> {S} {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : ({S}, tensor<f32>) -> {V}
  %r = stablehlo.broadcast_in_dim %s, dims = [0] : ({V}) -> {S}
  %c = stablehlo.broadcast_in_dim %s, dims = [1] : ({V}) -> {S}
  %y = stablehlo.add %r, %c : {S}
  return %y : {S}
}}
"""
READ_AND_UPDATED = f"""
func.func @main(%p: {V}, %u: tensor<1xf32>, %i: tensor<i32>, %a: {S}) -> ({V}, {V}, {S}) {{
  %x = stablehlo.multiply %p, %p : {V}
  %r = stablehlo.reverse %x, dims = [0] : {V}
  %y = stablehlo.dynamic_update_slice %x, %u, %i : ({V}, tensor<1xf32>, tensor<i32>) -> {V}
  %m = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({S}, {S}) -> {S}
  return %r, %y, %m : {V}, {V}, {S}
}}
"""
CONSTANT_PLACES = """
func.func @main(%p: tensor<3x1xf64>) -> (tensor<4x1xf64>, tensor<3xf64>) {
  %x = stablehlo.multiply %p, %p : tensor<3x1xf64>
  %c = stablehlo.constant dense<0> : tensor<3x1xi32>
  %r = "stablehlo.gather"(%x, %c) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
    start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}>
    : (tensor<3x1xf64>, tensor<3x1xi32>) -> tensor<3xf64>
  %q = stablehlo.add %r, %r : tensor<3xf64>
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %y = stablehlo.pad %x, %z, low = [1, 0], high = [0, 0], interior = [0, 0]
    : (tensor<3x1xf64>, tensor<f64>) -> tensor<4x1xf64>
  return %y, %q : tensor<4x1xf64>, tensor<3xf64>
}
"""
READ_BY_ANOTHER = f"""
func.func @main(%p: {T} {{iree.abi.output = 0 : index}}, %g: {T}) -> ({T}, {T}) {{
  %0 = stablehlo.subtract %p, %g : {T}
  %1 = stablehlo.dot_general %g, %p, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}
  return %0, %1 : {T}, {T}
}}
"""
UPDATE_OF_ARGUMENT = """func.func @main(%a: tensor<4xf32>, %u: tensor<3xf32>, %k: tensor<i32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %b = stablehlo.optimization_barrier %a : tensor<4xf32>
  %y = stablehlo.dynamic_update_slice %b, %u, %k : (tensor<4xf32>, tensor<3xf32>, tensor<i32>) -> tensor<4xf32>
  return %y, %a : tensor<4xf32>, tensor<4xf32>
}"""
TABLE = f"%t = stablehlo.constant dense<[[6, 3, 0, 4], [0, 7, 0, -1]]> : {M}"
CONSTANT_CARRY = function(
    f"(%x: {M}, %n: {INDEX}) -> {M}",
    f"""%zero = stablehlo.constant dense<0> : {INDEX}
    %one = stablehlo.constant dense<1> : {INDEX}
    {TABLE}
    %y:2 = stablehlo.while(%i = %zero, %a = %t) : {INDEX}, {M}
    cond {{
      %less = stablehlo.compare LT, %i, %n : ({INDEX}, {INDEX}) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : {INDEX}
      stablehlo.return %j, %x : {INDEX}, {M}
    }}
    return %y#1 : {M}""",
)
BATCH_NORM_GRAD = """func.func @main(%x: tensor<4x1xf64>, %s: tensor<1xf64>, %m: tensor<1xf64>, %v: tensor<1xf64>,
    %g: tensor<4x1xf64>) -> (tensor<4x1xf64>, tensor<1xf64>, tensor<1xf64>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{epsilon = 0.0 : f32, feature_index = 1 : i64}>
    : (tensor<4x1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<4x1xf64>)
      -> (tensor<4x1xf64>, tensor<1xf64>, tensor<1xf64>)
  return %0#0, %0#1, %0#2 : tensor<4x1xf64>, tensor<1xf64>, tensor<1xf64>
}"""
HINT = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""
MESH = '"sdy.mesh"() {sym_name = "m", mesh = #sdy.mesh<[]>} : () -> ()\n' + function("() -> ()", "return")
CONSTRAINT = '"sdy.mesh"() {sym_name = "devices", mesh = #sdy.mesh<[]>} : () -> ()\n' + function(
    "(%x: tensor<2xf32>) -> tensor<2xf32>",
    """%0 = "sdy.sharding_constraint"(%x) {sharding = #sdy.sharding<@devices, [{}]>} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>""",
)
EINSUM = function(
    "(%x: tensor<2x2xf32>) -> tensor<2x2xf32>",
    """%0 = stablehlo.unary_einsum %x, config = "ab->ba" : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>""",
)
BATCHES = "tensor<2x2x2xf32>"
ALGORITHM = function(
    f"(%x: {BATCHES}, %y: {BATCHES}) -> {BATCHES}",
    f"""%0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1],
      algorithm = <lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1,
      rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>
      : ({BATCHES}, {BATCHES}) -> {BATCHES}
    return %0 : {BATCHES}""",
)
TWO_LOOPS = """func.func @main(%x: tensor<f64>, %n: tensor<i32>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %d = stablehlo.add %x, %x : tensor<f64>
  %u:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f64>
  cond {
    %less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.add %a, %a : tensor<f64>
    stablehlo.return %j, %b : tensor<i32>, tensor<f64>
  }
  %v:2 = stablehlo.while(%i = %zero, %a = %d) : tensor<i32>, tensor<f64>
  cond {
    %less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.multiply %a, %a : tensor<f64>
    stablehlo.return %j, %b : tensor<i32>, tensor<f64>
  }
  %e = stablehlo.add %d, %v#1 : tensor<f64>
  %f = stablehlo.add %e, %u#1 : tensor<f64>
  return %f : tensor<f64>
}"""
EMPTY = """func.func @main(%x: tensor<1x3x0xf32>, %k: tensor<2x0x2xf32>) -> tensor<1x2x2xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x0xf32>, tensor<2x0x2xf32>) -> tensor<1x2x2xf32>
  return %0 : tensor<1x2x2xf32>
}"""


def numbers(*shape: int) -> NDArray[np.float32]:
    return RNG.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)


BATCH = np.array([[1.0], [2], [3], [6]])
GRADIENT = np.array([[1.0], [0], [-1], [2]])
H = (BATCH - 3) / np.sqrt(3.5)
INDICES = RNG.integers(-2, 6, (1, 5, 3, 3)).astype(np.int32)

PROGRAMS: dict[str, tuple[str, tuple[Array, ...], tuple[Array, ...] | None]] = {
    "gather_vectors_first": (VECTORS_FIRST, (numbers(5, 4), INDICES), None),
    "gather_of_column": (
        COLUMN,
        (numbers(3, 5, 4).astype(np.float64), np.arange(15, dtype=np.int32).reshape(3, 5, 1) % 4),
        None,
    ),
    "gather_of_steps": (STEPS, (numbers(9, 3), INDICES.reshape(-1, 1)[:4]), None),
    "windows_over_nothing": (WINDOWS_OVER_NOTHING, (np.zeros(0, np.int16),) * 2, None),
    "pools_of_equal_sizes": (POOLS_OF_EQUAL_SIZES, (IMAGE,), POOLS),
    "vulkan/slices": (SLICED, (numbers(1000), np.array(3, np.int32)), None),
    "vulkan/concatenated": (CONCATENATED, (numbers(163), numbers(64, 64)), None),
    "vulkan/convolution_groups": (GROUPED, (numbers(1, 4, 4), numbers(2, 2, 6)), None),
    "null_reference": (NESTED, (np.array(0.5), np.array(0.3)), None),
    "update_by_part": (SHIFTED, (numbers(6, 4),), None),
    "update_of_argument": (UPDATE_OF_ARGUMENT, (numbers(4), numbers(3), np.array(1, np.int32)), None),
    "while_table": (
        CONSTANT_CARRY,
        (np.arange(8, dtype=np.int32).reshape(2, 4), np.array(3, np.int32)),
        None,
    ),
    **COMPLEX,
    **FILLS,
    **CALLS,
    **RETURNED,
    **SIZES,
    **STRIDES,
    **SUMS,
    **VMVX,
    "sums_along_rows_and_columns": (ROWS_AND_COLUMNS, (numbers(9, 9),), None),
    "reads_before_updates": (
        READ_AND_UPDATED,
        (numbers(9), np.float32([-12]), np.array(1, np.int32), numbers(9, 9)),
        None,
    ),
    "gather_at_constant_places": (CONSTANT_PLACES, (np.array([[1.0], [2.0], [3.0]]),), None),
    "concatenations": (SAME_BEGINNING, (numbers(9, 9), numbers(9, 9)), None),
    "donation": (READ_BY_ANOTHER, (numbers(6, 6), numbers(6, 6)), None),
    "batch_norm_grad": (
        BATCH_NORM_GRAD,
        (BATCH, np.array([2.0]), np.array([3.0]), np.array([3.5]), GRADIENT),
        (
            2 / np.sqrt(3.5) * (GRADIENT - 0.5 - H * (GRADIENT * H).sum() / 4),
            (GRADIENT * H).sum(0),
            GRADIENT.sum(0),
        ),
    ),
    "custom_call": (HINT, (np.float32([0, 1]),), (np.float32([0, 1]),)),
    "mesh": (MESH, (), None),
    "constraint": (CONSTRAINT, (np.float32([0, 1]),), (np.float32([0, 1]),)),
    "unary_einsum": (EINSUM, (np.float32([[1, 2], [3, 4]]),), (np.float32([[1, 3], [2, 4]]),)),
    "dot_algorithm": (ALGORITHM, (numbers(2, 2, 2), numbers(2, 2, 2)), None),
    "while_after_another": (TWO_LOOPS, (np.array(0.5), np.array(3, np.int32)), None),
    "convolution_empty": (
        EMPTY,
        (np.zeros((1, 3, 0), np.float32), np.zeros((2, 0, 2), np.float32)),
        (np.zeros((1, 2, 2), np.float32),),
    ),
    "replica_id": (
        function("() -> tensor<ui32>", "%0 = stablehlo.replica_id : tensor<ui32>\nreturn %0 : tensor<ui32>"),
        (),
        (np.array(0, np.uint32),),
    ),
    "float8_nan": (
        function(
            f"(%x: {F8}) -> tensor<4xf32>",
            f"%0 = stablehlo.convert %x : ({F8}) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>",
        ),
        (np.array([255, 56, 192, 48], np.uint8).view(ml_dtypes.float8_e4m3fn),),
        (FLOATS,),
    ),
    "float8_small": (
        function(
            f"(%x: {F8}, %y: {F8}) -> tensor<4xf32>",
            f"%0 = stablehlo.multiply %x, %y : {F8}\n%1 = stablehlo.convert %0 : ({F8}) -> tensor<4xf32>\n"
            "return %1 : tensor<4xf32>",
        ),
        (
            np.array([31] * 4, np.uint8).view(ml_dtypes.float8_e4m3fn),
            np.array([32] * 4, np.uint8).view(ml_dtypes.float8_e4m3fn),
        ),
        (np.float32([2**-6] * 4),),
    ),
    "float8_abs": (
        function(
            f"(%x: {F8}) -> tensor<4xf32>",
            f"%0 = stablehlo.abs %x : {F8}\n%1 = stablehlo.convert %0 : ({F8}) -> tensor<4xf32>\n"
            "return %1 : tensor<4xf32>",
        ),
        (np.array([127, 56, 192, 48], np.uint8).view(ml_dtypes.float8_e4m3fn),),
        (np.abs(FLOATS),),
    ),
}
"""Maps the names of witnesses to programs, arguments and expected results.

None stands for the results of the reference interpreter.
"""
