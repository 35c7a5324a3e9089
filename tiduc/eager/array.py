"""`Array`: an array with NumPy's interface and derivatives. Each op runs immediately.

    w = Array(np.ones(3), requires_grad=True)
    loss = np.sum((x @ w - y) ** 2)
    loss.backward()
    w.grad

An array is a mutable reference to an immutable value. A write to an array, `x[i] = v` or `x += v`, makes the array
refer to a new value. Earlier results, and their derivatives, still use the old value. A view (`x[1:]`, `x.T`) is a
reference to a part of an array. A read of the view returns that part of the array's current value, and a write to the
view writes to the array.
"""

import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tiduc.dialect.errors import RequestError
from tiduc.eager import views
from tiduc.eager.cotangents import set_gradients
from tiduc.eager.elements import Elements
from tiduc.eager.elementwise import POWERS, convert, universal
from tiduc.eager.graphs import tensor_type
from tiduc.eager.indexing import IndexEntry, IndexKey, get, index_of, is_view, put, sizes_of
from tiduc.eager.places import Place, PlaceStep
from tiduc.eager.products import GENERALIZED
from tiduc.eager.record import EagerInput
from tiduc.eager.reductions import BY_UFUNC, reduce
from tiduc.eager.registry import FUNCTIONS, Result
from tiduc.eager.session import Key, Operand, constant, is_recording
from tiduc.runtime.arrays import refuse_masked

ArrayKey: TypeAlias = "IndexEntry | Array | tuple[IndexEntry | Array, ...]"
"""An index of an eager array: any index that NumPy accepts. Its entries may also be eager arrays."""


def _in_place(ufunc: np.ufunc) -> Callable[["Array", ArrayLike], "Array"]:
    def method(self: "Array", other: ArrayLike) -> "Array":
        if self.is_scalar:  # a scalar is immutable, as in NumPy; Python binds the variable to the result
            result: Array = ufunc(self, other)
            return result
        return ufunc(self, other, out=(self,))  # type: ignore[no-any-return]

    return method


def _by_function(name: str) -> Callable[..., "Array"]:
    """A method that calls `np.{name}` with the array as first argument."""

    def method(self: "Array", *args: Any, **options: Any) -> "Array":
        result: Array = getattr(np, name)(self, *args, **options)
        return result

    method.__name__, method.__doc__ = name, f"`np.{name}` of the array."
    return method


class Array(Elements, NDArrayOperatorsMixin):
    """An array that NumPy's functions accept.

    With `requires_grad`, results computed from the array can be differentiated. `grad` is the cotangent from the last
    `backward`, or None. This is the cotangent of the value that the array had when `requires_grad` was set, even if the
    array was written to later. As in NumPy, a scalar differs from an array without dimensions: a scalar cannot be
    written to. `is_scalar` is True for a scalar.
    """

    def __init__(self, data: ArrayLike, dtype: DTypeLike | None = None, requires_grad: bool = False) -> None:
        """Copies an array, or an object that NumPy converts to an array.

        Raises `InputError` for an element type that MLIR lacks, and `RequestError` for integers or booleans with
        `requires_grad`.
        """
        value = constant(data.data if isinstance(data, Array) else data, dtype)
        tensor_type(value.data.dtype, ())
        self._prepare(Place(value), is_scalar=False)
        self.requires_grad = requires_grad

    def _prepare(self, place: Place, is_scalar: bool) -> None:
        self.grad: Array | None = None
        self.is_scalar = is_scalar
        self._place = place

    @staticmethod
    def of(value: EagerInput) -> "Array":
        """An array with this value. The array is a scalar if the value has no dimensions."""
        return _at(Place(value), is_scalar=value.data.ndim == 0)

    # ---- the value -----------------------------------------------------------------------------------------

    @property
    def value(self) -> EagerInput:
        """The current value of the array or view."""
        return self._place.value

    def view(self, step: PlaceStep) -> "Array":
        """A view of the part of the array that `step` selects."""
        return _at(self._place.part(step), is_scalar=False)

    def assign(self, new: EagerInput) -> None:
        """Replaces the array's value by `new`, which must have the array's shape and type.

        For a view, replaces that part of the viewed array. Raises `TypeError` for a scalar.
        """
        if self.is_scalar:
            raise TypeError("a scalar cannot be written to")
        self._place.assign(new)

    @property
    def version(self) -> int:
        """The number of writes to the array. For a view, the number of writes to the viewed array."""
        return self._place.version

    @property
    def data(self) -> NDArray[Any]:
        """The elements as a read-only NumPy array. `backward` treats results computed from it as constants."""
        data: NDArray[Any] = self.value.data
        return data

    def detach(self) -> "Array":
        """An array that has the current value and does not require grad."""
        return _at(Place(EagerInput(Key(), self.data)), self.is_scalar)

    def copy(self) -> "Array":
        """An array with the current value. A later write to one array does not change the other."""
        return _at(Place(self.value), is_scalar=False)

    __copy__ = copy

    def __reduce__(self) -> tuple[type["Array"], tuple[object, ...]]:
        """Makes pickling and deep copies create a new leaf. Raises `RequestError` if the array is not a leaf."""
        if not self.is_leaf:
            raise RequestError(
                "the array is computed from other arrays; detach() gives an array to store or copy"
            )
        return Array, (self.data, None, self.requires_grad)

    # ---- derivatives ---------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether results computed from the array are recorded, so that they can be differentiated."""
        return self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        value = self.value
        if wanted == value.requires_grad:
            return
        if value.trace is not None or self._place.is_part:
            raise RequestError(
                "requires_grad is fixed for a view, and for an array computed from others: use detach()"
            )
        if wanted and value.data.dtype.kind in "iub":
            raise RequestError(f"an array of {value.data.dtype} has no derivative")
        self._place.replace(EagerInput(Key(), value.data, None, wanted))
        if wanted:
            self._register()

    def retain_grad(self) -> None:
        """Makes `backward` set `grad` on this array, even if the array is not a leaf.

        `grad` is then the cotangent of the array's current value. Raises `RequestError` if the array does not require
        grad.
        """
        if not self.requires_grad:
            raise RequestError("the array does not require grad")
        self._register()

    def _register(self) -> None:
        key = self.value.key
        assert isinstance(key, Key)
        if all(holder() is not self for holder in key.holders):
            key.holders.append(weakref.ref(self))

    @property
    def is_leaf(self) -> bool:
        """False if the array is computed from arrays that require grad, else True."""
        return self.value.trace is None

    def backward(
        self,
        seed: ArrayLike | None = None,
        *,
        retain: bool = False,
        accumulate: bool = False,
        create_graph: bool = False,
    ) -> None:
        """Sets `grad` on the leaves on which this array depends. `backward_from` documents the parameters."""
        seeds = None if seed is None else [operand(seed)]
        set_gradients([self.value], seeds, retain=retain, accumulate=accumulate, create_graph=create_graph)

    def set_grad(self, cotangent: EagerInput, accumulate: bool = False) -> None:
        """Sets `grad` to this cotangent. With `accumulate`, adds the cotangent to an existing `grad`."""
        new = Array.of(cotangent)
        self.grad = self.grad + new if accumulate and self.grad is not None else new

    # ---- NumPy's protocols ---------------------------------------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """The elements as a NumPy array.

        Raises `RequestError` if the array requires grad and recording is on, because the result has no derivative.
        """
        if self.requires_grad and is_recording():
            raise RequestError(
                "the array requires grad, but the result would not: use .data, .item() or detach()"
            )
        return np.array(self.data, dtype) if copy or copy is None else np.asarray(self.data, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: ArrayLike, **options: Any) -> Any:
        out = options.pop("out", None) if options else None
        if method == "reduce" and ufunc.__name__ in BY_UFUNC and out is None:
            axis, keepdims = options.pop("axis", 0), options.pop("keepdims", False)
            return Array.of(reduce(BY_UFUNC[ufunc.__name__], valued(inputs[0]), axis, keepdims, **options))
        axis = options.pop("axis", -1) if ufunc is np.vecdot else -1
        if method != "__call__" or options:
            return NotImplemented
        if ufunc.signature is not None:  # a function of vectors and matrices
            if (product := GENERALIZED.get(ufunc.__name__)) is None:
                return NotImplemented
            values = [valued(x) for x in inputs]
            if axis != -1:
                values = [array(np.moveaxis(array(x), axis, -1)).value for x in inputs]
            result: EagerInput | None = product(*values)
        else:
            result = universal(ufunc, [operand(x) for x in inputs])
        if result is None:
            return NotImplemented
        if out is None:
            return Array.of(result)
        if isinstance(out[0], Array):
            return out[0]._updated(result)
        np.copyto(out[0], Array.of(result).__array__(), casting="same_kind")
        return out[0]

    def __array_function__(
        self, function: Callable[..., object], types: Collection[type], args: Any, kwargs: Any
    ) -> Any:
        implementation = FUNCTIONS.get(function)
        return NotImplemented if implementation is None else implementation(*args, **kwargs)

    def _updated(self, new: EagerInput) -> "Array":
        """Writes `new`, the result of an in-place op such as `+=`, to the array, and returns the array.

        Raises `TypeError` or `ValueError` if the type or shape of `new` does not fit the array.
        """
        if new.data.dtype != self.dtype and not np.can_cast(new.data.dtype, self.dtype, "same_kind"):
            raise TypeError(f"{new.data.dtype} cannot be written to an array of {self.dtype}")
        if new.data.shape != self.shape:
            raise ValueError(f"the shape {new.data.shape} cannot be written to an array of {self.shape}")
        self.assign(convert(new, self.dtype))
        return self

    __iadd__ = _in_place(np.add)
    __isub__ = _in_place(np.subtract)
    __imul__ = _in_place(np.multiply)
    __itruediv__ = _in_place(np.true_divide)
    __ifloordiv__ = _in_place(np.floor_divide)
    __imod__ = _in_place(np.remainder)
    __ipow__ = _in_place(np.power)
    __imatmul__ = _in_place(np.matmul)
    __iand__ = _in_place(np.bitwise_and)
    __ior__ = _in_place(np.bitwise_or)
    __ixor__ = _in_place(np.bitwise_xor)

    def __pow__(self, other: ArrayLike) -> "Array":
        known = None
        if isinstance(other, int | float) and type(other) in (int, float) and self.dtype.kind not in "iub":
            known = POWERS.get(other)
        result: Any = np.power(self, other) if known is None else known(self)
        return result  # type: ignore[no-any-return]

    # ---- indexing ------------------------------------------------------------------------------------------

    def __getitem__(self, key: ArrayKey) -> "Array":
        key, value = _index(key), self.value
        index = index_of(key, value.data.shape)
        if not is_view(key, sizes_of(index)):
            return Array.of(get(value, index))
        return self.view(views.at(key, index))

    def __setitem__(self, key: ArrayKey, new: ArrayLike) -> None:
        value = self.value
        given = operand(new)
        if not isinstance(given, EagerInput):
            given = constant(given, self.dtype)
        self.assign(put(value, index_of(_index(key), value.data.shape), given))

    def __iter__(self) -> Iterator["Array"]:
        return (self[i] for i in range(len(self)))

    # ---- attributes and methods of NumPy's arrays ----------------------------------------------------------

    @property
    def T(self) -> "Array":
        return self.transpose()

    @property
    def mT(self) -> "Array":
        if self.ndim < 2:
            raise ValueError(f"a matrix must have at least two dimensions, but the array has {self.ndim}")
        return self.transpose([*range(self.ndim - 2), self.ndim - 1, self.ndim - 2])

    @property
    def real(self) -> "Array":
        return self.view(views.REAL)

    @property
    def imag(self) -> "Array":
        return self.view(views.IMAGINARY)

    @overload
    def transpose(self, axes: Sequence[int] | None, /) -> "Array": ...
    @overload
    def transpose(self, *axes: int) -> "Array": ...
    def transpose(self, *axes: Any) -> "Array":
        """A view whose dimension i is dimension `axes[i]` of the array. The default reverses the dimensions."""
        given = axes[0] if len(axes) == 1 else axes or None
        order = normalize_axis_tuple(range(self.ndim)[::-1] if given is None else given, self.ndim)
        if len(order) != self.ndim:
            raise ValueError(f"axes {given} of an array of {self.ndim} dimensions")
        return self.view(views.transposed(order))

    @overload
    def reshape(self, sizes: Sequence[int], /) -> "Array": ...
    @overload
    def reshape(self, *sizes: int) -> "Array": ...
    def reshape(self, *sizes: Any) -> "Array":
        """The elements in another shape. The result is a view if NumPy returns a view."""
        given = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        step = views.reshaped(np.empty(self.shape, np.bool_).reshape(given).shape)
        if self.is_scalar or (self._place.is_part and not self._place.has_view(step)):
            return Array.of(step.read(self.value))
        return self.view(step)

    def ravel(self) -> "Array":
        return self.reshape(-1)

    def flatten(self) -> "Array":
        return self.reshape(-1).copy()

    def astype(self, dtype: DTypeLike) -> "Array":
        return Array.of(convert(self.value, np.dtype(dtype)))

    def conj(self) -> "Array":
        conjugate: Any = np.conjugate(self)
        return conjugate  # type: ignore[no-any-return]

    def dot(self, other: ArrayLike) -> "Array":
        product: Any = np.dot(self, other)
        return product  # type: ignore[no-any-return]

    sum, prod, mean, cumsum = map(_by_function, ("sum", "prod", "mean", "cumsum"))
    max, min, any, all = map(_by_function, ("max", "min", "any", "all"))
    var, std, clip = map(_by_function, ("var", "std", "clip"))

    def __repr__(self) -> str:
        shown = np.array2string(self.data, separator=", ", prefix="Array(")
        return f"Array({shown}, dtype={self.dtype}{', requires_grad=True' if self.requires_grad else ''})"


def _at(place: Place, is_scalar: bool) -> Array:
    array = Array.__new__(Array)
    array._prepare(place, is_scalar)
    return array


def array(x: ArrayLike) -> Result:
    """Converts an object that NumPy accepts as an array to an eager array. Returns an eager array unchanged."""
    return x if isinstance(x, Array) else Array(x)


def operand(x: ArrayLike) -> Operand:
    """Converts an object to an operand of an op. Python numbers are unchanged; other objects become values."""
    if isinstance(x, Array):
        return x.value
    if isinstance(x, int | float | complex) and type(x) in (int, float, complex):
        return x
    return constant(x)


def valued(x: ArrayLike) -> EagerInput:
    """The value of an array, or of an object that NumPy converts to an array."""
    return x.value if isinstance(x, Array) else constant(x)


def _index(key: ArrayKey) -> IndexKey:
    """The index, in which each eager array is replaced by a NumPy array of its elements."""
    if isinstance(key, tuple):
        return tuple(map(_index, key))  # type: ignore[return-value]  # a tuple inside of a tuple contains integers
    if isinstance(key, Array):
        return key.data if key.ndim or key.dtype.kind == "b" else key.data[()]
    refuse_masked(key, "the index")
    return key
