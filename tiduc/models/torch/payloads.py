"""Reads the descriptions of the arrays in a `.pt2` archive, and checks that all elements are within the archive.

data/weights/model_weights_config.json    for each array: its name, its type, its strides, and the part with its bytes
data/weights/weight_0                     bytes

Arrays in the same part may share bytes, as tied weights do. Nothing is unpickled: an array that PyTorch pickled, such
as an instance of a subclass of `torch.Tensor`, is refused. PyTorch 2.8 saves all arrays as one pickle, which
`pickled.py` reads. This module does not need PyTorch.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tiduc.models.torch import archive, pickled, schema
from tiduc.models.torch.archive import Refused
from tiduc.models.torch.records import TensorMeta
from tiduc.runtime.arrays import Array

TYPES = {
    **{1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64"},
    **{9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16"},
    **{29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz"},
    **{33: "float8_e8m0fnu", 34: "uint32", 35: "uint64"},
}
"""Maps the number of an element type in an archive to the name of the type in PyTorch."""
STRIDED = 7
"""The number of the strided layout in an archive. No other layout is supported."""
_HIGHEST_RANK = 64
_MOST_REPEATED = 2**26
"""The largest size in bytes of an array whose elements share memory, such as a result of `expand`."""


@dataclass(frozen=True)
class Payload:
    """The description of an array in an archive.

    `part` is the name of the part with the array's bytes. `offset` is the number of elements in this part before the
    array's first element.
    """

    part: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_parameter: bool
    requires_grad: bool
    """Whether PyTorch computes a gradient with respect to the array. False for a frozen parameter."""

    @property
    def itemsize(self) -> int:
        return itemsize(self.dtype)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith(("float", "bfloat", "complex"))


@dataclass(frozen=True)
class Payloads:
    """Maps names to the arrays of an archive, separately for the folders of weights and of constants."""

    weights: dict[str, Payload]
    constants: dict[str, Payload]


def itemsize(dtype: str) -> int:
    return 4 if dtype == "complex32" else numpy_type(dtype).itemsize


def numpy_type(dtype: str) -> Any:
    """The NumPy type for the name of a PyTorch type. Raises `TiducError` if NumPy lacks the type."""
    if dtype == "complex32":
        raise Refused("arrays of the type complex32 are not supported")
    return np.dtype(getattr(np, dtype, None) or getattr(ml_dtypes, dtype))


def read_payloads(documents: Mapping[str, bytes | bytearray], sizes: Mapping[str, int]) -> Payloads:
    """Reads and checks the descriptions of all arrays. `documents` are the parts that contain the descriptions.

    `sizes` maps the name of each part of the archive to its number of bytes.
    """
    weights, constants = (
        _folder(folder, documents, sizes) for folder in (archive.WEIGHTS, archive.CONSTANTS)
    )
    return Payloads(weights, constants)


def documents(parts: Mapping[str, bytearray]) -> dict[str, bytearray]:
    """The parts of an archive that contain descriptions of arrays, by name."""
    names = (*archive.CONFIGS.values(), *archive.PICKLED.values())
    return {name: parts[name] for name in names if name in parts}


def _folder(
    folder: str, documents: Mapping[str, bytes | bytearray], sizes: Mapping[str, int]
) -> dict[str, Payload]:
    config, pickle = archive.CONFIGS[folder], archive.PICKLED[folder]
    if config in documents and pickle in documents:
        raise Refused(f"the archive has both {config} and {pickle}")
    if pickle in documents:
        return _pickled(pickle.rpartition("/")[0], documents[pickle], sizes)
    if config not in documents:
        raise Refused(f"{config} is missing")
    found = {}
    for name, record in schema.read_payloads(documents[config]).items():
        if record["use_pickle"] or record["tensor_meta"] is None:
            raise Refused(
                f"{name} is a pickle, and a pickle is a program. If you trust the "
                "author of the file, pass --trust (in Python, trust=True)"
            )
        found[name] = _payload(
            name, folder + record["path_name"], record["tensor_meta"], record["is_param"], sizes
        )
    return found


def _payload(name: str, part: str, meta: TensorMeta, is_parameter: bool, parts: Mapping[str, int]) -> Payload:
    if meta["dtype"] not in TYPES or meta["layout"] != STRIDED:
        raise Refused(f"{name}: the element type or the layout of the array is not supported")
    if part not in parts or part.endswith(".json") or ".pt/" in part:
        raise Refused(f"{name}: the archive has no part {part[:80]}")
    payload = Payload(
        part,
        TYPES[meta["dtype"]],
        tuple(_fixed(name, x) for x in meta["sizes"]),
        tuple(_fixed(name, x) for x in meta["strides"]),
        _fixed(name, meta["storage_offset"]),
        is_parameter,
        meta["requires_grad"],
    )
    check_place(name, payload, parts[part])
    return payload


def _fixed(name: str, size: tuple[str, Any]) -> int:
    if size[0] != "as_int":
        raise Refused(f"{name}: a size, a stride or the offset of the array is not a number")
    number: int = size[1]
    return number


def check_place(name: str, payload: Payload, size: int) -> None:
    """Raises `TiducError` unless every element of the array is within `size` bytes."""
    if len(payload.sizes) != len(payload.strides) or len(payload.sizes) > _HIGHEST_RANK:
        raise Refused(f"{name}: the array needs a stride for each of at most {_HIGHEST_RANK} sizes")
    if min((payload.offset, *payload.sizes, *payload.strides)) < 0:
        raise Refused(f"{name}: a size, a stride or an offset is negative")
    if payload.requires_grad and not payload.is_float:
        raise Refused(f"{name}: an array of {payload.dtype} has no gradient")
    last = sum((n - 1) * stride for n, stride in zip(payload.sizes, payload.strides, strict=True))
    if math.prod(payload.sizes) and (payload.offset + last + 1) * payload.itemsize > size:
        raise Refused(f"{name}: the array needs more bytes than its part of the archive has")
    if math.prod(max(1, n) for n in payload.sizes) * payload.itemsize > max(size, _MOST_REPEATED):
        raise Refused(f"{name}: the array repeats its elements into more than {_MOST_REPEATED >> 20} MiB")


def _pickled(pickle: str, written: bytes | bytearray, sizes: Mapping[str, int]) -> dict[str, Payload]:
    """The arrays that PyTorch 2.8 saved as a pickle. Their bytes are parts of an inner archive."""
    found = {}
    for name, tensor in pickled.read_tensors(written).items():
        part = f"{pickle}/data/{tensor.storage.part}"
        if part not in sizes or tensor.dtype not in TYPES.values():
            raise Refused(f"{name}: the array's bytes are missing, or its element type is not supported")
        found[schema.path(name)] = payload = Payload(
            part,
            tensor.dtype,
            tensor.sizes,
            tensor.strides,
            tensor.offset,
            tensor.is_parameter,
            tensor.requires_grad,
        )
        check_place(name, payload, sizes[part])
    return found


def view(payload: Payload, parts: Mapping[str, bytearray]) -> Array:
    """Returns an array as a view of the bytes in its part."""
    dtype = numpy_type(payload.dtype)
    if not math.prod(payload.sizes):
        return np.zeros(payload.sizes, dtype)
    whole = np.frombuffer(parts[payload.part], dtype, len(parts[payload.part]) // dtype.itemsize)
    strides = [stride * dtype.itemsize for stride in payload.strides]
    elements: Array = np.lib.stride_tricks.as_strided(whole[payload.offset :], payload.sizes, strides)
    return elements


def arrays(names: Iterable[str], payloads: Payloads, parts: Mapping[str, bytearray]) -> dict[str, Array]:
    """Maps the given names to arrays, no two of which share memory.

    An array is a view if it is contiguous and the only array of its part. All other arrays are copies.
    """
    users: dict[str, int] = {}
    for each in (*payloads.weights.values(), *payloads.constants.values()):
        users[each.part] = users.get(each.part, 0) + 1
    result = {}
    for name in names:
        payload = payloads.weights.get(name) or payloads.constants[name]
        elements = view(payload, parts)
        shared = users[payload.part] > 1 or not elements.flags.c_contiguous
        result[name] = np.array(elements, order="C") if shared else elements
    return result
