"""Checks the JSON of a `.pt2` archive against the schema of `torch.export`, before any value is used.

    read_model(bytes)    ->    the program as dictionaries and lists, with (tag, value) for a choice of several kinds

Names must be Python identifiers, because PyTorch writes the graph as Python code. Numbers must fit into 64 bits. Keys
that the schema lacks are ignored. The schema is that of PyTorch's `torch/_export/serde/schema.py`, major version 8. It
lacks objects of C++ classes, tokens, and operators as arguments. This module does not need PyTorch.
"""

import json
import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tiduc.models.torch.archive import Refused
from tiduc.models.torch.records import ModelRecord, PayloadRecord

MAJOR = 8
"""The major version of the schema of PyTorch 2.5 and later."""
_LARGEST = 2**63
_LONGEST_NAME, _LONGEST_TEXT, _LONGEST_TRACE = 512, 2**16, 2**20
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(r"[^\x00-\x1f\x7f\"'\\`{}$]+")
_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}

Kind = Any
"""A constraint on a JSON value.

A kind is a function that checks and returns the value, a list with the kind of the elements, a dictionary from keys to
kinds, or an instance of a class below.
"""


@dataclass(frozen=True)
class OneOf:
    """The kind of a dictionary with one entry, whose key is a tag that determines the kind of the value.

    `checked` returns the pair (tag, value).
    """

    kinds: dict[str, Kind]
    refused: tuple[tuple[str, str], ...] = ()
    """Pairs of a tag that is not supported and its meaning, for the message."""


@dataclass(frozen=True)
class Named:
    """The kind of a dictionary with arbitrary keys. `key` checks a key, and `kind` is the kind of all values."""

    kind: Kind
    key: Callable[[Any], Any]


@dataclass(frozen=True)
class Maybe:
    """The kind of a value that has the kind `kind` or is None."""

    kind: Kind


def integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -_LARGEST <= value < _LARGEST:
        raise Refused(f"expects a 64-bit integer, but has {_shown(value)}")
    return value


def number(value: object) -> float:
    if isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"expects a number, but has {_shown(value)}")
    return float(integer(value)) if isinstance(value, int) else value


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"expects true or false, but has {_shown(value)}")
    return value


def text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise Refused(f"expects a string of at most {_LONGEST_TEXT} characters, but has {_shown(value)}")
    return value


def name(value: object) -> str:
    """Checks the name of a value of the graph. It must be an identifier, because PyTorch writes it into Python code."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or not is_name(value):
        raise Refused(f"expects a name, but has {_shown(value)}")
    return value


def is_name(value: str) -> bool:
    """Whether a string is an ASCII identifier that is no keyword of Python and does not begin with two underscores."""
    return bool(_IDENTIFIER.fullmatch(value)) and not keyword.iskeyword(value) and not value.startswith("__")


def _name_or_none(value: object) -> str:
    return "" if value == "" else name(value)


def path(value: object) -> str:
    """Checks the name of a parameter or buffer, which consists of names separated by dots."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or not _PATH.fullmatch(value):
        raise Refused(f"expects the name of a parameter or buffer, but has {_shown(value)}")
    if any(not part or part.startswith("__") for part in value.split(".")):
        raise Refused(f"expects the name of a parameter or buffer, but has {_shown(value)}")
    return value


def _trace(value: object) -> str:
    """Checks a string that only messages use. Returns it without characters that are not printable."""
    if not isinstance(value, str) or len(value) > _LONGEST_TRACE:
        raise Refused(f"expects a string of at most {_LONGEST_TRACE} characters, but has {_shown(value)}")
    return "".join(c for c in value if c.isprintable() or c == "\n")


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return repr(value[:60] if isinstance(value, str) else value)[:80]


def checked(kind: Kind, value: object) -> Any:
    """Checks a JSON value against a kind, and returns it as a record. Raises `TiducError` if the value does not fit."""
    if isinstance(kind, Maybe):
        return None if value is None else checked(kind.kind, value)
    if isinstance(kind, OneOf):
        return _chosen(kind, value)
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise Refused(f"expects a list, but has {_shown(value)}")
        return [checked(kind[0], each) for each in value]
    if isinstance(kind, dict | Named):
        if not isinstance(value, dict):
            raise Refused(f"expects an object, but has {_shown(value)}")
        if isinstance(kind, Named):
            return {kind.key(key): checked(kind.kind, each) for key, each in value.items()}
        return {key: _field(key, each, value) for key, each in kind.items()}
    return kind(value)


def _field(key: str, kind: Kind, record: Mapping[str, object]) -> Any:
    if key not in record and not isinstance(kind, Maybe):
        raise Refused(f"{key} is missing")
    return checked(kind, record.get(key))


def _chosen(kind: OneOf, value: object) -> tuple[str, Any]:
    if not isinstance(value, dict) or len(value) != 1:
        raise Refused(f"expects an object with one entry, but has {_shown(value)}")
    ((tag, inner),) = value.items()
    if tag not in kind.kinds:
        raise Refused(f"{dict(kind.refused).get(tag, f'a value of the kind {_shown(tag)}')} is not supported")
    return tag, checked(kind.kinds[tag], inner)


# ---- the schema --------------------------------------------------------------------------------------------

_HINT = OneOf({"as_int": integer, "as_bool": boolean, "as_float": number})
_EXPRESSION = {"expr_str": text, "hint": Maybe(_HINT)}
SIZE = OneOf({"as_expr": _EXPRESSION, "as_int": integer})
_TENSOR_META = {
    "dtype": integer,
    "sizes": [SIZE],
    "requires_grad": boolean,
    "strides": [SIZE],
    "storage_offset": SIZE,
    "layout": integer,
}
_TENSOR, _DEVICE = {"name": name}, {"type": text, "index": Maybe(integer)}
_SYM_INT = OneOf({"as_name": name, "as_int": integer})
_SYM_FLOAT = OneOf({"as_name": name, "as_float": number})
_SYM_BOOL = OneOf({"as_name": name, "as_bool": boolean})
_OPTIONAL = OneOf({"as_tensor": _TENSOR, "as_none": boolean})
_GRAPH: dict[str, Kind] = {}
_ARGUMENT: OneOf = OneOf(
    {
        "as_none": boolean,
        "as_tensor": _TENSOR,
        "as_tensors": [_TENSOR],
        "as_int": integer,
        "as_ints": [integer],
        "as_float": number,
        "as_floats": [number],
        "as_string": text,
        "as_strings": [text],
        "as_sym_int": _SYM_INT,
        "as_sym_ints": [_SYM_INT],
        "as_scalar_type": integer,
        "as_memory_format": integer,
        "as_layout": integer,
        "as_device": _DEVICE,
        "as_bool": boolean,
        "as_bools": [boolean],
        "as_sym_bool": _SYM_BOOL,
        "as_sym_bools": [_SYM_BOOL],
        "as_graph": {"name": name, "graph": _GRAPH},
        "as_optional_tensors": [_OPTIONAL],
        "as_sym_float": _SYM_FLOAT,
        "as_sym_floats": [_SYM_FLOAT],
        "as_optional_tensor": _OPTIONAL,
        "as_complex": {"real": number, "imag": number},
        "as_nested_tensors": [[_TENSOR]],
        "as_int_lists": [[integer]],
        "as_float_lists": [[number]],
    },
    (("as_custom_obj", "an object of a C++ class"), ("as_operator", "an operator as an argument")),
)
_METADATA = {"stack_trace": Maybe(_trace), "nn_module_stack": Maybe(_trace)}
_NODE = {
    "target": text,
    "inputs": [{"name": _name_or_none, "arg": _ARGUMENT, "kind": Maybe(integer)}],
    "outputs": [_ARGUMENT],
    "metadata": _METADATA,
    "is_hop_single_tensor_return": Maybe(boolean),
    "name": Maybe(name),
}
_GRAPH |= {
    "inputs": [_ARGUMENT],
    "outputs": [_ARGUMENT],
    "nodes": [_NODE],
    "tensor_values": Named(_TENSOR_META, name),
    "sym_int_values": Named(SIZE, name),
    "sym_bool_values": Named(OneOf({"as_expr": _EXPRESSION, "as_bool": boolean}), name),
    "sym_float_values": Maybe(Named(OneOf({"as_expr": _EXPRESSION, "as_float": number}), name)),
    "is_single_tensor_return": Maybe(boolean),
}
_CONSTANT = OneOf(
    {"as_none": boolean, "as_int": integer, "as_float": number, "as_string": text, "as_bool": boolean}
)
_GRADIENTS = ("gradient_to_parameter", "gradient_to_user_input")
_TOKENS = (("token", "a side effect"), ("custom_obj", "an object of a C++ class"))
_INPUT = OneOf(
    {
        "user_input": {"arg": _ARGUMENT},
        "parameter": {"arg": _TENSOR, "parameter_name": path},
        "buffer": {"arg": _TENSOR, "buffer_name": path, "persistent": boolean},
        "tensor_constant": {"arg": _TENSOR, "tensor_constant_name": path},
        "constant_input": {"name": _name_or_none, "value": _CONSTANT},
    },
    _TOKENS,
)
_OUTPUT = OneOf(
    {
        "user_output": {"arg": _ARGUMENT},
        "buffer_mutation": {"arg": _TENSOR, "buffer_name": path},
        "user_input_mutation": {"arg": _TENSOR, "user_input_name": name},
        "parameter_mutation": {"arg": _TENSOR, "parameter_name": path},
    },
    (
        *_TOKENS,
        *((each, "the gradient of a loss") for each in ("loss_output", *_GRADIENTS)),
    ),
)
_RANGE = {"min_val": Maybe(integer), "max_val": Maybe(integer)}
_MODEL = {
    "graph_module": {
        "graph": _GRAPH,
        "signature": {"input_specs": [_INPUT], "output_specs": [_OUTPUT]},
    },
    "range_constraints": Named(_RANGE, text),
    "verifiers": Maybe([text]),
}
_VERSION = {"schema_version": {"major": integer, "minor": integer}, "torch_version": Maybe(text)}
_PAYLOADS = {
    "config": Named(
        {"path_name": text, "is_param": boolean, "use_pickle": boolean, "tensor_meta": Maybe(_TENSOR_META)},
        path,
    )
}


def read_model(written: bytes | bytearray) -> ModelRecord:
    """Reads and checks the program in the part `models/model.json`, whose bytes are `written`."""
    document = _document(written)
    if not isinstance(document, dict):
        raise Refused(f"expects an object, but has {_shown(document)}")
    version = checked(_VERSION, document)
    if version["schema_version"]["major"] != MAJOR:
        of = version["schema_version"]
        raise Refused(
            f"the file has version {of['major']}.{of['minor']} of the schema of torch.export, of PyTorch "
            f"{version['torch_version']}; tiduc reads version {MAJOR}"
        )
    model: ModelRecord = _recorded(_MODEL, document)
    return model


def read_payloads(written: bytes | bytearray) -> dict[str, PayloadRecord]:
    """Reads and checks a part that lists arrays, such as `data/weights/model_weights_config.json`.

    Returns a map from the names of arrays to their records.
    """
    config: dict[str, PayloadRecord] = _recorded(_PAYLOADS, _document(written))["config"]
    return config


def _recorded(kind: Kind, document: object) -> Any:
    try:
        return checked(kind, document)
    except RecursionError:
        raise Refused("the program nests too deeply") from None


def _document(written: bytes | bytearray) -> Any:
    try:
        return json.loads(written.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise Refused("the JSON nests too deeply") from None
    except ValueError as error:
        raise Refused(f"not JSON: {str(error)[:200]}") from None


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
