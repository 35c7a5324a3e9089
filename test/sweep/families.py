"""Families of ops that random programs are made of: each adds one op, of operands that it makes fit."""

import math

from composer import ELEMENTS, SIZES, Composer, Value, tensor
from control_families import CONTROL
from elementwise_families import ELEMENTWISE

# ---- shapes


def broadcast(c: Composer) -> Value:
    x = c.any()
    shape = [n if n > 1 else c.choose(SIZES) for n in x.shape]
    places = list(range(x.rank))
    if math.prod(shape) * 3 <= ELEMENTS and x.rank < 4:
        place = c.integer(0, x.rank)
        shape.insert(place, c.choose(SIZES))
        places = [i + (i >= place) for i in places]
    return c.broadcast(
        x,
        shape if math.prod(shape) <= ELEMENTS else x.shape,
        places if math.prod(shape) <= ELEMENTS else range(x.rank),
    )


def rearrange(c: Composer) -> Value:
    x = c.any(1)
    op = c.choose(("reshape", "transpose", "reverse"))
    order = list(range(x.rank))
    if op == "reshape":
        return c.reshape(x, c.choose([(math.prod(x.shape),), (1, *x.shape), x.shape[::-1]]))
    if op == "reverse":
        along = [i for i in order if c.flag()]
        text = f"stablehlo.reverse {x.name}, dims = [{', '.join(map(str, along))}] : {x.type}"
        return c.emit(text, x.shape, x.is_complex, x.bound)
    for i in order[:-1]:
        j = c.integer(i, x.rank - 1)
        order[i], order[j] = order[j], order[i]
    shape = [x.shape[i] for i in order]
    type_ = tensor(shape, x.element)
    text = f"stablehlo.transpose {x.name}, dims = [{', '.join(map(str, order))}] : ({x.type}) -> {type_}"
    return c.emit(text, shape, x.is_complex, x.bound)


def slice_(c: Composer) -> Value:
    x = c.any(1)
    parts, shape = [], []
    for n in x.shape:
        low = c.integer(0, n - 1)
        high, stride = c.integer(low + 1, n), c.integer(1, 2)
        parts.append(f"{low}:{high}:{stride}")
        shape.append(-(-(high - low) // stride))
    text = f"stablehlo.slice {x.name} [{', '.join(parts)}] : ({x.type}) -> {tensor(shape, x.element)}"
    return c.emit(text, shape, x.is_complex, x.bound)


def pad(c: Composer) -> Value:
    """With a value that may be active, between elements too, and negatively."""
    x = c.any(1)
    value = c.fit(c.any(), (), x.is_complex)
    inner = c.integers(x.rank, 0, 1)
    low, high = c.integers(x.rank, -1, 1), c.integers(x.rank, 0, 1)
    shape = [n + lo + hi + (n - 1) * i for n, lo, hi, i in zip(x.shape, low, high, inner, strict=True)]
    if min(shape) < 1 or math.prod(shape) > ELEMENTS:
        low, high, inner, shape = [0] * x.rank, [1] + [0] * (x.rank - 1), [0] * x.rank, list(x.shape)
        shape[0] += 1
    text = (
        f"stablehlo.pad {x.name}, {value.name}, low = {low}, high = {high}, interior = {inner} "
        f": ({x.type}, {value.type}) -> {tensor(shape, x.element)}"
    )
    return c.emit(text, shape, x.is_complex, x.bound + value.bound)


def concatenate(c: Composer) -> Value:
    x = c.any(1)
    dimension = c.integer(0, x.rank - 1)
    size = c.choose(SIZES)
    shape = (*x.shape[:dimension], size, *x.shape[dimension + 1 :])
    parts = [x, x if c.flag() else c.fit(c.any(), shape, x.is_complex)]
    total = (*x.shape[:dimension], sum(p.shape[dimension] for p in parts), *x.shape[dimension + 1 :])
    if math.prod(total) > ELEMENTS:
        parts, total = [x], x.shape
    names, types = (", ".join(getattr(p, what) for p in parts) for what in ("name", "type"))
    text = f"stablehlo.concatenate {names}, dim = {dimension} : ({types}) -> {tensor(total, x.element)}"
    return c.emit(text, total, x.is_complex, max(p.bound for p in parts))


# ---- reductions and products


def reduce(c: Composer) -> Value:
    x = c.any(1)
    dimensions = [i for i in range(x.rank) if c.flag()]
    op = c.choose(("add", "multiply") if x.is_complex else ("add", "multiply", "maximum", "minimum"))
    init = c.fit(c.any(), (), x.is_complex) if c.flag() else None
    return c.reduce(x, dimensions, op, init)


def reduce_pair(c: Composer) -> Value:
    """The largest entries and where they are, as an argmax is written."""
    x = c.real(1)
    dimension = c.integer(0, x.rank - 1)
    kept = x.shape[:dimension] + x.shape[dimension + 1 :]
    where, init = tensor(x.shape, "i32"), c.constant(-100.0)
    position = c.emit(f"stablehlo.iota dim = {dimension} : {where}", x.shape)
    zero = c.emit("stablehlo.constant dense<0> : tensor<i32>")
    types = f"{tensor(kept)}, {tensor(kept, 'i32')}"
    pair = c.emit(
        f"stablehlo.reduce({x.name} init: {init.name}), ({position.name} init: {zero.name}) across dimensions = "
        f"[{dimension}] : ({x.type}, {where}, tensor<f64>, tensor<i32>) -> ({types})\n"
        "  reducer(%a: tensor<f64>, %b: tensor<f64>) (%i: tensor<i32>, %j: tensor<i32>) {\n"
        "    %p = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>\n"
        "    %v = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f64>\n"
        "    %w = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>\n"
        "    stablehlo.return %v, %w : tensor<f64>, tensor<i32>\n  }",
        kept,
        bound=x.bound,
    )
    c.several(pair, 2)
    return Value(f"{pair.name}#0", kept, False, x.bound)


def dot_general(c: Composer) -> Value:
    x = c.any(1)
    batch = [c.integer(0, x.rank - 1)] if c.flag() else []
    contract = [i for i in range(x.rank) if i not in batch and c.flag()]
    free = [c.choose(SIZES) for _ in range(c.integer(0, 1))]
    shape = tuple(x.shape[i] for i in contract) + tuple(x.shape[i] for i in batch) + tuple(free)
    y = c.fit(c.any(), shape, x.is_complex)
    kept = [n for i, n in enumerate(x.shape) if i not in batch + contract]
    result = [x.shape[i] for i in batch] + kept + free
    of_y = list(range(len(contract))), list(range(len(contract), len(contract) + len(batch)))
    text = f"stablehlo.dot_general {x.name}, {y.name}, "
    if batch:
        text += f"batching_dims = {batch} x {of_y[1]}, "
    text += f"contracting_dims = {contract} x {of_y[0]} : ({x.type}, {y.type}) -> {tensor(result, x.element)}"
    count = math.prod(x.shape[i] for i in contract)
    return c.emit(text, result, x.is_complex, x.bound * y.bound * count)


def convolution(c: Composer) -> Value:
    """One spatial dimension, with strides, dilations and padding."""
    batch, features, out, n, k = 1, c.choose((1, 2)), c.choose((1, 2)), c.integer(2, 4), c.choose((1, 2, 3))
    stride, dilate_x, dilate_w = c.integers(3, 1, 2)
    low, high = c.integers(2, 0, 2)
    x = c.fit(c.real(), (batch, n, features))
    w = c.fit(c.real(), (k, features, out))
    size = (n - 1) * dilate_x + 1 + low + high - ((k - 1) * dilate_w + 1)
    if size < 0:
        low, size = low - size, 0
    shape = (batch, size // stride + 1, out)
    text = (
        f"stablehlo.convolution({x.name}, {w.name}) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = "
        f"{{stride = [{stride}], pad = [[{low}, {high}]], lhs_dilate = [{dilate_x}], rhs_dilate = [{dilate_w}]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} "
        f": ({x.type}, {w.type}) -> {tensor(shape)}"
    )
    return c.emit(text, shape, bound=x.bound * w.bound * k * features)


def reduce_window(c: Composer) -> Value:
    """Sums, largest and smallest entries of windows, and running ones."""
    x = c.real(1)
    op = c.choose(("add", "maximum", "minimum"))
    init = c.constant({"add": 0.0, "maximum": -100.0, "minimum": 100.0}[op])
    n = x.shape[0]
    size, stride, dilate, low, high = c.integer(1, n), c.integer(1, 2), 1, c.integer(0, 1), 0
    if c.flag():
        size, stride, low = n, 1, n - 1  # running
    elif (n - 1) // 2 + 1 >= size:
        dilate = 2
        size = min(size, (n - 1) // 2 + 1)
    rest = [1] * (x.rank - 1)
    zeros = "".join(", [0, 0]" for _ in rest)
    shape = ((n + low + high - (size - 1) * dilate - 1) // stride + 1, *x.shape[1:])
    arrays = {
        "window_dimensions": [size, *rest],
        "window_strides": [stride, *rest],
        "window_dilations": [dilate, *rest],
    }
    attributes = ", ".join(f"{name} = array<i64: {', '.join(map(str, v))}>" for name, v in arrays.items())
    text = (
        f'"stablehlo.reduce_window"({x.name}, {init.name}) <{{{attributes}, '
        f"padding = dense<[[{low}, {high}]{zeros}]> : tensor<{x.rank}x2xi64>}}> ({c.scalars(op)}) "
        f": ({x.type}, tensor<f64>) -> {tensor(shape)}"
    )
    return c.emit(text, shape, bound=x.bound * size if op == "add" else x.bound)


# ---- indexing


def gather(c: Composer) -> Value:
    """Rows by constant indices, some twice, some out of range."""
    x = c.any(1)
    count = c.choose(SIZES)
    indices = [[i] for i in c.integers(count, -1, x.shape[0])]
    shape = (count, *x.shape[1:])
    chosen = c.emit(f"stablehlo.constant dense<{indices}> : tensor<{count}x1xi32>")
    offset = ", ".join(map(str, range(1, x.rank)))
    sizes = ", ".join(map(str, (1, *x.shape[1:])))
    text = (
        f'"stablehlo.gather"({x.name}, {chosen.name}) {{dimension_numbers = #stablehlo.gather<'
        f"offset_dims = [{offset}], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        f"slice_sizes = array<i64: {sizes}>, indices_are_sorted = false}} "
        f": ({x.type}, tensor<{count}x1xi32>) -> {tensor(shape, x.element)}"
    )
    return c.emit(text, shape, x.is_complex, x.bound)


def scatter(c: Composer) -> Value:
    """Rows are added, multiplied or put in, by constant indices, some twice, some out of range."""
    x = c.real(1)
    count = c.choose(SIZES)
    op = c.choose(("add", "multiply", "minimum", "maximum", "set"))
    indices = [[i] for i in c.integers(count, -1, x.shape[0])]
    updates = c.fit(c.real(), (count, *x.shape[1:]))
    chosen = c.emit(f"stablehlo.constant dense<{indices}> : tensor<{count}x1xi32>")
    window = ", ".join(map(str, range(1, x.rank)))
    body = c.scalars(op)
    if op == "set":
        body = "{\n  ^bb0(%a: tensor<f64>, %b: tensor<f64>):\n    stablehlo.return %b : tensor<f64>\n  }"
    text = (
        f'"stablehlo.scatter"({x.name}, {chosen.name}, {updates.name}) ({body}) {{scatter_dimension_numbers = '
        f"#stablehlo.scatter<update_window_dims = [{window}], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} "
        f": ({x.type}, tensor<{count}x1xi32>, {updates.type}) -> {x.type}"
    )
    many = x.bound + count * updates.bound
    return c.emit(
        text, x.shape, bound=x.bound * max(1.0, updates.bound) ** count if op == "multiply" else many
    )


def dynamic_slice(c: Composer) -> Value:
    """Of starts in range and beyond it; or the update of one."""
    x = c.any(1)
    starts = [c.emit(f"stablehlo.constant dense<{i}> : tensor<i32>").name for i in c.integers(x.rank, -1, 3)]
    sizes = tuple(c.integer(1, n) for n in x.shape)
    positions = ", ".join(["tensor<i32>"] * x.rank)
    if c.flag():
        text = (
            f"stablehlo.dynamic_slice {x.name}, {', '.join(starts)}, sizes = {list(sizes)} "
            f": ({x.type}, {positions}) -> {tensor(sizes, x.element)}"
        )
        return c.emit(text, sizes, x.is_complex, x.bound)
    y = c.fit(c.any(), sizes, x.is_complex)
    text = (
        f"stablehlo.dynamic_update_slice {x.name}, {y.name}, {', '.join(starts)} "
        f": ({x.type}, {y.type}, {positions}) -> {x.type}"
    )
    return c.emit(text, x.shape, x.is_complex, max(x.bound, y.bound))


def sort(c: Composer) -> Value:
    """One operand by another, or by itself."""
    x = c.real(1)
    y = c.fit(c.real(), x.shape)
    dimension, direction = c.integer(0, x.rank - 1), c.choose(("LT", "GT"))
    pair = c.emit(
        f'"stablehlo.sort"({x.name}, {y.name}) <{{dimension = {dimension} : i64, is_stable = true}}> ({{\n'
        "  ^bb0(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>, %d: tensor<f64>):\n"
        f"    %p = stablehlo.compare {direction}, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>\n"
        f"    stablehlo.return %p : tensor<i1>\n  }}) : ({x.type}, {y.type}) -> ({x.type}, {y.type})"
    )
    c.several(pair, 2)
    i = c.integer(0, 1)
    return Value(f"{pair.name}#{i}", x.shape, False, (x, y)[i].bound)


FAMILIES = (
    *ELEMENTWISE,
    *CONTROL,
    broadcast,
    rearrange,
    slice_,
    pad,
    concatenate,
    reduce,
    reduce_pair,
    dot_general,
    convolution,
    reduce_window,
    gather,
    scatter,
    dynamic_slice,
    sort,
)
