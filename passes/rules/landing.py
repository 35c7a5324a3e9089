"""Functions that gather from the positions that a scatter updates, or that scatter other values to these positions."""

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.sizes import Size, any_dynamic, known_equal, product
from tiduc.dialect.shapes.types import element, rank, shape, with_element, with_shape
from tiduc.passes.rules.gather import clamp_indices, components, is_sorted, known_range, signed


def numbers_of(op: Definition) -> hlo.ScatterDimensionNumbers:
    """The dimension numbers of a scatter."""
    return hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])


def is_unique(op: Definition) -> bool:
    """Whether no two updates of a scatter have one position. The op promises this, or each batch has one window."""
    if "unique_indices" in op.attributes and op.attributes["unique_indices"].value:
        return True
    return all(shape(op.operands[-1])[i] <= 1 for i in free_dimensions(op)[1])


def free_dimensions(op: Definition) -> tuple[list[int], list[int]]:
    """Returns the dimensions of indices, and those of updates, along which a scatter lists the windows of one batch."""
    d, indices, updates = numbers_of(op), op.operands[len(op.results)], op.operands[-1]
    of_indices = [i for i in range(rank(indices)) if i != d.index_vector_dim]
    of_updates = [i for i in range(rank(updates)) if i not in d.update_window_dims]
    pairs = zip(of_indices, of_updates, strict=True)
    free = [(i, j) for i, j in pairs if i not in d.scatter_indices_batching_dims]
    return [i for i, _ in free], [j for _, j in free]


def landed(b: StablehloBuilder, op: Definition, y: Value) -> Value:
    """Returns for each update element the element of y at its position, or zero if the scatter drops the update.

    This is the transpose of adding the updates. A gather clamps windows that are out of range. Therefore y is padded
    for windows that are partly out of range, and windows that are entirely out of range are masked.
    """
    indices, updates = op.operands[len(op.results)], op.operands[-1]
    d = numbers_of(op)
    sizes = [1] * rank(y)
    of_window = (i for i in range(rank(y)) if i not in (*d.inserted_window_dims, *d.input_batching_dims))
    for i, dimension in zip(of_window, d.update_window_dims, strict=True):
        sizes[i] = shape(updates)[dimension]
    where = list(d.scattered_dims_to_operand_dims)
    least, greatest = known_range(b, indices)
    room = [shape(y)[i] - sizes[i] for i in where]
    fits = not where or least >= 0 and not any_dynamic(room) and all(greatest <= n for n in room)
    margin = [n - 1 if i in where and not fits else 0 for i, n in enumerate(sizes)]
    along, last = [margin[i] for i in where], [shape(y)[i] - 1 for i in where]
    inside = clamp_indices(b, indices, [-n for n in along], last, d.index_vector_dim)
    start = signed(b, inside, [n + by for n, by in zip(last, along, strict=True)])
    source = y
    if not all(known_equal(n, 0) for n in margin):
        start = b.add(start, components(b, along, start, d.index_vector_dim))
        source = b.pad(y, b.zero(with_shape(y.type, [])), margin, margin, [0] * rank(y))
    numbers = hlo.GatherDimensionNumbers.get(
        d.update_window_dims,
        d.inserted_window_dims,
        d.input_batching_dims,
        d.scatter_indices_batching_dims,
        d.scattered_dims_to_operand_dims,
        d.index_vector_dim,
    )
    sorted_ = is_sorted(op) and (inside is indices or len(where) == 1)
    gathered = b.gather(source, start, numbers, sizes, with_element(updates.type, element(y)), sorted_)
    if fits:
        return gathered
    is_inside = b.compare(inside, indices, "EQ")
    if len(where) == 1:
        is_inside = b.reshape(is_inside, [n for i, n in enumerate(shape(indices)) if i != d.index_vector_dim])
    else:
        true = b.constant(True, with_shape(is_inside.type, []))
        is_inside = b.reduce(is_inside, true, [d.index_vector_dim], "stablehlo.and")
    batch = [i for i in range(rank(updates)) if i not in d.update_window_dims]
    is_inside = b.broadcast_in_dim(is_inside, batch, updates)
    return b.select(is_inside, gathered, b.zeros_like(gathered))


def add_updates(b: StablehloBuilder, op: Definition, x: Value, updates: Value) -> Value:
    """Adds `updates` to x, at the positions of the updates of the scatter `op`."""
    return scatter_like(b, op, x, updates, "stablehlo.add", is_unique(op))


def scatter_like(
    b: StablehloBuilder, op: Definition, x: Value, updates: Value, reducer: str | None, unique: bool
) -> Value:
    """Combines `updates` with x at the positions of the scatter `op`, by the op `reducer`. None overwrites x."""
    indices, numbers = op.operands[len(op.results)], op.attributes["scatter_dimension_numbers"]
    return b.scatter(x, indices, updates, numbers, reducer, is_sorted(op), unique)


def count_from_one(b: StablehloBuilder, like: Value) -> Value:
    """Returns the numbers 1, 2, 3, ... in row-major order, in the shape of `like`. 0 remains free for "no element"."""
    count = product(shape(like))
    few = not isinstance(count, Size) and count < 2**31
    type_ = with_element(like.type, ir.IntegerType.get_signless(32 if few else 64))
    place = b.reshape(b.iota(0, with_shape(type_, [count]), [count]), shape(like))
    return b.add(place, b.constant(1, place))
