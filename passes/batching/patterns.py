"""Patterns of sparse Jacobians: the elements of an input on which each element of a value may depend.

    y = x[1:] - x[:-1]        pattern of y:  [[0, 1], [1, 2], [2, 3], ...]

A pattern is an integer array of shape [size of the value, w]. Row j has the flat indices of the input elements on which
element j of the value may depend, padded with -1 to the common length w. A pattern is derived only from the ops of a
linear graph and from the elements that each op reads (`places.py`), so it holds for all values of the primal inputs.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from torch_mlir import ir

from tiduc.dialect.control.control import is_control
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.view import BINDING, View
from tiduc.dialect.ops.control_ops import CALL, GRAPHS
from tiduc.passes.batching.places import MOST, Known, Places, TooManyPlaces, numbered, sources


def patterns(view: View, wanted: Sequence[Value], x: Value, known: Known) -> list[Places | None]:
    """The sparsity pattern of each wanted value's Jacobian with respect to x; None if the value does not depend on x.

    `known(v)` returns the elements of an integer value v that indexes arrays, or None if v is not constant. Raises
    `TooManyPlaces` if a pattern is not sparse, or if an op has no pattern, such as a loop.
    """
    patterns = {x: numbered(x).reshape(-1, 1)}
    _extend(view, view.schedule(wanted), patterns, known)
    return [patterns.get(y) for y in wanted]


def _extend(view: View, order: Iterable[Definition], patterns: dict[Value, Places], known: Known) -> None:
    """For each op in `order` that reads a value in `patterns`, adds the patterns of the op's results."""
    for op in order:
        if patterns.keys().isdisjoint(op.reads):
            continue
        if op.name == BINDING:
            patterns[op.result] = patterns[op.operands[0]]
        elif op.name == CALL:
            _through_call(view, op, patterns, known)
        elif is_control(op) or not patterns.keys().isdisjoint(op.captures) or not _are_arrays(op):
            raise TooManyPlaces
        else:
            for y in op.results:
                patterns[y] = _of_result(op, y, patterns, known)


def _are_arrays(op: Definition) -> bool:
    values = (*op.operands, *op.results)
    return all(isinstance(v.type, ir.RankedTensorType) and v.type.has_static_shape for v in values)


def _through_call(view: View, op: Definition, patterns: dict[Value, Places], known: Known) -> None:
    """Adds to `patterns` the patterns of a call's results, which follow from the ops of the called graph."""
    graph = view.graph(op.attributes[GRAPHS][0].value)
    inputs = list(graph.inputs.values())
    inner = {x: patterns[v] for x, v in zip(inputs, op.operands, strict=True) if v in patterns}
    outputs = [y for y in graph.outputs if y is not None]
    _extend(view, view.schedule(outputs, inputs), inner, known)
    patterns.update((y, inner[z]) for y, z in zip(op.results, outputs, strict=True) if z in inner)


def _of_result(op: Definition, y: Value, patterns: Mapping[Value, Places], known: Known) -> Places:
    parts = []
    for i, x in enumerate(op.operands):
        if x in patterns:
            pattern = np.vstack([patterns[x], np.full((1, patterns[x].shape[1]), -1)])  # for index -1
            read = sources(op, i, y, known)
            columns = read.shape[1] * pattern.shape[1]
            if len(read) * columns > MOST:
                raise TooManyPlaces
            parts.append(pattern[read].reshape(len(read), columns))
    return _distinct(np.concatenate(parts, axis=1))


def _distinct(places: Places) -> Places:
    """Sorts each row, drops repeated indices from it, and then drops columns that hold only -1 (all but one)."""
    if places.shape[1] < 2:
        return places
    places = np.sort(places, axis=1)
    places[:, 1:][places[:, 1:] == places[:, :-1]] = -1
    places = np.sort(places, axis=1)
    return places[:, np.argmax((places >= 0).any(axis=0)) :] if (places >= 0).any() else places[:, :1]
