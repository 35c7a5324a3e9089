"""Replaces the nodes of ai.onnx.ml in a graph by nodes of ai.onnx."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.dialect.errors import ParseError, Unsupported, first_line
from tiduc.models.onnx.ml import linear, svm, trees
from tiduc.models.onnx.ml.emitted import Emitted
from tiduc.models.onnx.ml.outputs import ML
from tiduc.models.onnx.nodes import CALL

if TYPE_CHECKING:
    import onnx

_TABLE: dict[str, Callable[[Emitted], None]] = {
    "ArrayFeatureExtractor": linear.array_feature_extractor,
    "Binarizer": linear.binarizer,
    "Imputer": linear.imputer,
    "LinearClassifier": linear.linear_classifier,
    "LinearRegressor": linear.linear_regressor,
    "Normalizer": linear.normalizer,
    "OneHotEncoder": linear.one_hot_encoder,
    "SVMClassifier": svm.svm_classifier,
    "SVMRegressor": svm.svm_regressor,
    "Scaler": linear.scaler,
    "TreeEnsemble": trees.tree_ensemble,
    "TreeEnsembleClassifier": trees.tree_classifier,
    "TreeEnsembleRegressor": trees.tree_regressor,
}
"""Maps an operator to the function that emits its replacement."""

_STRINGS = ("CategoryMapper", "CastMap", "DictVectorizer", "LabelEncoder", "ZipMap")


def replace_ml(onnx: ModuleType, model: "onnx.ModelProto") -> None:
    """Replaces the nodes of ai.onnx.ml in place. Raises `Unsupported` for a node without a replacement."""
    graph = model.graph
    if not any(node.domain == ML for node in graph.node):
        return
    if all(each.domain not in ("", "ai.onnx") for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    if all(each.domain != CALL for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(CALL, 1))
    del graph.value_info[:]  # the declared types are those of results of ai.onnx.ml
    nodes: list[Any] = []
    for node in graph.node:
        if node.domain != ML:
            nodes.append(node)
            continue
        try:
            nodes += _replaced(Emitted(onnx, model, node, nodes))
        except Unsupported as error:
            raise Unsupported(f"{node.op_type} of {_name(node)!r}: {error.message}") from None
        except (
            KeyError,
            ValueError,
            IndexError,
            TypeError,
        ) as error:  # raised if attributes contradict each other
            raise ParseError(f"{node.op_type} of {_name(node)!r}: {first_line(error)}") from error
    copies = [type(node)() for node in nodes]
    for copy, node in zip(copies, nodes, strict=True):
        copy.CopyFrom(node)
    del graph.node[:]
    graph.node.extend(copies)


def _replaced(e: Emitted) -> list[Any]:
    kind = e.node.op_type
    if kind in _TABLE:
        _TABLE[kind](e)
        return e.nodes
    if kind in _STRINGS:
        raise Unsupported(
            "StableHLO has no strings and maps; apply the operator before the model, and give numbers as inputs"
        )
    raise Unsupported(f"{kind} of ai.onnx.ml is not supported; known are {', '.join(_TABLE)}")


def _name(node: "onnx.NodeProto") -> str:
    return node.name or next((y for y in node.output if y), "")
