"""A table of the traits of each StableHLO and CHLO op. Other modules test sets of names, as in `op.name in CHEAP`.

| column | value | meaning |
|---|---|---|
| kind | elementwise | a result element depends on the operands' elements of the same index, and on scalar operands |
| | broadcasting | broadcasts its operands to one shape, and is then elementwise |
| | view | moves elements, as attributes determine; all array operands have the same element type |
| | indexing | moves elements, as integer operands determine |
| | product | a sum of products of elements of two operands |
| | control, collective, ... | other kinds of ops, as StableHLO's specification describes them |
| flops | . | the op computes nothing with floats |
| | a number n | one operation on floats per element of the result; n real operations per complex element |
| | function | one transcendental function or root per element |
| | formula | a formula in `dialect/facts/costs.py` |
| | ? | not known |
| bytes | none | reads and writes no bytes, because the result can share the operand's memory |
| | part | reads as many bytes as it writes, even if its first operand is larger |
| | formula | a formula in `dialect/facts/costs.py` |
| | . | the op reads all its operands and writes all its results |
| sizes | alike | the sizes of a result are those of an operand of equal rank |
| | each | result number i has the sizes of operand number i |
| | 0, 1 | a result has the sizes of this operand |
| | static | the op has no dynamic dimensions, and requires nothing of the sizes of other arrays |
| | vector | one operand is a vector that contains the sizes of the result |
| | formula | a formula in `dialect/shapes/origins.py` or `results.py` |
| | . | only the result's type gives the sizes |
| order | any | commutative, and associative up to rounding |
| | real | commutative and associative for real elements, not for complex ones with NaN or -0 |
| | swap | commutative |
| traits | bilinear | linear in each of its two operands |
| | cheap | cheaper to recompute than to store |
| | double | takes the time of two functions: compilers compute it by an exponential and a division |
| | draws | results differ between executions, because they are random numbers or data from outside |
| | moves | does no arithmetic on elements, except perhaps in a region or a callee |
| | neutral=n | `op(x, n)` is x for all floats x |
| | parallel | can run on chunks of a dimension that operands and results have in common, as elementwise ops can |
| | parts | joins parts to complex numbers, or extracts a part of complex numbers |
| | sizes_in=i,j | the operands that are vectors of sizes |
| | stateful | results may differ for equal operands, so two such ops are never merged |
| | vectorized | a function for which compilers have vector code, as fast as reading and writing the array |

In the other columns, `.` means that no value applies. StableHLO's dialect declares the ops with an `order` to be
commutative. Exponentials and other functions are not cheap: a loop took a fifth longer when it recomputed a tanh.
"""

from dataclasses import dataclass

TABLE = """
op                                    kind          flops    bytes   sizes   order traits
stablehlo.abs                         elementwise   2        .       alike   .     cheap
stablehlo.add                         elementwise   2        .       alike   any   cheap neutral=-0
stablehlo.after_all                   token         .        .       static  .     moves
stablehlo.all_gather                  collective    .        .       .       .     moves
stablehlo.all_reduce                  collective    formula  .       each    .     .
stablehlo.all_to_all                  collective    .        .       .       .     moves
stablehlo.and                         elementwise   .        .       alike   any   cheap
stablehlo.async_done                  call          ?        .       .       .     moves
stablehlo.async_start                 call          ?        .       .       .     moves
stablehlo.atan2                       elementwise   function .       alike   .     .
stablehlo.batch_norm_grad             normalization formula  .       formula .     .
stablehlo.batch_norm_inference        normalization formula  .       0       .     .
stablehlo.batch_norm_training         normalization formula  .       formula .     .
stablehlo.bitcast_convert             bits          .        none    alike   .     cheap moves
stablehlo.broadcast                   view          .        .       formula .     moves
stablehlo.broadcast_in_dim            view          .        .       .       .     cheap moves parallel
stablehlo.case                        control       .        .       .       .     moves
stablehlo.cbrt                        elementwise   function .       alike   .     .
stablehlo.ceil                        elementwise   2        .       alike   .     cheap
stablehlo.cholesky                    algebra       formula  .       0       .     .
stablehlo.clamp                       elementwise   2        .       alike   .     cheap
stablehlo.collective_broadcast        collective    .        .       .       .     moves
stablehlo.collective_permute          collective    .        .       0       .     moves
stablehlo.collective_reduce           collective    ?        .       .       .     .
stablehlo.compare                     elementwise   2        .       alike   .     cheap
stablehlo.complex                     elementwise   .        .       alike   .     cheap parts
stablehlo.composite                   call          ?        .       .       .     moves parallel
stablehlo.concatenate                 view          .        .       formula .     cheap moves
stablehlo.constant                    source        .        .       static  .     cheap moves parallel
stablehlo.convert                     elementwise   .        .       alike   .     cheap
stablehlo.convolution                 product       formula  .       formula .     bilinear
stablehlo.cosine                      elementwise   function .       alike   .     .
stablehlo.count_leading_zeros         elementwise   .        .       alike   .     .
stablehlo.create_token                token         .        .       static  .     .
stablehlo.cross-replica-sum           collective    ?        .       .       .     .
stablehlo.custom_call                 call          ?        .       .       .     moves stateful
stablehlo.divide                      elementwise   11       .       alike   .     cheap neutral=1
stablehlo.dot                         product       formula  .       formula .     bilinear
stablehlo.dot_general                 product       formula  .       formula .     bilinear parallel
stablehlo.dynamic_broadcast_in_dim    indexing      .        .       vector  .     moves sizes_in=1
stablehlo.dynamic_conv                product       ?        .       formula .     bilinear
stablehlo.dynamic_gather              indexing      .        part    formula .     moves sizes_in=2
stablehlo.dynamic_iota                source        .        .       vector  .     sizes_in=0
stablehlo.dynamic_pad                 indexing      .        .       formula .     moves sizes_in=2,3,4
stablehlo.dynamic_reshape             indexing      .        .       vector  .     moves sizes_in=1
stablehlo.dynamic_slice               indexing      .        part    .       .     cheap moves
stablehlo.dynamic_update_slice        indexing      .        formula 0       .     moves
stablehlo.einsum                      product       ?        .       .       .     bilinear
stablehlo.exponential                 elementwise   function .       alike   .     vectorized
stablehlo.exponential_minus_one       elementwise   function .       alike   .     .
stablehlo.fft                         transform     formula  .       0       .     .
stablehlo.floor                       elementwise   2        .       alike   .     cheap
stablehlo.gather                      indexing      .        part    formula .     moves
stablehlo.get_dimension_size          size          .        .       static  .     moves
stablehlo.get_tuple_element           tuple         .        none    .       .     moves
stablehlo.if                          control       .        .       .       .     moves
stablehlo.imag                        elementwise   .        .       alike   .     cheap parts
stablehlo.infeed                      transfer      .        .       .       .     moves stateful draws
stablehlo.iota                        source        .        .       static  .     cheap parallel
stablehlo.is_finite                   elementwise   .        .       alike   .     cheap
stablehlo.log                         elementwise   function .       alike   .     .
stablehlo.log_plus_one                elementwise   function .       alike   .     .
stablehlo.logistic                    elementwise   function .       alike   .     vectorized double
stablehlo.map                         map           formula  .       alike   .     moves
stablehlo.maximum                     elementwise   2        .       alike   real  cheap neutral=-inf
stablehlo.minimum                     elementwise   2        .       alike   real  cheap neutral=inf
stablehlo.multiply                    elementwise   6        .       alike   any   cheap bilinear neutral=1
stablehlo.negate                      elementwise   2        .       alike   .     cheap
stablehlo.not                         elementwise   .        .       alike   .     cheap
stablehlo.optimization_barrier        barrier       .        none    each    .     moves
stablehlo.or                          elementwise   .        .       alike   any   cheap
stablehlo.outfeed                     transfer      .        .       .       .     moves
stablehlo.pad                         view          .        .       formula .     cheap moves
stablehlo.partition_id                source        .        .       static  .     .
stablehlo.popcnt                      elementwise   .        .       alike   .     .
stablehlo.power                       elementwise   function .       alike   .     .
stablehlo.real                        elementwise   .        .       alike   .     cheap parts
stablehlo.real_dynamic_slice          indexing      .        part    formula .     moves sizes_in=1,2,3
stablehlo.recv                        transfer      .        .       .       .     moves stateful draws
stablehlo.reduce                      reduction     formula  .       formula .     moves parallel
stablehlo.reduce_precision            elementwise   2        .       alike   .     .
stablehlo.reduce_scatter              collective    formula  .       .       .     .
stablehlo.reduce_window               reduction     formula  .       formula .     moves
stablehlo.remainder                   elementwise   2        .       alike   .     cheap
stablehlo.replica_id                  source        .        .       static  .     .
stablehlo.reshape                     view          .        none    .       .     cheap moves parallel
stablehlo.return                      terminator    .        .       static  .     moves
stablehlo.reverse                     view          .        .       alike   .     cheap moves
stablehlo.rng                         random        .        .       .       .     stateful draws
stablehlo.rng_bit_generator           random        .        .       .       .     .
stablehlo.round_nearest_afz           elementwise   2        .       alike   .     .
stablehlo.round_nearest_even          elementwise   2        .       alike   .     .
stablehlo.rsqrt                       elementwise   function .       alike   .     vectorized
stablehlo.scatter                     indexing      formula  formula each    .     moves
stablehlo.select                      elementwise   .        .       alike   .     cheap moves
stablehlo.select_and_scatter          reduction     formula  .       0       .     moves
stablehlo.send                        transfer      .        .       .       .     moves
stablehlo.set_dimension_size          size          .        .       formula .     moves
stablehlo.shift_left                  elementwise   .        .       alike   .     .
stablehlo.shift_right_arithmetic      elementwise   .        .       alike   .     .
stablehlo.shift_right_logical         elementwise   .        .       alike   .     .
stablehlo.sign                        elementwise   2        .       alike   .     cheap
stablehlo.sine                        elementwise   function .       alike   .     .
stablehlo.slice                       view          .        part    .       .     cheap moves
stablehlo.sort                        order         formula  .       each    .     moves
stablehlo.sqrt                        elementwise   function .       alike   .     cheap
stablehlo.subtract                    elementwise   2        .       alike   .     cheap neutral=0
stablehlo.tan                         elementwise   function .       alike   .     .
stablehlo.tanh                        elementwise   function .       alike   .     vectorized
stablehlo.torch_index_select          indexing      ?        .       .       .     moves
stablehlo.transpose                   view          .        .       formula .     cheap moves parallel
stablehlo.triangular_solve            algebra       formula  .       1       .     .
stablehlo.tuple                       tuple         .        none    .       .     moves
stablehlo.unary_einsum                reduction     ?        .       .       .     .
stablehlo.uniform_dequantize          quantization  ?        .       alike   .     .
stablehlo.uniform_quantize            quantization  ?        .       alike   .     .
stablehlo.while                       control       .        .       .       .     moves
stablehlo.xor                         elementwise   .        .       alike   any   cheap
chlo._asin_acos_kernel                elementwise   function .       alike   .     .
chlo.acos                             elementwise   function .       alike   .     .
chlo.acosh                            elementwise   function .       alike   .     .
chlo.asin                             elementwise   function .       alike   .     .
chlo.asinh                            elementwise   function .       alike   .     .
chlo.atan                             elementwise   function .       alike   .     .
chlo.atanh                            elementwise   function .       alike   .     .
chlo.bessel_i1e                       elementwise   function .       alike   .     .
chlo.broadcast_add                    broadcasting  2        .       formula any   .
chlo.broadcast_and                    broadcasting  .        .       formula any   .
chlo.broadcast_atan2                  broadcasting  function .       formula .     .
chlo.broadcast_compare                broadcasting  2        .       formula .     .
chlo.broadcast_complex                broadcasting  .        .       formula .     .
chlo.broadcast_divide                 broadcasting  11       .       formula .     .
chlo.broadcast_maximum                broadcasting  2        .       formula real  .
chlo.broadcast_minimum                broadcasting  2        .       formula real  .
chlo.broadcast_multiply               broadcasting  6        .       formula any   bilinear
chlo.broadcast_next_after             broadcasting  2        .       formula .     .
chlo.broadcast_or                     broadcasting  .        .       formula any   .
chlo.broadcast_polygamma              broadcasting  function .       formula .     .
chlo.broadcast_power                  broadcasting  function .       formula .     .
chlo.broadcast_remainder              broadcasting  2        .       formula .     .
chlo.broadcast_select                 broadcasting  .        .       formula .     .
chlo.broadcast_shift_left             broadcasting  .        .       formula .     .
chlo.broadcast_shift_right_arithmetic broadcasting  .        .       formula .     .
chlo.broadcast_shift_right_logical    broadcasting  .        .       formula .     .
chlo.broadcast_subtract               broadcasting  2        .       formula .     .
chlo.broadcast_xor                    broadcasting  .        .       formula any   .
chlo.broadcast_zeta                   broadcasting  function .       formula .     .
chlo.conj                             elementwise   1        .       alike   .     cheap parts
chlo.constant                         source        .        .       static  .     .
chlo.constant_like                    elementwise   .        .       alike   .     .
chlo.cosh                             elementwise   function .       alike   .     .
chlo.digamma                          elementwise   function .       alike   .     .
chlo.erf                              elementwise   function .       alike   .     vectorized
chlo.erf_inv                          elementwise   function .       alike   .     .
chlo.erfc                             elementwise   function .       alike   .     .
chlo.is_inf                           elementwise   2        .       alike   .     .
chlo.is_neg_inf                       elementwise   2        .       alike   .     .
chlo.is_pos_inf                       elementwise   2        .       alike   .     .
chlo.lgamma                           elementwise   function .       alike   .     .
chlo.mulhi                            elementwise   .        .       alike   swap  .
chlo.next_after                       elementwise   2        .       alike   .     .
chlo.polygamma                        elementwise   function .       alike   .     .
chlo.ragged_dot                       product       ?        .       .       .     bilinear
chlo.scan                             scan          ?        .       .       .     .
chlo.sinh                             elementwise   function .       alike   .     .
chlo.square                           elementwise   6        .       alike   .     .
chlo.tan                              elementwise   function .       alike   .     .
chlo.top_k                            order         .        .       0       .     moves
chlo.zeta                             elementwise   function .       alike   .     .
"""


@dataclass(frozen=True)
class Traits:
    """A row of the table. `words` are the entries of the column `traits` that have no value, such as `cheap`."""

    op: str
    kind: str
    flops: str
    bytes: str
    sizes: str
    order: str
    words: frozenset[str]
    neutral: float | None
    sizes_in: tuple[int, ...]


def _row(line: str) -> Traits:
    op, kind, flops, bytes_, sizes, order, *words = line.split()
    given = dict(word.split("=") for word in words if "=" in word)
    plain = [word for word in words if word != "." and "=" not in word]
    neutral = float(given["neutral"]) if "neutral" in given else None
    numbers = tuple(map(int, given["sizes_in"].split(","))) if "sizes_in" in given else ()
    return Traits(op, kind, flops, bytes_, sizes, order, frozenset(plain), neutral, numbers)


TRAITS: dict[str, Traits] = {row.op: row for row in map(_row, TABLE.strip().splitlines()[1:])}


_UNKNOWN = _row("? ? ? . . .")


def traits_of(op: str) -> Traits:
    """The row of the op with this name. An op that is not in the table gets a row of unknown FLOPs, without traits."""
    return TRAITS.get(op, _UNKNOWN)


def _of_kind(kind: str) -> frozenset[str]:
    return frozenset(row.op for row in TRAITS.values() if row.kind == kind)


def _with(word: str) -> frozenset[str]:
    return frozenset(row.op for row in TRAITS.values() if word in row.words)


BROADCASTING = _of_kind("broadcasting")
COLLECTIVES = _of_kind("collective")
CONTROL = _of_kind("control")
ELEMENTWISE = _of_kind("elementwise")
PRODUCTS = _of_kind("product")
VIEWS = _of_kind("view")
UPDATES = frozenset(row.op for row in TRAITS.values() if row.bytes == "formula")

CHEAP = _with("cheap")
COMPLEX_PARTS = _with("parts")
DOUBLE = _with("double")
DRAWING = _with("draws")
MOVING = _with("moves")
PARALLEL = ELEMENTWISE | _with("parallel")
STATEFUL = _with("stateful")
VECTORIZED = _with("vectorized")

ASSOCIATIVE = frozenset(row.op for row in TRAITS.values() if row.order in ("any", "real"))
COMMUTATIVE = frozenset(row.op for row in TRAITS.values() if row.order in ("any", "swap"))
FUNCTIONS = frozenset(row.op for row in TRAITS.values() if row.flops == "function")
NEUTRAL = {row.op: row.neutral for row in TRAITS.values() if row.neutral is not None}
