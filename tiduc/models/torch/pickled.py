"""Reads descriptions of the arrays that PyTorch 2.8 saved as a pickle, without unpickling.

    _rebuild_parameter(_rebuild_tensor_v2(storage '0', 0, (2, 3), (3, 1), ...), True, ...)    ->    PickledTensor(...)

`pickletools` lists the operations of a pickle without running them. This module interprets the operations that build
dictionaries, tuples, numbers and strings, and calls of the four functions that PyTorch uses for plain tensors. It
refuses a pickle that calls another function.
"""

import pickletools
from dataclasses import dataclass
from typing import Any

from tiduc.models.torch.archive import Refused

_MOST = 10**7
"""The largest number of operations in a pickle."""
_SKIPPED = ("PROTO", "FRAME")
_VALUES = ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS, _GETS = ("BINPUT", "LONG_BINPUT"), ("BINGET", "LONG_BINGET")
_STORAGES = {
    **{"Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool"},
    **{"Half": "float16", "Float": "float32", "Double": "float64", "BFloat16": "bfloat16"},
    **{"ComplexFloat": "complex64", "ComplexDouble": "complex128"},
}
_MARK = object()


@dataclass(frozen=True)
class PickledFunction:
    """A function or class that the pickle refers to. Only its name is known."""

    name: str


@dataclass(frozen=True)
class Storage:
    """The memory of a tensor: the name of the part with its bytes, and the element type.

    The element type is None for untyped memory.
    """

    part: str
    dtype: str | None


@dataclass(frozen=True)
class PickledTensor:
    """The description of a tensor in a pickle."""

    storage: Storage
    dtype: str
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    is_parameter: bool = False


def read_tensors(written: bytes | bytearray) -> dict[str, PickledTensor]:
    """Reads a pickled dictionary from names to tensors. Raises `TiducError` if the pickle contains anything else."""
    try:
        tensors = _Machine().run(bytes(written))
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
    ) as error:  # raised by pickletools, or by `_Machine` if the stack has unexpected values
        raise Refused(f"not a pickle of tensors: {str(error)[:200]}") from None
    if not isinstance(tensors, dict):
        raise Refused("not a pickle of tensors by name")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, PickledTensor):
            raise Refused(f"not a pickle of tensors by name: {str(name)[:80]}")
    return tensors


class _Machine:
    """Interprets the operations of a pickle with a stack of values, as Python's unpickler does."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, written: bytes) -> Any:
        for count, (operation, argument, _) in enumerate(pickletools.genops(written)):
            if operation.name == "STOP":
                return self._stack.pop()
            if count > _MOST:
                raise Refused(f"a pickle has more than {_MOST:,} operations")
            if operation.name not in _SKIPPED:
                self._step(operation.name, argument)
        raise ValueError("the pickle does not end")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _PUTS:
            self._memo[argument] = stack[-1]
        elif name in _GETS:
            stack.append(self._memo[argument])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "TUPLE":
            stack.append(tuple(self._marked()))
        elif name in _TUPLES:
            items = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(reversed(items)))
        elif name == "GLOBAL":
            stack.append(PickledFunction(str(argument).replace(" ", ".")))
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_called(stack.pop(), arguments))
        elif name == "SETITEMS":
            pairs = self._marked()
            stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            stack[-1].update({key: value})
        else:
            raise Refused(f"a pickle has the operation {name}, which no pickle of tensors has")

    def _marked(self) -> list[Any]:
        """Pops the values above the last `_MARK` and the mark itself from the stack. Returns the values."""
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items


def _storage(given: Any) -> Storage:
    kind, of, part, _, count = given
    if (
        kind != "storage"
        or not isinstance(of, PickledFunction)
        or not isinstance(part, str)
        or not part.isdigit()
    ):
        raise ValueError("a value is not a storage of a tensor")
    if not isinstance(count, int):
        raise ValueError("the size of a storage is not an integer")
    if of.name == "torch.storage.UntypedStorage":
        return Storage(part, None)
    word = of.name.removeprefix("torch.").removesuffix("Storage")
    return Storage(part, _STORAGES[word])


def _called(function: object, arguments: Any) -> Any:
    """The result of a call in the pickle. Raises `Refused` if the function is not one that this module interprets."""
    name = function.name if isinstance(function, PickledFunction) else "a value"
    if name == "collections.OrderedDict" and arguments == ():
        return {}
    if name == "torch._utils._rebuild_tensor_v2" and len(arguments) >= 6:
        return _tensor(arguments, arguments[0].dtype)
    if name == "torch._utils._rebuild_tensor_v3" and len(arguments) >= 7:
        return _tensor(arguments, arguments[6].name.removeprefix("torch."))
    if name == "torch._utils._rebuild_parameter" and len(arguments) == 3:
        given: PickledTensor = arguments[0]
        fields = {**vars(given), "requires_grad": arguments[1] is True, "is_parameter": True}
        return PickledTensor(**fields)
    raise Refused(
        f"the arrays are a pickle that calls {name[:80]}, which is a program. If you trust the author of the file, "
        "pass --trust (in Python, trust=True)"
    )


def _tensor(arguments: tuple[Any, ...], dtype: str | None) -> PickledTensor:
    storage, offset, sizes, strides, requires_grad = arguments[:5]
    numbers = (offset, *sizes, *strides)
    if not isinstance(storage, Storage) or dtype is None or not all(type(n) is int for n in numbers):
        raise ValueError("a value is not a tensor")
    if max(map(abs, numbers)) >= 2**63:
        raise ValueError("a size is too large")
    return PickledTensor(storage, dtype, offset, tuple(sizes), tuple(strides), requires_grad is True)
