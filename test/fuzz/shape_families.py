"""Families of ops that rearrange elements, for random programs."""

import math

from composer import ELEMENTS, SIZES, Composer, Value, tensor


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
    """Adds a pad with interior padding and possibly negative padding. The padding value is computed."""
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
    names, types = (", ".join(getattr(p, field) for p in parts) for field in ("name", "type"))
    text = f"stablehlo.concatenate {names}, dim = {dimension} : ({types}) -> {tensor(total, x.element)}"
    return c.emit(text, total, x.is_complex, max(p.bound for p in parts))


def iota(c: Composer) -> Value:
    """Adds the product of a value and an iota along one of its dimensions."""
    x = c.real(1)
    dimension = c.integer(0, x.rank - 1)
    y = c.emit(f"stablehlo.iota dim = {dimension} : {x.type}", x.shape, bound=float(x.shape[dimension]))
    return c.binary("multiply", x, y, x.bound * y.bound)


SHAPES = (broadcast, rearrange, slice_, pad, concatenate, iota)
