"""Finds the equalities and bounds of dynamic dimensions that a StableHLO module requires, and where to check them.

    func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) {
      %0 = stablehlo.add %x, %y : tensor<?xf32>             check at the start of @main: size of %y = size of %x
      %1 = stablehlo.dynamic_iota %n, dim = 0               check before the op: 0 <= %n[0]
      %2 = stablehlo.add %0, %1                             check before the op: %n[0] = size of %x

`required.py` gives the requirements of each op. This file visits the ops in the order in which they run, including the
ops in loops, branches and called functions. A requirement that has been checked holds for all later ops, so it is not
checked again for them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.dynamic.bounds import AT_MOST, COUNT, EQUAL, MOST_ELEMENTS, Requirement, all_sizes
from tiduc.dialect.dynamic.forms import LARGEST, Atoms, Check, Form, Known, as_size, constant, plus
from tiduc.dialect.dynamic.required import is_ranked, is_understood, requirements
from tiduc.dialect.dynamic.results import ORIGINS, PLACES_IN, SIZES_IN
from tiduc.dialect.errors import describe
from tiduc.dialect.graph.graph import Definition, Graph, Value, operations, terminator
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.verify import NAME
from tiduc.dialect.shapes.origins import DYNAMIC, entries, entry, scalar, size_of, sizes_in
from tiduc.dialect.shapes.types import is_dynamic

KnownSize = tuple[int, int, int, tuple[tuple[int, int, int], ...]]
"""A tuple such as `known_sizes` of known.py yields. The tuple expresses a size of an input by sizes of other inputs."""


@dataclass(frozen=True)
class Placed:
    """A check, the op that requires it, and the op before which it runs.

    `before` is None for a check at the start of the function. `always` is false for a check in a loop or a branch,
    because the check may not run.
    """

    check: Check
    required_by: Any
    before: Any | None
    always: bool

    @property
    def place(self) -> str:
        """The name and location of the op that requires the check."""
        where = describe(self.required_by.location)
        return f"{self.required_by.name} at {where}" if where else str(self.required_by.name)


class FunctionSizes:
    """Finds the checks of one function, in the order in which they run, and the function's atoms (see forms.py).

    `values` maps each `ir.Value` to the `Value` that stands for it. The first `input_sizes` atoms are dynamic
    dimensions of inputs. `beyond` is a pair of the first op whose requirements no check can express, and the reason.
    It is None if there is no such op.
    """

    def __init__(self, module: "ModuleSizes", function: IrOp, given: Iterable[KnownSize] = ()) -> None:
        self.function, self._module = function, module
        self.atoms, self._graph = Atoms(), Graph("")
        self.values: dict[Any, Value] = {}
        self.checks: list[Placed] = []
        self.beyond: tuple[Any, str] | None = None
        self._order: dict[Value, int] = {}
        self.private = "sym_visibility" in function.attributes
        block = function.regions[0].blocks[0]
        self.inputs = [self._value(x) for x in block.arguments]
        for x in self.inputs:
            for d in _dynamic_dimensions(x):
                self.atoms.number(("dimension", x, d))
        self.input_sizes = len(self.atoms.listed)
        self.atoms.bounded = 0 if self.private else self.input_sizes
        known = Known(self.atoms)
        for x in self.inputs:
            if _dynamic_dimensions(x):  # an input fits in memory, so its element count needs no check
                requirement = Requirement(COUNT, all_sizes(x), MOST_ELEMENTS)
                if (check := known.needed_check(requirement)) is not None:
                    known.learn(check)
        for i, d, number, terms in given:
            size = sum((factor * size_of(self.inputs[j], e) for factor, j, e in terms), start=number)
            known.learn(Check(EQUAL, known.form(size_of(self.inputs[i], d)), known.form(size)))
        self.returned, self._known = self._block(block, known, top=True)

    def name_of(self, i: int) -> str:
        """The name of input i; `argument i` if the input has no name."""
        attributes = self.function.attributes
        given = attributes["arg_attrs"][i] if "arg_attrs" in attributes else {}
        return str(given[NAME].value) if NAME in given else f"argument {i}"

    def result(self, i: int, d: int) -> Form:
        """The form of the size of dimension d of result i."""
        return self._known.form(size_of(self.returned[i], d))

    def _value(self, x: IrValue, definition: Definition | None = None) -> Value:
        value = self.values[x] = Value(x.type, self._graph, definition)
        value.mlir = x
        self._order[value] = len(self._order)
        return value

    # ---- each op of a block adds its checks ----------------------------------------------------------------

    def _block(self, block: ir.Block, known: Known, top: bool) -> tuple[tuple[Value, ...], Known]:
        """Visits the ops of a block. Returns the operands of its terminator, and the facts that hold at its end."""
        for op in operations(block):
            visit = _CONTROL.get(op.name)
            if visit is not None:
                visit(self, op, known, top)
            else:
                definition = self._definition(op)
                if op.name in PLACES_IN or any(
                    is_ranked(x) and is_dynamic(x.type) for x in (*definition.operands, *definition.results)
                ):
                    self._require(op, definition, known, top)
        return definition.operands, known

    def _definition(self, op: IrOp) -> Definition:
        operands = tuple(self.values[x] for x in op.operands)
        given = {name: op.attributes[name] for name in op.attributes}
        definition = Definition(op.name, operands, self._graph, given=given, location=op.location)
        definition.results = tuple(self._value(y, definition) for y in op.results)
        return definition

    def _require(self, op: IrOp, definition: Definition, known: Known, top: bool) -> None:
        if not is_understood(op.name):
            self.beyond = self.beyond or (op, "its requirements on dynamic dimensions are not known")
            return
        rule = ORIGINS.get(op.name)
        for number, y in enumerate(definition.results):
            for d in _dynamic_dimensions(y):
                if rule is not None and (origin := rule(definition, number, d)) is not None:
                    size = origin.combine(*(size_of(*place) for place in origin.places))
                    self._graph.sizes[y, d] = size
        for i in SIZES_IN.get(op.name, ()):
            for size in entries(definition.operands[i]):
                known.in_range.append(known.form(size))
        for requirement in requirements(definition):
            self._check(requirement, op, known, top)

    def _check(
        self, requirement: Requirement, op: IrOp, known: Known, top: bool, before: IrOp | None = None
    ) -> None:
        """Adds the check that a requirement of `op` needs, if any. The check runs before `before`, by default `op`.

        First adds checks that each integer from which a size in the requirement is computed fits in 32 bits.
        """
        before = before or op
        sizes = requirement.a if requirement.relation == COUNT else (requirement.a, requirement.b)
        for form in map(known.form, sizes):
            for number in self.atoms.read_by(form):
                kind, of, _ = self.atoms.listed[number]
                if kind != "dimension" and _is_wide(of):
                    known.in_range.append((((number,), 1),))
        while known.in_range:
            self._in_range(known.in_range.pop(), op, before, known, top)
        if (check := known.needed_check(requirement)) is not None:
            self._place(check, op, before, known, top)

    def _in_range(self, form: Form, op: IrOp, before: IrOp, known: Known, top: bool) -> None:
        """Adds checks that a size fits in 32 bits, unless that is known.

        They are needed because the program's i32 arithmetic on sizes could overflow.
        """
        if len(form) == 1 and form[0][1] == 1 and len(form[0][0]) == 1:
            kind, of, _ = self.atoms.listed[form[0][0][0]]
            if kind in ("entry", "scalar") and not _is_wide(of):
                return
        bound, below = known.bound(form), plus((), form, -1)
        if bound is None or bound > LARGEST:
            self._place(Check(AT_MOST, form, constant(LARGEST - 1)), op, before, known, top)
        if not known.never_negative(form) and known.bound(below) is None:
            self._place(Check(AT_MOST, constant(1 - LARGEST), form), op, before, known, top)

    def _place(self, check: Check, op: IrOp, before: IrOp, known: Known, top: bool) -> None:
        left = known.simplest_check(check)
        if left is not None:
            self._products_fit(left, op, before, known, top)
            early = top and all(map(self._is_input, self._read_by(left)))
            self.checks.append(Placed(left, op, None if early else before, top))
            known.learn(left)

    def _products_fit(self, check: Check, op: IrOp, before: IrOp, known: Known, top: bool) -> None:
        """Adds checks that products of more than two sizes in `check` fit in 64 bits."""
        for form in () if check.relation == COUNT else (check.a, check.b):
            for monomial, _ in form:
                if len(monomial) > 2:
                    factors = tuple(sorted((((i,), 1),) for i in monomial))
                    self._place(Check(COUNT, factors, constant(MOST_ELEMENTS)), op, before, known, top)

    def _read_by(self, check: Check) -> Iterator[int]:
        for form in (*check.a, check.b) if check.relation == COUNT else (check.a, check.b):
            yield from self.atoms.read_by(form)

    def _is_input(self, number: int) -> bool:
        """Whether a check at the start of the function can read the atom with this number.

        In a public function, such a check reads only dimensions of inputs. In a private function, it also reads
        elements of inputs.
        """
        kind, of, _ = self.atoms.listed[number]
        return self._order[of] < len(self.inputs) and (self.private or kind == "dimension")

    # ---- regions and called functions are visited, too -----------------------------------------------------

    def _while(self, op: IrOp, known: Known, top: bool) -> None:
        """Visits a loop. Requires that an iteration does not change the sizes of the loop-carried values."""
        initial = [self.values[x] for x in op.operands]
        condition, body = (region.blocks[0] for region in op.regions)
        for x, y in zip(initial, op.results, strict=True):
            self._agree(x, y.type, op, known, top)
        for block in (condition, body):
            inside = known.inner()
            for argument, like in zip(block.arguments, initial, strict=True):
                self._sized(self._value(argument), like)
            ends, inside = self._block(block, inside, False)
        for x, end in zip(initial, ends, strict=True):
            for d in _dynamic_dimensions(end) or _dynamic_dimensions(x):
                requirement = Requirement(EQUAL, size_of(x, d), size_of(end, d))
                self._check(requirement, op, inside, False, _last(body))
        for x, y in zip(initial, op.results, strict=True):
            self._sized(self._value(y), x)

    def _sized(self, x: Value, like: Value) -> None:
        """Records that the dynamic dimensions of x have the sizes of these dimensions of `like`."""
        for d in _dynamic_dimensions(x):
            self._graph.sizes[x, d] = size_of(like, d)

    def _agree(
        self,
        x: Value,
        type_: ir.RankedTensorType,
        op: IrOp,
        known: Known,
        top: bool,
        before: IrOp | None = None,
    ) -> None:
        """Requires that each dynamic dimension of x has the size of this dimension in `type_`, if that is static."""
        if is_ranked(x):
            for d, n in enumerate(sizes_in(type_)):
                if n != DYNAMIC and sizes_in(x.type)[d] == DYNAMIC:
                    self._check(Requirement(EQUAL, size_of(x, d), n), op, known, top, before)

    def _branches(self, op: IrOp, known: Known, top: bool) -> None:
        before = len(self._order)
        ends = [self._block(region.blocks[0], known.inner(), False) for region in op.regions]
        for region, (values, inside) in zip(op.regions, ends, strict=True):
            for x, y in zip(values, op.results, strict=True):
                self._agree(x, y.type, op, inside, False, _last(region.blocks[0]))
        for i, y in enumerate(op.results):
            value = self._value(y)
            for d in _dynamic_dimensions(value):
                form, *others = [inside.form(size_of(values[i], d)) for values, inside in ends]
                outside = all(self._order[self.atoms.listed[n][1]] < before for n in self.atoms.read_by(form))
                if outside and all(other == form for other in others):
                    self._graph.sizes[value, d] = as_size(form, self.atoms)
                else:  # IREE assumes that the branches return equal sizes
                    self.beyond = self.beyond or (op, "sizes of its branches are not known to be equal")

    def _inlined(self, op: IrOp, known: Known, top: bool) -> None:
        values, _ = self._block(op.regions[0].blocks[0], known, top)
        for x, y in zip(values, op.results, strict=True):
            self._sized(self._value(y), x)

    def _call(self, op: IrOp, known: Known, top: bool) -> None:
        arguments = [self.values[x] for x in op.operands]
        results = [self._value(y) for y in op.results]
        name = "decomposition" if op.name == "stablehlo.composite" else "callee"
        callee = self._module.function(ir.FlatSymbolRefAttr(op.attributes[name]).value)
        if callee is None:
            return
        translate = _Translation(callee, arguments, known)
        for placed in callee.checks:
            if placed.before is None:
                self._place(translate.check(placed.check), placed.required_by, op, known, top)
        for i, y in enumerate(results):
            for d in _dynamic_dimensions(y):
                form = callee.result(i, d)
                if translate.is_known(form):
                    self._graph.sizes[y, d] = as_size(translate.form(form), self.atoms)


_CONTROL = {
    "func.call": FunctionSizes._call,
    "shape.assuming": FunctionSizes._inlined,
    "stablehlo.case": FunctionSizes._branches,
    "stablehlo.composite": FunctionSizes._call,
    "stablehlo.if": FunctionSizes._branches,
    "stablehlo.while": FunctionSizes._while,
}


class _Translation:
    """Expresses the sizes of a called function by the arguments of one call."""

    def __init__(self, callee: FunctionSizes, arguments: Sequence[Value], known: Known) -> None:
        self._atoms, self._known = callee.atoms, known
        self._argument = dict(zip(callee.inputs, arguments, strict=True))

    def is_known(self, form: Form) -> bool:
        """Whether a size depends only on the call's arguments."""
        return all(self._atoms.listed[i][1] in self._argument for i in self._atoms.read_by(form))

    def check(self, check: Check) -> Check:
        """Returns a check of the called function, expressed by the call's arguments."""
        if check.relation == COUNT:
            return Check(COUNT, tuple(sorted(map(self.form, check.a))), check.b)
        return Check(check.relation, self.form(check.a), self.form(check.b))

    def form(self, form: Form) -> Form:
        """Returns a size of the called function, expressed by the call's arguments. Requires `is_known(form)`."""
        replaced = {i: self._read(i) for i in self._atoms.read_by(form)}
        return self._known.form(as_size(form, self._atoms, replaced))

    def _read(self, number: int) -> Any:
        kind, of, where = self._atoms.listed[number]
        x = self._argument[of]
        if kind == "dimension":
            return size_of(x, where)
        origin = entry(x, where) if kind == "entry" else scalar(x)
        return origin.combine(*(size_of(*place) for place in origin.places))


class ModuleSizes:
    """Finds the checks of sizes that the functions of a module need."""

    def __init__(
        self, module: ir.Module | IrOp, given: Mapping[str, Iterable[KnownSize]] | None = None
    ) -> None:
        """`given` maps a function's name to relations between the sizes of its inputs that hold for every call."""
        self._given = given or {}
        self._functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op
            for op in operations(module.operation.regions[0].blocks[0])
            if op.name == "func.func" and len(op.regions[0].blocks)
        }
        self._visited: dict[str, FunctionSizes | None] = {}

    def function(self, name: str) -> FunctionSizes | None:
        """Returns the checks of a function. The first call for a function visits its ops.

        Returns None if the function has no body, or if it is being visited, because it then calls itself.
        """
        if name not in self._visited:
            self._visited[name] = None
            if name in self._functions:
                self._visited[name] = FunctionSizes(self, self._functions[name], self._given.get(name, ()))
        return self._visited[name]

    def all(self) -> list[FunctionSizes]:
        """The checks of all functions of the module that have a body."""
        return [sizes for name in self._functions if (sizes := self.function(name)) is not None]


def _dynamic_dimensions(x: Value) -> list[int]:
    if not is_ranked(x) or not is_dynamic(x.type):
        return []
    return [d for d, n in enumerate(sizes_in(x.type)) if n == DYNAMIC]


def _last(block: ir.Block) -> Any:
    return terminator(block)


def _is_wide(x: Value) -> bool:
    """Whether the elements of a value are integers that may exceed `LARGEST`."""
    type_ = x.type.element_type if is_ranked(x) else x.type
    if not isinstance(type_, ir.IntegerType):
        return False
    return bool(type_.width > 32 or (type_.width == 32 and type_.is_unsigned))
