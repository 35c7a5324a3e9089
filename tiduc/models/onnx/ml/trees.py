"""Emits the ensembles of decision trees of ai.onnx.ml.

All rows descend all trees together, one level per step. A step gathers the feature and the threshold of the current
node of each row in each tree, and selects the next node. The next node of a leaf is the leaf itself.

    at = roots
    at = where(x[feature[at]] <= threshold[at], yes[at], no[at])       repeated for each level of the deepest tree
    y = sum of leaves[at] over the trees

The derivatives with respect to the rows and the thresholds are zero. The values of the leaves are weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.onnx.ml.emitted import Emitted
from tiduc.models.onnx.ml.scores import class_count, label, transformed
from tiduc.runtime.arrays import Array

_MODES = {
    "BRANCH_LEQ": "LE",
    "BRANCH_LT": "LT",
    "BRANCH_GTE": "GE",
    "BRANCH_GT": "GT",
    "BRANCH_EQ": "EQ",
    "BRANCH_NEQ": "NE",
}
"""Maps the mode of a node to the direction of StableHLO's comparison."""

_BY_NUMBER = [*_MODES, "BRANCH_MEMBER"]
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""An attribute of `TreeEnsemble` gives a mode, an aggregate or a transform as an index into one of these sequences."""


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees, as arrays with an entry for each node. `roots` has the indices of the roots.

    The next node after node i is `yes[i]` if the comparison of node i holds, and `no[i]` otherwise. For a leaf, both
    entries are i.
    """

    roots: Array
    features: Array
    thresholds: Array
    yes: Array
    no: Array
    modes: Sequence[str]  # "LEAF" for a leaf
    missing: Array  # whether the next node is the one in `yes` if the feature is NaN
    targets: Array  # (node, target): whether the leaf has a value for the target
    leaves: Array  # (node, target): the leaf's value for the target, or zero

    def depth(self) -> int:
        """The largest number of steps from a root to a leaf. Raises `Unsupported` if the nodes form a cycle."""
        at, steps = np.unique(self.roots), 0
        while (at := at[[self.modes[i] != "LEAF" for i in at]]).size:
            steps += 1
            if steps > len(self.modes):
                raise Unsupported("the nodes of a tree form a cycle")
            at = np.unique(np.concatenate([self.yes[at], self.no[at]]))
        return steps


def tree_regressor(e: Emitted) -> None:
    targets = int(e.attributes.get("n_targets", 1))
    y = _aggregated(e, _trees(e, "target", targets), e.attributes.get("aggregate_function", "SUM"))
    y = e.cast(y, np.float32)
    if (base := e.array("base_values")) is not None:
        y = e.emit("Add", y, e.weight("base_values", base))
    e.result(0, transformed(e, y))


def tree_ensemble(e: Emitted) -> None:
    """Emits `TreeEnsemble`, which replaces the tree classifier and the tree regressor since version 5 of ai.onnx.ml."""
    aggregate = _AGGREGATES[int(e.attributes.get("aggregate_function", 1))]
    y = _aggregated(e, _trees_of_version_5(e), aggregate)
    e.result(0, transformed(e, y, _TRANSFORMS[int(e.attributes.get("post_transform", 0))]))


def tree_classifier(e: Emitted) -> None:
    """Emits the score of each class, which is the sum of the leaves' values over the trees, and the label.

    If there are two classes, but the leaves have values for only one of them, both scores are computed from one sum.
    """
    count, only = class_count(e), np.unique(e.needed("class_ids"))
    if count < 2:
        raise Unsupported(f"a tree classifier needs at least two classes, but has {count}")
    trees, base = _trees(e, "class", count), e.array("base_values")
    is_single = count == 2 and len(only) == 1
    if is_single:
        trees = _of_target(trees, int(only[0]))
        base = base if base is None or len(base) == 1 else base[only]
    scores = e.cast(_aggregated(e, trees, "SUM"), np.float32)
    if base is not None:
        scores = e.emit("Add", scores, e.weight("base_values", base))
    scores = _of_two(e, scores) if is_single else transformed(e, scores)
    label(e, scores)
    e.result(1, scores)


def _of_two(e: Emitted, score: str) -> str:
    """The scores of two classes, computed from a single score s as ONNX Runtime does.

    If no weight is negative, s is a probability, and the scores are 1 - s and s. Otherwise, the scores are the
    `post_transform` of -s and s.
    """
    kind = e.attributes.get("post_transform", "NONE")
    if kind not in ("NONE", "LOGISTIC"):
        raise Unsupported(f"the post_transform {kind} of a single score is not supported")
    if (e.needed("class_weights") >= 0).all():
        return e.emit("Concat", e.emit("Sub", np.float32(1), score), score, axis=1)
    return transformed(e, e.emit("Concat", e.emit("Neg", score), score, axis=1))


# ---- trees from attributes ---------------------------------------------------------------------------------


def _trees(e: Emitted, of: str, targets: int) -> Trees:
    """The trees in the attributes of a classifier or a regressor.

    These attributes identify each node by two numbers: the ID of its tree, and the ID of the node within the tree.
    """
    tree, node = e.needed("nodes_treeids"), e.needed("nodes_nodeids")
    place = {key: i for i, key in enumerate(zip(tree.tolist(), node.tolist(), strict=True))}
    modes = [x.decode() if isinstance(x, bytes) else x for x in e.attributes["nodes_modes"]]
    own = np.arange(len(modes))
    is_leaf = np.array([mode == "LEAF" for mode in modes])
    yes, no = (
        np.where(
            is_leaf, own, [place.get((t, i), -1) for t, i in zip(tree.tolist(), ids.tolist(), strict=True)]
        )
        for ids in (e.needed("nodes_truenodeids"), e.needed("nodes_falsenodeids"))
    )
    if min(yes.min(), no.min()) < 0:
        raise Unsupported("a node of a tree refers to a next node that does not exist")
    inner = own[~is_leaf]
    is_root = np.ones(len(modes), bool)
    is_root[np.concatenate([yes[inner], no[inner]])] = False
    missing = e.array("nodes_missing_value_tracks_true")
    weights = e.needed(f"{of}_weights")
    leaves, has = np.zeros((len(modes), targets), weights.dtype), np.zeros((len(modes), targets), bool)
    ids = zip(e.needed(f"{of}_treeids").tolist(), e.needed(f"{of}_nodeids").tolist(), strict=True)
    rows = [place[key] for key in ids]
    np.add.at(leaves, (np.asarray(rows), e.needed(f"{of}_ids")), weights)
    has[rows, e.needed(f"{of}_ids")] = True
    return Trees(
        own[is_root],
        np.where(is_leaf, 0, e.needed("nodes_featureids")),
        e.needed("nodes_values"),
        yes,
        no,
        modes,
        np.zeros(len(modes), bool) if missing is None else missing != 0,
        has,
        leaves,
    )


def _trees_of_version_5(e: Emitted) -> Trees:
    """The trees in the attributes of `TreeEnsemble`. The returned arrays have the entries of all leaves at the end."""
    splits, modes = e.needed("nodes_splits"), [_BY_NUMBER[i] for i in e.needed("nodes_modes").tolist()]
    weights, ids = e.needed("leaf_weights"), e.needed("leaf_targetids")
    inner, count = len(splits), len(weights)
    after = inner + np.arange(count)
    yes, no = (
        np.concatenate([e.needed(f"nodes_{way}nodeids") + inner * e.needed(f"nodes_{way}leafs"), after])
        for way in ("true", "false")
    )
    missing = e.array("nodes_missing_value_tracks_true")
    has = np.zeros((inner + count, int(e.attributes["n_targets"])), bool)
    leaves = np.zeros(has.shape, weights.dtype)
    has[after, ids], leaves[after, ids] = True, weights
    zeros = np.zeros(count, np.int64)
    return Trees(
        e.needed("tree_roots"),
        np.concatenate([e.needed("nodes_featureids"), zeros]),
        np.concatenate([splits, zeros.astype(splits.dtype)]),
        yes.astype(np.int64),
        no.astype(np.int64),
        modes + ["LEAF"] * count,
        np.concatenate([np.zeros(inner, bool) if missing is None else missing != 0, zeros != 0]),
        has,
        leaves,
    )


def _of_target(trees: Trees, target: int) -> Trees:
    part = slice(target, target + 1)
    return Trees(
        trees.roots,
        trees.features,
        trees.thresholds,
        trees.yes,
        trees.no,
        trees.modes,
        trees.missing,
        trees.targets[:, part],
        trees.leaves[:, part],
    )


# ---- walking ----------------------------------------------------------------------------------------------


def _aggregated(e: Emitted, trees: Trees, aggregate: str) -> str:
    """For each row, aggregates the values of the leaves that it reaches in the trees. Has the shape (rows, targets)."""
    dtype = np.result_type(trees.thresholds, trees.leaves)
    kind = "f64" if dtype == np.float64 else "f32"
    if kind == "f32":
        dtype = np.dtype(np.float32)
    x = e.floats(dtype)
    first = e.emit("Gather", x, np.asarray([0]), axis=1)
    none = e.cast(e.emit("Less", first, first), np.int32)
    # This sum broadcasts the roots to all rows, even if the number of rows is dynamic.
    roots = e.emit("Add", none, trees.roots.astype(np.int32))

    def build(body: Body, x: TextTensor, at: TextTensor, leaves: TextTensor) -> list[TextTensor]:
        for _ in range(trees.depth()):
            at = _next(body, trees, x, at)
        return [_looked_up(body, leaves, at)]

    leaves = e.weight("leaves", trees.leaves, dtype)
    (values,) = e.call("trees", [x, roots, leaves], [kind, "i32", kind], build)
    if aggregate in ("SUM", "AVERAGE"):
        total = e.sum(values, 1)
        return total if aggregate == "SUM" else e.emit("Div", total, np.asarray(len(trees.roots), dtype))
    if not trees.targets[[mode == "LEAF" for mode in trees.modes]].all():
        raise Unsupported(f"the aggregate {aggregate} is not supported if a leaf lacks a value for a target")
    return e.extreme({"MIN": "ReduceMin", "MAX": "ReduceMax"}[aggregate], values, 1)


def _next(body: Body, trees: Trees, x: TextTensor, at: TextTensor) -> TextTensor:
    """The index of the next node for each row and each tree.

    `at` has the indices of the current nodes, in the shape (rows, trees).
    """
    value = _of_features(body, x, _of_nodes(body, trees.features, at))
    threshold = body.convert(_of_nodes(body, trees.thresholds, at), x.element)
    yes, no = _of_nodes(body, trees.yes, at), _of_nodes(body, trees.no, at)
    inner = [mode for mode in trees.modes if mode != "LEAF"]
    goes = None
    for mode in dict.fromkeys(inner):
        if mode not in _MODES:
            raise Unsupported(f"trees with nodes of mode {mode} are not supported")
        holds = body.compare(value, threshold, _MODES[mode])
        if goes is not None:
            is_mode = _of_nodes(body, np.array([own == mode for own in trees.modes]), at)
            holds = body.select(is_mode, holds, goes)
        goes = holds
    assert goes is not None  # a step is emitted only if a tree has a node with a comparison
    if trees.missing.any() or "BRANCH_NEQ" in inner:  # every comparison except NEQ is false for NaN
        is_nan = body.compare(value, value, "NE")
        goes = body.select(is_nan, _of_nodes(body, trees.missing, at), goes)
    return body.select(goes, yes, no)


def _of_nodes(body: Body, table: Array, at: TextTensor) -> TextTensor:
    """Looks up the entry of `table` for each node index in `at`."""
    if table.dtype == bool:
        element, entries = "i1", ["true" if x else "false" for x in table]
    elif table.dtype.kind == "f":
        size = 4 if table.dtype.itemsize <= 4 else 8
        bits = table.astype(f"f{size}").view(f"u{size}")
        element, entries = f"f{8 * size}", [f"0x{x:0{2 * size}X}" for x in bits]
    else:
        element, entries = "i32", [str(x) for x in table]
    rows = body.constant(f"[{', '.join(entries)}]", [len(entries)], element)
    numbers = "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2"
    return _gathered(body, rows, at, numbers, [1], at.sizes)


def _of_features(body: Body, x: TextTensor, features: TextTensor) -> TextTensor:
    """The elements x[row, features[row, tree]], in the shape (rows, trees)."""
    numbers = (
        "collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], "
        "start_index_map = [1], index_vector_dim = 2"
    )
    return _gathered(body, x, features, numbers, [1, 1], features.sizes)


def _looked_up(body: Body, leaves: TextTensor, at: TextTensor) -> TextTensor:
    """The values leaves[at[row, tree], target], in the shape (rows, trees, targets)."""
    numbers = "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2"
    return _gathered(body, leaves, at, numbers, [1, leaves.sizes[1]], [*at.sizes, leaves.sizes[1]])


def _gathered(
    body: Body, x: TextTensor, index: TextTensor, numbers: str, slices: Sequence[int], sizes: Sequence[int]
) -> TextTensor:
    attributes = (
        f"dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = array<i64: {', '.join(map(str, slices))}>, "
        "indices_are_sorted = false"
    )
    return body.emit("gather", [x, index], sizes, attributes)
