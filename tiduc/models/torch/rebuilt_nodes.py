"""Builds `torch.fx` graphs from the records of a `.pt2` archive."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import getitem
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.models.torch import schema, targets
from tiduc.models.torch.archive import Refused
from tiduc.models.torch.payloads import STRIDED, TYPES
from tiduc.models.torch.records import (
    DeviceRecord,
    GraphRecord,
    MetadataRecord,
    NamedGraph,
    NodeRecord,
    TensorMeta,
)
from tiduc.models.torch.sizes import SizeEnvironment

if TYPE_CHECKING:
    import torch

_DEEPEST = 16
_LISTS = ("as_ints", "as_floats", "as_bools", "as_strings")
_NUMBERS = ("as_int", "as_float", "as_bool", "as_string")
_SYMBOLIC = ("as_sym_int", "as_sym_float", "as_sym_bool")
_SYMBOLIC_LISTS = ("as_sym_ints", "as_sym_floats", "as_sym_bools")
_POSITIONAL, _KEYWORD = 1, 2
_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu")
_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
_ITEM = "aten::item"
_ASSERT, _RANGE = "aten::_assert_scalar", "aten::sym_constrain_range_for_size"


@dataclass
class _Graph:
    """The graph under construction, its record, and maps from names to its nodes and values."""

    graph: Any
    module: Any
    record: GraphRecord
    nodes: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


_EMPTY = GraphRecord(
    inputs=[],
    outputs=[],
    nodes=[],
    tensor_values={},
    sym_int_values={},
    sym_bool_values={},
    sym_float_values=None,
    is_single_tensor_return=None,
)


class NodeBuilder:
    """Builds the graphs of one program. All graphs share one environment of symbolic sizes."""

    def __init__(self, torch: ModuleType, sizes: SizeEnvironment, module: "torch.nn.Module") -> None:
        self._torch, self._sizes, self._at = torch, sizes, _Graph(torch.fx.Graph(), module, _EMPTY)
        self._depth = 0

    def module_of(self, record: GraphRecord, names: list[str]) -> Any:
        """Builds a graph and returns it as a `GraphModule`.

        `names` has the names of the inputs by position. They are used only for inputs that are constants.
        """
        with self._within(record):
            for i, given in enumerate(record["inputs"]):
                self._placeholder(given, names[i] if i < len(names) and names[i] else f"arg{i}")
            for each in record["nodes"]:
                self._node(each)
            self._output(record)
            self._bind()
            return self._torch.fx.GraphModule(self._at.module, self._at.graph)

    @contextmanager
    def _within(self, record: GraphRecord) -> Iterator[None]:
        if self._depth > _DEEPEST:
            raise Refused(f"graphs of the program are nested more than {_DEEPEST} levels deep")
        outer, self._depth = self._at, self._depth + 1
        pending, self._sizes.pending = self._sizes.pending, set()
        self._at = _Graph(self._torch.fx.Graph(), self._torch.nn.Module(), record)
        try:
            yield
            if self._sizes.pending:
                raise Refused("no operator of the program defines one of its data-dependent sizes")
        finally:
            self._at, self._depth, self._sizes.pending = outer, self._depth - 1, pending

    # ---- inputs and outputs

    def _placeholder(self, given: tuple[str, Any], name: str) -> None:
        tag, value = given
        if tag in ("as_none", *_NUMBERS):
            node = self._at.graph.placeholder(name)
            node.meta["val"] = self._argument(given)
            return
        if tag == "as_tensor":
            name = value["name"]
        elif tag in _SYMBOLIC and value[0] == "as_name":
            name = value[1]
        else:
            raise Refused("an input of a graph is neither a tensor nor a number")
        self._enter(name, self._at.graph.placeholder(name))

    def _enter(self, name: str, node: "torch.fx.Node") -> None:
        """Names a node, and sets its example value to the value that the file describes for this name."""
        if name in self._at.nodes:
            raise Refused(f"two values of a graph have the name {name}")
        node.name = name
        self._at.nodes[name] = node
        node.meta["val"] = self._value(name)

    def _value(self, name: str) -> Any:
        """The example value for a name, from its description in the file: a tensor without data, or a symbolic size."""
        values, record = self._at.values, self._at.record
        if name not in values:
            if name in record["tensor_values"]:
                values[name] = self._tensor(record["tensor_values"][name])
            elif name in record["sym_int_values"]:
                values[name] = self._sizes.integer(record["sym_int_values"][name])
            elif name in record["sym_bool_values"]:
                values[name] = self._sizes.boolean(record["sym_bool_values"][name])
            elif name in (floats := record["sym_float_values"] or {}):
                values[name] = self._sizes.float(floats[name])
            else:
                raise Refused(f"the file does not describe the value {name}")
        return values[name]

    def _tensor(self, meta: TensorMeta) -> Any:
        if meta["layout"] != STRIDED or len(meta["sizes"]) != len(meta["strides"]):
            raise Refused("sparse tensors are not supported")
        sizes, strides = ([self._sizes.integer(x) for x in meta[key]] for key in ("sizes", "strides"))
        if any(isinstance(n, int) and n < 0 for n in (*sizes, *strides)):
            raise Refused("the size or the stride of a tensor is negative")
        with self._sizes.mode:
            return self._torch.empty_strided(
                sizes, strides, dtype=self._dtype(meta["dtype"]), requires_grad=meta["requires_grad"]
            )

    def _dtype(self, number: int) -> Any:
        if number not in TYPES or not hasattr(self._torch, TYPES[number]):
            raise Refused(f"element type {number} is not supported")
        return getattr(self._torch, TYPES[number])

    def _output(self, record: GraphRecord) -> None:
        results = [self._result(each) for each in record["outputs"]]
        if record["is_single_tensor_return"]:
            if len(results) != 1 or not isinstance(results[0], self._torch.fx.Node):
                raise Refused("the file states that a graph returns one tensor, but the graph does not")
            node = self._at.graph.output(results[0])
            node.meta["val"] = results[0].meta["val"]
            return
        node = self._at.graph.output(tuple(results))
        node.meta["val"] = tuple(x.meta["val"] if isinstance(x, self._torch.fx.Node) else x for x in results)

    def _result(self, given: tuple[str, Any]) -> Any:
        if given[0] not in ("as_tensor", "as_none", "as_int", "as_float", "as_bool", *_SYMBOLIC):
            raise Refused("an output of a graph is neither a tensor nor a number")
        return self._argument(given)

    def _bind(self) -> None:
        """Records in each node's `meta` the data-dependent sizes that the node defines."""
        for node in self._at.graph.nodes:
            if (value := node.meta.get("val")) is not None and (bindings := self._sizes.bindings(value)):
                node.meta["unbacked_bindings"] = bindings

    # ---- nodes

    def _node(self, record: NodeRecord) -> None:
        function = targets.target(self._torch, record["target"])
        meta = _metadata(record["metadata"])
        is_operator = isinstance(function, self._torch._ops.OpOverload)
        is_higher = isinstance(function, self._torch._ops.HigherOrderOperator)
        if any(each["arg"][0] in ("as_string", "as_strings") for each in record["inputs"]) and not (
            targets.takes_text(self._torch, function)
        ):
            raise Refused(f"{record['target'][:120]} may not have a string as an argument")
        if is_operator and function._schema.name != _ITEM:
            arguments, keywords = self._of_schema(function, record)
        else:
            arguments, keywords = self._in_order(record, is_higher or targets.is_step(record["target"]))
        if is_higher:
            for each in (*arguments, *keywords.values()):
                if isinstance(each, self._torch.fx.Node) and each.op == "get_attr":
                    each.meta.update(meta)
        node = self._at.graph.create_node(
            "call_function", function, arguments, keywords, self._name(record, function)
        )
        self._outputs(record, node, meta, is_higher)
        node.meta.update(meta)
        node.meta.setdefault("nn_module_stack", {})
        self._assume(function, node)

    def _name(self, record: NodeRecord, function: object) -> str | None:
        """The name of a node, or None if the file does not give it.

        Files of PyTorch 2.8 name only results. If a node has one result, the result's name is the node's name.
        """
        if record["name"] or len(record["outputs"]) != 1:
            return record["name"] or None
        tag, value = record["outputs"][0]
        if tag == "as_tensor":
            return str(value["name"])
        return str(value[1]) if tag in _SYMBOLIC and value[0] == "as_name" else None

    def _of_schema(
        self, function: "torch._ops.OpOverload", record: NodeRecord
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of an operator, matched to the operator's schema by name."""
        given = {each["name"]: (each["kind"], self._argument(each["arg"])) for each in record["inputs"]}
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for expected in function._schema.arguments:
            if expected.name not in given:
                if not expected.has_default_value():
                    raise Refused(f"{record['target']} lacks the argument {expected.name}")
                continue
            kind, value = given.pop(expected.name)
            by_position = not expected.has_default_value() and not expected.kwarg_only
            if kind == _POSITIONAL or (kind != _KEYWORD and by_position) or not schema.is_name(expected.name):
                positional.append(value)
            else:
                keywords[expected.name] = value
        if given:
            raise Refused(f"{record['target']} has no argument {next(iter(given))}")
        return tuple(positional), keywords

    def _in_order(self, record: NodeRecord, with_names: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of a function without a schema, in the order of the file."""
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for each in record["inputs"]:
            if with_names and each["kind"] != _POSITIONAL and each["name"]:
                keywords[each["name"]] = self._argument(each["arg"])
            else:
                positional.append(self._argument(each["arg"]))
        return tuple(positional), keywords

    def _assume(self, function: object, node: "torch.fx.Node") -> None:
        """If a node asserts a fact about a size, adds the fact to the environment of sizes."""
        name = function._schema.name if isinstance(function, self._torch._ops.OpOverload) else ""
        if name not in (_ASSERT, _RANGE) or not isinstance(node.args[0], self._torch.fx.Node):
            return
        value = node.args[0].meta["val"]
        if name == _ASSERT and isinstance(value, self._torch.SymBool):
            self._sizes.environment.guard_or_defer_runtime_assert(value.node.expr, "", node)
        elif name == _RANGE and isinstance(value, self._torch.SymInt):
            self._sizes.environment._constrain_range_for_size(value.node.expr)

    # ---- arguments

    def _known(self, name: str) -> Any:
        if name not in self._at.nodes:
            raise Refused(f"a node reads the value {name}, which is not defined before the node")
        return self._at.nodes[name]

    def _argument(self, given: tuple[str, Any]) -> Any:
        """Converts an argument of a record to the argument of a node."""
        tag, value = given
        if tag in _NUMBERS:
            return value
        if tag in _LISTS:
            return list(value)
        if tag in _SYMBOLIC:
            return self._symbolic(value)
        if tag in _SYMBOLIC_LISTS:
            return [self._symbolic(each) for each in value]
        return _READERS[tag](self, value)

    def _symbolic(self, given: tuple[str, Any]) -> Any:
        tag, value = given
        return self._known(value) if tag == "as_name" else value

    def _optional(self, given: tuple[str, Any]) -> Any:
        return self._known(given[1]["name"]) if given[0] == "as_tensor" else None

    def _inner(self, value: NamedGraph) -> Any:
        """Builds a subgraph, and returns the node that refers to it."""
        if hasattr(self._at.module, value["name"]):
            raise Refused(f"two graphs have the name {value['name']}")
        self._at.module.register_module(value["name"], self.module_of(value["graph"], []))
        return self._at.graph.create_node("get_attr", value["name"], name=value["name"])

    def _device(self, value: DeviceRecord) -> Any:
        if value["type"] not in _DEVICES:
            raise Refused(f"the device {value['type'][:40]} is not supported")
        return self._torch.device("cpu")

    def _format(self, value: int) -> Any:
        if value not in _FORMATS:
            raise Refused(f"the memory format {value} is not supported")
        return getattr(self._torch, _FORMATS[value])

    def _layout(self, value: int) -> Any:
        if value != STRIDED:
            raise Refused("sparse tensors are not supported")
        return self._torch.strided

    # ---- results

    def _outputs(
        self, record: NodeRecord, node: "torch.fx.Node", meta: Mapping[str, object], is_higher: bool
    ) -> None:
        """Names the result of a node. If the node has several results, adds a node that extracts each of them."""
        outputs = record["outputs"]
        if not outputs:
            return
        tag, value = outputs[0]
        in_tuple = is_higher and record["is_hop_single_tensor_return"] is False
        if len(outputs) == 1 and tag == "as_none":
            node.meta["val"] = None
        elif len(outputs) == 1 and not in_tuple and tag in ("as_tensor", *_SYMBOLIC):
            self._enter(value["name"] if tag == "as_tensor" else str(value[1]), node)
        else:
            several = value if len(outputs) == 1 and tag == "as_tensors" else outputs
            node.meta["val"] = tuple(self._items(node, several, meta))
            self._at.nodes.setdefault(node.name, node)

    def _items(self, node: "torch.fx.Node", outputs: list[Any], meta: Mapping[str, object]) -> list[Any]:
        """Adds a node for each result of a node with several results. Returns the example values of the results."""
        values = []
        for i, each in enumerate(outputs):
            tag, value = each if isinstance(each, tuple) else ("as_tensor", each)
            if tag == "as_none" or tag in ("as_tensors", "as_sym_ints", "as_sym_floats"):
                item = self._at.graph.create_node("call_function", getitem, (node, i))
                inner = None if tag == "as_none" else self._items(item, _tagged(tag, value), meta)
                item.meta["val"] = inner
            elif tag in ("as_tensor", *_SYMBOLIC) and (tag == "as_tensor" or value[0] == "as_name"):
                name = value["name"] if tag == "as_tensor" else value[1]
                item = self._at.graph.create_node("call_function", getitem, (node, i), name=name)
                self._enter(name, item)
            else:
                raise Refused("an operator returns a value that is neither a tensor nor a size")
            item.meta.update(meta)
            item.meta.setdefault("nn_module_stack", {})
            values.append(item.meta["val"])
        return values


def _tagged(tag: str, values: list[Any]) -> list[Any]:
    """Splits a list of results into single results. Sizes become pairs of a tag and a value."""
    return values if tag == "as_tensors" else [(tag.removesuffix("s"), each) for each in values]


_READERS: dict[str, Any] = {
    "as_none": lambda nodes, value: None,
    "as_tensor": lambda nodes, value: nodes._known(value["name"]),
    "as_tensors": lambda nodes, value: [nodes._known(each["name"]) for each in value],
    "as_nested_tensors": lambda nodes, value: [[nodes._known(x["name"]) for x in each] for each in value],
    "as_scalar_type": lambda nodes, value: nodes._dtype(value),
    "as_memory_format": lambda nodes, value: nodes._format(value),
    "as_layout": lambda nodes, value: nodes._layout(value),
    "as_device": lambda nodes, value: nodes._device(value),
    "as_graph": lambda nodes, value: nodes._inner(value),
    "as_optional_tensor": lambda nodes, value: nodes._optional(value),
    "as_optional_tensors": lambda nodes, value: [nodes._optional(each) for each in value],
    "as_complex": lambda nodes, value: complex(value["real"], value["imag"]),
    "as_int_lists": lambda nodes, value: [tuple(each) for each in value],
    "as_float_lists": lambda nodes, value: [list(each) for each in value],
}
"""Maps the tag of an argument to a function (builder, value) -> argument. Lacks the tags of numbers and their lists."""


def _metadata(record: MetadataRecord) -> dict[str, object]:
    """The stack trace of a node, and the modules that contain it. Error messages use them."""
    meta: dict[str, Any] = {}
    if record["stack_trace"]:
        meta["stack_trace"] = record["stack_trace"]
    if record["nn_module_stack"]:
        stack = {}
        for item in record["nn_module_stack"].split(";"):
            key, _, rest = item.partition(",")
            path, _, kind = rest.rpartition(",")
            stack[key] = (path, kind)
        meta["nn_module_stack"] = stack
    return meta
