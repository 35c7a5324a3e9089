"""Operators of the domain ai.onnx.ml, which scikit-learn's exporter uses.

Values are compared with ONNX's reference evaluator; derivatives are checked too.
"""

import numpy as np
import pytest

import tiduc

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tiduc.models.onnx.ml.outputs import arrays_only  # noqa: E402
from tiduc.models.onnx.ml.replace import replace_ml  # noqa: E402

ML = "ai.onnx.ml"
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((5, 3)).astype(np.float32)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32).reshape(-1).tolist()


def model(kind, outputs=("y",), given=X, more=(), version=3, **attributes):
    """A model with one node whose operand has a dynamic batch size.

    `outputs` contains names, or pairs of a name and a type.
    """
    typed = [(y, TensorProto.FLOAT) if isinstance(y, str) else y for y in outputs]
    names = [name for name, _ in typed]
    node = helper.make_node(kind, ["x", *(array.name for array in more)], names, domain=ML, **attributes)
    to = helper.np_dtype_to_tensor_dtype(given.dtype)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", to, [None, *given.shape[1:]])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in typed],
        list(more),
    )
    versions = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=versions)


LABEL = ("label", TensorProto.INT64)
LINEAR = {"coefficients": floats(3, 3), "intercepts": floats(3), "classlabels_ints": [4, 5, 7]}
BINARY = {"coefficients": floats(1, 3), "intercepts": floats(1), "classlabels_ints": [4, 5]}
SVR = {"support_vectors": floats(4, 3), "coefficients": floats(4), "rho": [0.3], "n_supports": 4}
SVR["kernel_params"] = [0.5, 0.25, 3.0]
SVC = {"support_vectors": floats(6, 3), "kernel_params": [0.5, 0.25, 2.0], "kernel_type": "RBF"}
MISSING = X.copy()
MISSING[1, 1] = MISSING[3, 0] = np.nan
COUNTS = RANDOM.integers(0, 4, (5, 3))

CASES = {
    "Scaler": model("Scaler", offset=floats(3), scale=floats(3)),
    "Scaler of one number": model("Scaler", offset=[0.5], scale=[2.0]),
    "Normalizer MAX": model("Normalizer", norm="MAX"),
    "Normalizer L1": model("Normalizer", norm="L1"),
    "Normalizer L2": model("Normalizer", norm="L2"),
    "Binarizer": model("Binarizer", threshold=0.2),
    "Imputer of NaN": model(
        "Imputer", given=MISSING, imputed_value_floats=floats(3), replaced_value_float=np.nan
    ),
    "Imputer of integers": model(
        "Imputer", [("y", 7)], COUNTS, imputed_value_int64s=[8, 9, 10], replaced_value_int64=2
    ),
    "OneHotEncoder": model("OneHotEncoder", given=COUNTS, cats_int64s=[3, 1, 2], zeros=1),
    "ArrayFeatureExtractor": model(
        "ArrayFeatureExtractor", more=[numpy_helper.from_array(np.array([2, 0]), "i")]
    ),
    "LinearRegressor": model("LinearRegressor", coefficients=floats(2, 3), intercepts=floats(2), targets=2),
    **{
        f"LinearClassifier {kind}": model("LinearClassifier", [LABEL, "y"], post_transform=kind, **LINEAR)
        for kind in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    },
    **{
        f"LinearClassifier of one score {kind}": model(
            "LinearClassifier", [LABEL, "y"], post_transform=kind, **BINARY
        )
        for kind in ("NONE", "LOGISTIC", "SOFTMAX")
    },
    **{
        f"SVMRegressor {kind}": model("SVMRegressor", kernel_type=kind, **SVR)
        for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    },
    "SVMRegressor of one class": model("SVMRegressor", kernel_type="RBF", one_class=1, **SVR),
    "SVMRegressor without vectors": model("SVMRegressor", coefficients=floats(3), rho=[0.3], n_supports=0),
    "SVMClassifier of 2": model(
        "SVMClassifier",
        [LABEL, "y"],
        coefficients=floats(1, 6),
        vectors_per_class=[2, 4],
        rho=[0.1],
        classlabels_ints=[3, 8],
        **SVC,
    ),
    "SVMClassifier of 3": model(
        "SVMClassifier",
        [LABEL, "y"],
        coefficients=floats(2, 6),
        vectors_per_class=[2, 1, 3],
        rho=floats(3),
        classlabels_ints=[3, 8, 2],
        **SVC,
    ),
}


def operand(name):
    return {"Imputer of NaN": MISSING, "Imputer of integers": COUNTS, "OneHotEncoder": COUNTS}.get(name, X)


@pytest.mark.parametrize("name", CASES)
def test_replacement_has_the_values_of_the_operator(name):
    given, replaced = CASES[name], onnx.ModelProto()
    replaced.CopyFrom(given)
    replace_ml(onnx, replaced)
    assert not any(node.domain == ML for node in replaced.graph.node)
    ours, theirs = (ReferenceEvaluator(each).run(None, {"x": operand(name)}) for each in (replaced, given))
    for y, expected in zip(ours, theirs, strict=True):
        assert y.dtype == expected.dtype and y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)


def refused(**attributes):
    given = model(**attributes)
    with pytest.raises(tiduc.Unsupported) as caught:
        replace_ml(onnx, given)
    return str(caught.value)


def test_refusals_name_the_node_and_the_reason():
    kinds = {"post_transform": "PROBIT", **LINEAR}
    assert "LinearClassifier of 'label': the post_transform PROBIT" in refused(
        kind="LinearClassifier", outputs=[LABEL, "y"], **kinds
    )
    assert "raw_scores" in refused(
        kind="SVMClassifier", outputs=[LABEL, "y"], vectors_per_class=[1, 1], prob_a=[1.0], **SVC
    )
    assert "FeatureVectorizer of ai.onnx.ml is not supported" in refused(kind="FeatureVectorizer")
    assert "StableHLO has no strings" in refused(
        kind="LabelEncoder", keys_strings=["a"], values_strings=["b"]
    )


def test_attributes_that_contradict_each_other_are_refused():
    given = model("LinearRegressor", coefficients=floats(4), targets=3)
    with pytest.raises(tiduc.ParseError, match="LinearRegressor of 'y': "):
        replace_ml(onnx, given)


def mapped():
    """A classifier whose labels are strings, and whose probabilities are returned as a map from labels."""
    attributes = {**LINEAR, "classlabels_strings": ["a", "b", "c"], "post_transform": "SOFTMAX"}
    del attributes["classlabels_ints"]
    given = model("LinearClassifier", [("label", TensorProto.STRING), "p"], **attributes)
    graph = given.graph
    graph.node.append(
        helper.make_node("ZipMap", ["p"], ["map"], domain=ML, classlabels_strings=["a", "b", "c"])
    )
    probability = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    map_ = helper.make_map_type_proto(TensorProto.STRING, probability)
    graph.output[1].CopyFrom(helper.make_value_info("map", helper.make_sequence_type_proto(map_)))
    return given


def test_maps_become_arrays_and_strings_are_left_out_with_remarks():
    given = mapped()
    with pytest.warns(Warning) as remarks:
        arrays_only(onnx, given)
    said = [str(each.message) for each in remarks]
    assert said[0] == "the output 'map', a map, becomes an array with a column for each class: a, b, c"
    assert said[1] == "the output 'label' is left out: StableHLO has no strings"
    replace_ml(onnx, given)
    (ours,) = ReferenceEvaluator(given).run(None, {"x": X})
    scores = X @ np.reshape(LINEAR["coefficients"], (3, 3)).T + LINEAR["intercepts"]
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


# ---- trees -------------------------------------------------------------------------------------------------

# Tree 0 compares feature 0 at node 0 and feature 2 at node 2; tree 1 only compares feature 1.
NODES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 0, 2, 0, 0, 1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.1, 0.0, -0.2, 0.0, 0.0, 0.3, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
    "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0],
}
LEAVES = {"treeids": [0, 0, 0, 1, 1], "nodeids": [1, 3, 4, 1, 2], "weights": [1.5, -2.0, 3.0, 0.25, -0.75]}


def trees(of, **more):
    leaves = {f"{of}_{name}": given for name, given in LEAVES.items()}
    return {**NODES, **leaves, **more}


FIVE = {
    "nodes_splits": numpy_helper.from_array(np.array([0.1, -0.2, 0.3], np.float32), "s"),
    "nodes_featureids": [0, 2, 1],
    "nodes_modes": numpy_helper.from_array(np.array([0, 3, 0], np.uint8), "m"),
    "nodes_truenodeids": [0, 1, 3],
    "nodes_falsenodeids": [1, 2, 4],
    "nodes_trueleafs": [1, 1, 1],
    "nodes_falseleafs": [0, 1, 1],
    "leaf_targetids": [0, 1, 0, 1, 0],
    "leaf_weights": numpy_helper.from_array(np.array(LEAVES["weights"], np.float32), "w"),
    "tree_roots": [0, 2],
    "n_targets": 2,
}
TREES = {
    "regressor": model(
        "TreeEnsembleRegressor",
        **trees("target", target_ids=[0, 1, 1, 0, 1], n_targets=2, base_values=[0.5, 0.25]),
    ),
    "average": model(
        "TreeEnsembleRegressor",
        **trees("target", target_ids=[0] * 5, n_targets=1, aggregate_function="AVERAGE"),
    ),
    "least": model(
        "TreeEnsembleRegressor", **trees("target", target_ids=[0] * 5, n_targets=1, aggregate_function="MIN")
    ),
    "classifier": model(
        "TreeEnsembleClassifier",
        [LABEL, "y"],
        **trees("class", class_ids=[0, 1, 2, 1, 0], classlabels_int64s=[4, 5, 7], post_transform="SOFTMAX"),
    ),
    "classifier of one score": model(
        "TreeEnsembleClassifier",
        [LABEL, "y"],
        **trees("class", class_ids=[0] * 5, classlabels_int64s=[4, 5], post_transform="LOGISTIC"),
    ),
    "version 5": model("TreeEnsemble", version=5, **FIVE),
}


@pytest.mark.more
@pytest.mark.parametrize("name", TREES)
def test_trees(name):
    """IREE's values of tree ensembles for a dynamic batch are those of ONNX's reference evaluator.

    One feature value is missing, except in version 5, which has no default branch for missing values.
    """
    given = X if name == "version 5" else MISSING
    program = tiduc.from_onnx(TREES[name], lift_constants=True)
    results = program.compile()(*program.arguments(given))
    for y, expected in zip(results, ReferenceEvaluator(TREES[name]).run(None, {"x": given}), strict=True):
        np.testing.assert_allclose(y, np.reshape(expected, y.shape), rtol=1e-6)


@pytest.mark.more
def test_trees_of_doubles():
    double = {name: FIVE[name] for name in FIVE if name not in ("nodes_splits", "leaf_weights")}
    splits, weights = np.array([0.1, -0.2, 0.3]), np.array(LEAVES["weights"]) / 3
    double["nodes_splits"] = numpy_helper.from_array(splits, "s")
    double["leaf_weights"] = numpy_helper.from_array(weights, "w")
    given = model("TreeEnsemble", [("y", TensorProto.DOUBLE)], X.astype(np.float64), version=5, **double)
    program = tiduc.from_onnx(given, sizes={"x.0": 5})
    (y,) = program.compile(engine="reference")(X.astype(np.float64))
    (expected,) = ReferenceEvaluator(given).run(None, {"x": X.astype(np.float64)})
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, expected)


@pytest.mark.more
def test_leaves_have_derivatives_and_decisions_have_none():
    program = tiduc.from_onnx(TREES["average"], lift_constants=True, sizes={"x.0": 5})
    assert [str(x) for x in program.signature.inputs] == ["y.leaves: 8x1xf32", "x: 5x3xf32"]
    ct = np.arange(1, 6, dtype=np.float32)[:, None]
    derivative = program.vjp(["y.leaves", "x"]).compile()
    _, leaves, dx = derivative(*program.arguments(X), ct)
    assert not dx.any()
    places = np.zeros((5, 8), np.float32)
    second = np.where(X[:, 2] > np.float32(-0.2), 3, 4)
    places[np.arange(5), np.where(X[:, 0] <= np.float32(0.1), 1, second)] = 0.5
    places[np.arange(5), np.where(X[:, 1] <= np.float32(0.3), 6, 7)] = 0.5
    np.testing.assert_allclose(leaves, places.T @ ct, rtol=1e-6)


# ---- derivatives -------------------------------------------------------------------------------------------


@pytest.mark.more
def test_the_gradient_of_a_support_vector_machine():
    program = tiduc.from_onnx(CASES["SVMRegressor RBF"], lift_constants=True, sizes={"x.0": 5})
    ct = np.ones((5, 1), np.float32)
    derivative = program.vjp(["y.support_vectors", "y.coefficients", "x"]).compile()
    _, vectors, coefficients, dx = derivative(*program.arguments(X), ct)
    v, c = np.reshape(SVR["support_vectors"], (4, 3)), np.asarray(SVR["coefficients"])
    apart = X[:, None] - v
    kernels = np.exp(-0.5 * (apart**2).sum(-1))
    each = (kernels * c)[..., None] * apart
    np.testing.assert_allclose(coefficients[:, 0], kernels.sum(0), rtol=1e-5)
    np.testing.assert_allclose(vectors, each.sum(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(dx, -each.sum(1), rtol=1e-4, atol=1e-6)


@pytest.mark.more
def test_a_pipeline_of_scikit_learn():
    """A pipeline of a scaler and a network is imported, and predicts scikit-learn's values. torch-mlir ended the
    process if the scaler's result had no declared shape.
    """
    pytest.importorskip("skl2onnx")
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    net = MLPRegressor(hidden_layer_sizes=(4,), max_iter=20, random_state=0, activation="tanh")
    fitted = make_pipeline(StandardScaler(), net).fit(X, X.sum(1))
    program = tiduc.from_onnx(to_onnx(fitted, X), lift_constants=True, sizes={"X.0": 5})
    np.testing.assert_allclose(program(X)[:, 0], fitted.predict(X), rtol=1e-4)
    ct = np.ones((5, 1), np.float32)
    (dx,) = program.vjp("X").compile()(*program.arguments(X), ct)[1:]
    mean, scale = fitted[0].mean_, fitted[0].scale_
    (w, v), (b, _) = net.coefs_, net.intercepts_
    hidden = np.tanh((X - mean) / scale @ w + b)
    np.testing.assert_allclose(dx, ((1 - hidden**2) * v[:, 0]) @ w.T / scale, rtol=1e-4, atol=1e-5)
