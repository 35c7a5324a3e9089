"""assert_sizes: asserts the relations between dynamic sizes that ops require, such as equal sizes of two operands.

    %m = tensor.dim %x, %c0 : tensor<?xf32>
    %n = tensor.dim %y, %c0 : tensor<?xf32>
    %e = arith.cmpi eq, %m, %n : index
    cf.assert %e, "sizes: stablehlo.add at f:2:8 needs two sizes to be equal: dimension 0 of x, and dimension 0 of y"

IREE does not check these relations, and would read beyond the ends of arrays. Assertions run on the host. An assertion
is at the start of the function if it depends only on arguments, and otherwise before the op.
"""

import functools
import math
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import number, sizes_of
from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, larger, read
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.dynamic.bounds import AT_MOST, BROADCAST, BROADCASTABLE, COUNT, EQUAL
from tiduc.dialect.dynamic.checks import FunctionSizes, ModuleSizes, Placed
from tiduc.dialect.dynamic.forms import LARGEST, READ, Check, Form, as_number
from tiduc.dialect.dynamic.results import PLACES_IN
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_dynamic


@wrong(
    "IREE does not compare dynamic dimensions, and reads beyond the ends of arrays; tiduc asserts that sizes fit.",
    "sizes_that_differ",
)
@wrong(
    "IREE also slices arrays of static shape at computed places beyond their end; tiduc asserts the places.",
    "slice_beyond",
)
@stage
def assert_sizes(module: ir.Module | IrOp) -> None:
    """Emits assertions of the relations between sizes that the ops of a module require, in place.

    Raises `Unsupported` for the first op whose requirements are unknown or can never hold.
    """
    if not any(op.name in PLACES_IN or _is_dynamic(op) for op in outer_first(module.operation)):
        return
    for function in ModuleSizes(module).all():
        if function.beyond is not None:
            raise refused(*function.beyond)
        begin = ir.InsertionPoint.at_block_begin(function.function.regions[0].blocks[0])
        first = _Assertions(function, Emitter(begin, function.function.location))
        if not function.private:
            first.bound_inputs()
        for placed in function.checks:
            _refuse_contradiction(placed)
            if placed.before is not None:
                emitter = Emitter(ir.InsertionPoint(placed.before), placed.required_by.location)
                _Assertions(function, emitter).hold(placed)
            elif not function.private:  # checks of a private function are asserted by its callers
                first.hold(placed)


def _is_dynamic(op: IrOp) -> bool:
    """Whether a result of an op has dynamic dimensions. If the op is a function, whether one of its inputs has any."""
    values = (
        op.regions[0].blocks[0].arguments if op.name == "func.func" and op.regions[0].blocks else op.results
    )
    return any(isinstance(x.type, ir.RankedTensorType) and is_dynamic(x.type) for x in values)


def _refuse_contradiction(placed: Placed) -> None:
    check = placed.check
    if check.relation in (EQUAL, AT_MOST):
        a, b = as_number(check.a), as_number(check.b)
        if a is not None and b is not None and placed.always:
            wanted = "equal" if check.relation == EQUAL else "at most"
            raise refused(placed.required_by, f"a size of {a} must be {wanted} {b}")


def _described(function: FunctionSizes, placed: Placed) -> str:
    """The message of an assertion. It names the op, the relation that the op needs, and the sizes."""
    check, names = placed.check, {x: function.name_of(i) for i, x in enumerate(function.inputs)}

    def atom(i: int) -> str:
        kind, of, where = function.atoms.listed[i]
        if kind not in READ:
            return f"{kind}({form(of)}, {form(where)})"
        if of in names:
            name = names[of]
        else:
            name = (
                f"a result of {of.definition.name}" if of.definition is not None else "a loop-carried value"
            )
        return {"dimension": f"dimension {where} of {name}", "entry": f"{name}[{where}]", "scalar": name}[
            kind
        ]

    def form(terms: Form) -> str:
        parts = [" * ".join([*[str(n)] * (n != 1 or not m), *map(atom, m)]) for m, n in terms]
        return " + ".join(parts) or "0"

    if check.relation == COUNT:
        sizes = ", ".join(map(form, check.a))
        return f"{placed.place} has too many elements: {sizes}"
    return f"{placed.place} needs {WORDS[check.relation]}: {form(check.a)}, and {form(check.b)}"


WORDS = {
    EQUAL: "two sizes to be equal",
    AT_MOST: "one size to be at most another",
    BROADCAST: "one size to be 1, or equal to another",
    BROADCASTABLE: "one of two sizes to be 1, or both to be equal",
}


class _Assertions:
    """Emits the assertions at one insertion point. A size that several of these assertions need is read only once."""

    def __init__(self, function: FunctionSizes, b: Emitter) -> None:
        self._function, self._atoms = function, function.atoms
        self._b, self._k = b, Kernel(b.place, b.location)
        self._read: dict[int, SizeLike] = {}

    def bound_inputs(self) -> None:
        """Asserts that no dimension of an input is larger than `LARGEST`."""
        if sizes := [self._atom(i) for i in range(self._function.input_sizes)]:
            met = self._k.at_most(functools.reduce(larger, sizes), LARGEST)
            self._assert(met, f"a dimension has more than {LARGEST} elements")

    def hold(self, placed: Placed) -> None:
        """Emits the assertion of one check."""
        self._assert(self._met(placed.check), _described(self._function, placed))

    def _assert(self, met: IrValue, text: str) -> None:
        self._b.emit_all("cf.assert", (met,), (), {"msg": ir.StringAttr.get(f"sizes: {text}")})

    def _met(self, check: Check) -> IrValue:
        if check.relation == COUNT:
            return self._fits([self._form(n) for n in check.a], as_number(check.b) or 0)
        a, b = self._form(check.a), self._form(check.b)
        if check.relation == AT_MOST:
            return self._k.at_most(a, b)
        # A broadcast also allows a size of 1: BROADCAST for the first operand, BROADCASTABLE for either operand.
        ones = {EQUAL: (), BROADCAST: (a,), BROADCASTABLE: (a, b)}[check.relation]
        return self._k.any([self._k.equal(a, b), *(self._k.equal(n, 1) for n in ones)])

    def _fits(self, sizes: Sequence[SizeLike], most: int) -> IrValue:
        """Emits the condition that the product of `sizes` is at most `most`.

        Divides `most` by each size, because the product of the sizes may overflow.
        """
        left: SizeLike = most
        for n in sizes:
            left = left // larger(n, 1)
        return self._k.any([self._k.at_most(1, left), *(self._k.equal(n, 0) for n in sizes)])

    def _form(self, form: Form) -> SizeLike:
        return sum(math.prod(map(self._atom, monomial), start=factor) for monomial, factor in form)

    def _atom(self, i: int) -> SizeLike:
        if i not in self._read:
            kind, of, where = self._atoms.listed[i]
            self._read[i] = (
                self._value(kind, of, where)
                if kind in READ
                else self._computed(kind, self._form(of), self._form(where))
            )
        return self._read[i]

    def _computed(self, kind: str, m: SizeLike, n: int | RunTimeSize) -> SizeLike:
        if kind == "quotient":
            return m // larger(n, 1)
        if kind == "maximum":
            return larger(m, n)
        return read(self._k.select_scalar(self._k.equal(m, 1), n, m))

    def _value(self, kind: str, of: Value, where: int) -> SizeLike:
        x, index = of.mlir, ir.IndexType.get()
        if kind == "dimension":
            return sizes_of(self._b, x)[where]
        if not isinstance(x.type, ir.RankedTensorType):
            return read(x if x.type == index else self._k.cast(x, index))
        place = [] if kind == "scalar" else [where]
        return read(self._k.element(x, *place)) if element(x) == index else number(self._b, x, *place)
