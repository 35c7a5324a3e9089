"""Array: NumPy's arrays with derivatives; each op runs at once.

    w = Array(np.ones(3), requires_grad=True)
    loss = np.sum((x @ w - y) ** 2)
    loss.backward()
    w.grad

An array is a mutable name for an immutable value. A write to an array, `x[i] = v` or `x += v`, binds it to another
value. Results computed from the old value keep that value, and so do their derivatives. A view (`x[1:]`, `x.T`) is a
name for a part of an array: a read returns that part of the array's current value, and a write to the view writes to
the array.
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
"""An index of an eager array: an index of NumPy, whose entries may also be eager arrays."""


def _in_place(ufunc: np.ufunc) -> Callable[["Array", ArrayLike], "Array"]:
    def method(self: "Array", other: ArrayLike) -> "Array":
        if self.is_scalar:  # a scalar is immutable, as in NumPy, so the name is bound to another scalar
            result: Array = ufunc(self, other)
            return result
        return ufunc(self, other, out=(self,))  # type: ignore[no-any-return]

    return method


def _by_function(name: str) -> Callable[..., "Array"]:
    """A method that calls NumPy's function of this name, with the same parameters."""

    def method(self: "Array", *args: Any, **options: Any) -> "Array":
        result: Array = getattr(np, name)(self, *args, **options)
        return result

    method.__name__, method.__doc__ = name, f"`np.{name}` of the array."
    return method


class Array(Elements, NDArrayOperatorsMixin):
    """An array that NumPy's functions accept.

    With `requires_grad`, results computed from the array can be differentiated. `grad` is the cotangent from the last
    `backward`, or None. It belongs to the value that the array had when it began to require grad, regardless of later
    writes to the array. `is_scalar` distinguishes a scalar, as NumPy's functions return it, from an array without
    dimensions: a scalar cannot be written to.
    """

    def __init__(self, data: ArrayLike, dtype: DTypeLike | None = None, requires_grad: bool = False) -> None:
        """A copy of an array, or of anything that NumPy makes an array of.

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
        """An array with this value; a scalar if the value has no dimensions."""
        return _at(Place(value), is_scalar=value.data.ndim == 0)

    # ---- the value -----------------------------------------------------------------------------------------

    @property
    def value(self) -> EagerInput:
        """The current value."""
        return self._place.value

    def view(self, step: PlaceStep) -> "Array":
        """A view of a part of the array."""
        return _at(self._place.part(step), is_scalar=False)

    def assign(self, new: EagerInput) -> None:
        """Assigns another value of the array's shape and type. Through a view, writes that part of the viewed array."""
        if self.is_scalar:
            raise TypeError("a scalar cannot be written to")
        self._place.assign(new)

    @property
    def version(self) -> int:
        """The number of writes to the array, or for a view, to the viewed array."""
        return self._place.version

    @property
    def data(self) -> NDArray[Any]:
        """The elements, read-only. `backward` treats results computed from them as constants."""
        data: NDArray[Any] = self.value.data
        return data

    def detach(self) -> "Array":
        """An array with the current value that does not require grad."""
        return _at(Place(EagerInput(Key(), self.data)), self.is_scalar)

    def copy(self) -> "Array":
        """An array with the current value. A later write to one array does not change the other."""
        return _at(Place(self.value), is_scalar=False)

    __copy__ = copy

    def __reduce__(self) -> tuple[type["Array"], tuple[object, ...]]:
        """Makes pickling and deep copies create a new leaf. Raises `RequestError` if the array is not a leaf."""
        if not self.is_leaf:
            raise RequestError("it is computed from others: detach() gives an array to store or copy")
        return Array, (self.data, None, self.requires_grad)

    # ---- derivatives ---------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether results computed from the array are recorded."""
        return self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        value = self.value
        if wanted == value.requires_grad:
            return
        if value.trace is not None or self._place.is_part:
            raise RequestError("it is computed from others: detach() gives an array of its own")
        if wanted and value.data.dtype.kind in "iub":
            raise RequestError(f"an array of {value.data.dtype} has no derivative")
        self._place.replace(EagerInput(Key(), value.data, None, wanted))
        if wanted:
            self._register()

    def retain_grad(self) -> None:
        """Makes `backward` set `grad`, for the current value, on a computed array too.

        Raises `RequestError` if the array does not require grad.
        """
        if not self.requires_grad:
            raise RequestError("it does not require grad")
        self._register()

    def _register(self) -> None:
        key = self.value.key
        assert isinstance(key, Key)
        if all(holder() is not self for holder in key.holders):
            key.holders.append(weakref.ref(self))

    @property
    def is_leaf(self) -> bool:
        """Whether the array is not computed from arrays that require grad."""
        return self.value.trace is None

    def backward(
        self,
        seed: ArrayLike | None = None,
        *,
        retain: bool = False,
        accumulate: bool = False,
        create_graph: bool = False,
    ) -> None:
        """Sets `grad` on the arrays that this array depends on. Calls `backward_from` for this array."""
        seeds = None if seed is None else [operand(seed)]
        set_gradients([self.value], seeds, retain=retain, accumulate=accumulate, create_graph=create_graph)

    def set_grad(self, cotangent: EagerInput, accumulate: bool = False) -> None:
        """Sets `grad` to this cotangent. With `accumulate`, adds the cotangent to an existing `grad`."""
        new = Array.of(cotangent)
        self.grad = self.grad + new if accumulate and self.grad is not None else new

    # ---- NumPy's protocols ---------------------------------------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """The elements as a NumPy array. Raises `RequestError` if the conversion would lose a derivative."""
        if self.requires_grad and is_recording():
            raise RequestError("it requires grad, and plain numbers do not: use .data, .item() or detach()")
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
        """Writes the result of an in-place op such as `+=` to the array. The array's type and shape stay the same."""
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
            raise ValueError(f"a matrix has two dimensions or more, and the array has {self.ndim}")
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
    """An eager array of an object that NumPy converts to an array. An eager array is returned unchanged."""
    return x if isinstance(x, Array) else Array(x)


def operand(x: ArrayLike) -> Operand:
    """An operand of an op: a value, or a Python number."""
    if isinstance(x, Array):
        return x.value
    if isinstance(x, int | float | complex) and type(x) in (int, float, complex):
        return x
    return constant(x)


def valued(x: ArrayLike) -> EagerInput:
    """The value of an array, or of an object that NumPy converts to an array."""
    return x.value if isinstance(x, Array) else constant(x)


def _index(key: ArrayKey) -> IndexKey:
    """The index, with the elements of each eager array in place of that array."""
    if isinstance(key, tuple):
        return tuple(map(_index, key))  # type: ignore[return-value]  # a tuple in a tuple is of integers
    if isinstance(key, Array):
        return key.data if key.ndim or key.dtype.kind == "b" else key.data[()]
    refuse_masked(key, "the index")
    return key
