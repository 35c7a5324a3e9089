"""Represents sizes as polynomials in normal form, and the facts about sizes that hold at a point of a program.

A form is such a polynomial: a tuple of pairs of a monomial and its factor. A monomial is a sorted tuple of atom
numbers, empty for the constant term. An atom is a size that the program reads (a dimension, an entry of a vector, a
scalar), or a quotient, a maximum or a broadcast of two forms. Two sizes with equal forms are equal.

    3 + 2 n m     is the form     (((), 3), ((0, 1), 2))     if n is atom 0, and m is atom 1

`Known` has the equations and bounds that hold at a point of the program, because they were checked before. It solves
the equations by Gaussian elimination, and decides which requirements still need a check.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.dynamic.bounds import AT_MOST, BROADCAST, BROADCASTABLE, COUNT, EQUAL, Requirement
from tiduc.dialect.graph.graph import Definition
from tiduc.dialect.shapes.origins import entries, entry, scalar, size_of
from tiduc.dialect.shapes.sizes import Atom, Key, Size, atom

Form = tuple[tuple[tuple[int, ...], int], ...]

LARGEST = 2**31 - 1
"""The largest dimension that an input may have, and the largest size that a program may read from an integer.

Sizes are limited because `get_dimension_size` returns an i32. A product of two such sizes fits in 64 bits.
"""

READ = ("dimension", "entry", "scalar")
"""The kinds of atoms that a program reads at run time. It computes atoms of other kinds."""


class Atoms:
    """The atoms of a function, numbered in order of appearance. The first `bounded` ones are at most `LARGEST`."""

    def __init__(self) -> None:
        self.bounded = 0
        self.listed: list[Atom] = []
        self._numbers: dict[Atom, int] = {}

    def number(self, one: Atom) -> int:
        """The number of an atom. A new atom gets the next number."""
        if one not in self._numbers:
            self._numbers[one] = len(self.listed)
            self.listed.append(one)
        return self._numbers[one]

    def read_by(self, form: Form) -> Iterator[int]:
        """Yields the numbers of all atoms that the program reads, not computes, to evaluate a form."""
        for monomial, _ in form:
            for i in monomial:
                kind, of, where = self.listed[i]
                if kind in READ:
                    yield i
                else:
                    yield from self.read_by(of)
                    yield from self.read_by(where)


def constant(n: int) -> Form:
    """The form of the number n."""
    return (((), n),) if n else ()


def as_number(form: Form) -> int | None:
    """The value of a constant form; None for any other form."""
    if not form:
        return 0
    return form[0][1] if len(form) == 1 and not form[0][0] else None


def as_size(form: Form, atoms: Atoms, replaced: Mapping[int, int | Size] | None = None) -> Any:
    """Converts a form to an int or a `Size`. `replaced` maps atom numbers to sizes that are substituted for atoms."""
    total: Any = 0
    for monomial, factor in form:
        term: Any = factor
        for i in monomial:
            kind, of, where = atoms.listed[i]
            if kind not in READ:
                of, where = (_key(as_size(x, atoms, replaced)) for x in (of, where))
            given = replaced.get(i) if replaced else None
            term = (atom(kind, of, where) if given is None else given) * term
        total = total + term
    return total


def _key(size: int | Size) -> Key:
    return size.key if isinstance(size, Size) else ((), int(size))


def plus(a: Form, b: Form, factor: int = 1) -> Form:
    """The form of a + factor b."""
    terms = dict(a)
    for monomial, n in b:
        terms[monomial] = terms.get(monomial, 0) + factor * n
    return tuple(sorted((m, n) for m, n in terms.items() if n))


def times(a: Form, b: Form) -> Form:
    """The form of the product a b."""
    total: Form = ()
    for m, n in a:
        total = plus(total, tuple((tuple(sorted((*m, *monomial))), n * factor) for monomial, factor in b))
    return total


@dataclass(frozen=True)
class Check:
    """A requirement on forms that a program checks at run time. For the relation `count`, `a` is a tuple of forms."""

    relation: str
    a: Any
    b: Form


class Known:
    """The facts about sizes that hold at a point of a program."""

    def __init__(self, atoms: Atoms, outer: "Known | None" = None) -> None:
        self.atoms = atoms
        self._solved: dict[int, Form] = dict(outer._solved) if outer else {}
        self._checked: set[Check] = set(outer._checked) if outer else set()
        self.in_range: list[Form] = (
            outer.in_range if outer else []
        )  # forms that must be checked to fit in 32 bits, because the program may compute them in i32
        self.counts: dict[Any, int] = dict(outer.counts) if outer else {}

    def inner(self) -> "Known":
        """A copy of the facts for a region. Facts that hold only in the region are added to the copy."""
        return Known(self.atoms, self)

    # ---- sizes are converted to forms ----------------------------------------------------------------------

    def form(self, size: int | Size) -> Form:
        """The form of a size, simplified by the known equations."""
        if not isinstance(size, Size):
            return constant(int(size))
        terms, number = size.key
        total = constant(number)
        for one, factor in terms:
            total = plus(total, self._of_atom(one), factor)
        return total

    def _of_atom(self, one: Atom) -> Form:
        kind, of, where = one
        if kind in READ:
            followed = (
                self._followed(kind, of.definition, where) if kind != "dimension" and of.definition else None
            )
            return followed if followed is not None else self._read(self.atoms.number(one))
        a, b = self.form(Size(of)), self.form(Size(where))
        return times(a, b) if kind == "product" else self.computed(kind, a, b)

    def _followed(self, kind: str, op: Definition, where: int | None) -> Form | None:
        """The form of an integer that the op `op` computes from sizes; None if no form expresses the integer.

        If the result of `op` is a vector, `where` is the index of the integer; for a scalar, it is None.
        """
        if op.name == "shape.broadcast" and where is not None:
            return self._entry_of_broadcast(op, where)
        if op.name not in _COMPUTED:
            return None
        origins = [scalar(x) if where is None else entry(x, where) for x in op.operands]
        a, b = (
            self.form(origin.combine(*(size_of(*place) for place in origin.places))) for origin in origins
        )
        self.in_range += [a, b]
        return _COMPUTED[op.name](self, a, b)

    def _entry_of_broadcast(self, op: Definition, i: int) -> Form:
        """The size of dimension i of the shape that a `shape.broadcast` returns."""
        shapes = [entries(x) for x in op.operands]
        rank = max(map(len, shapes))
        forms = [self.form(sizes[i - rank]) for sizes in shapes if len(sizes) >= rank - i]
        total = forms[0]
        for other in forms[1:]:
            total = self.computed("broadcast", total, other)
        return total

    def _read(self, number: int) -> Form:
        return self._solved.get(number, (((number,), 1),))

    def computed(self, kind: str, a: Form, b: Form) -> Form:
        """The form of the quotient, the maximum or the broadcast of two forms, simplified if possible.

        `kind` is "quotient", "maximum" or "broadcast".
        """
        m, n = as_number(a), as_number(b)
        if kind == "quotient":
            b = self._divisor(b)
            if n is not None and all(factor % max(n, 1) == 0 for _, factor in a):
                return tuple((monomial, factor // max(n, 1)) for monomial, factor in a)
            if m is not None and n is not None:
                return constant(m // max(n, 1))
        elif kind == "maximum":
            if m is not None and n is not None:
                return constant(max(m, n))
            for x, y in ((a, b), (b, a)):
                if self.never_negative(plus(x, y, -1)):
                    return x
        elif a == b or n == 1 or (m is not None and m != 1):
            return a
        elif m == 1 or n is not None:
            return b
        return (((self.atoms.number((kind, a, b)),), 1),)

    def _divisor(self, form: Form) -> Form:
        """Returns n for a divisor max(n, 1), and any other divisor unchanged.

        The maximum is redundant, because a quotient replaces a divisor below 1 by 1.
        """
        if len(form) == 1 and form[0][1] == 1 and len(form[0][0]) == 1:
            kind, of, where = self.atoms.listed[form[0][0][0]]
            if kind == "maximum" and constant(1) in (of, where):
                return where if of == constant(1) else of  # type: ignore[no-any-return]
        return form

    def quotient(self, a: Form, b: Form) -> Form | None:
        """The form of a / b as `stablehlo.divide` computes it; None unless a >= 0 and b > 0 are known.

        Otherwise, the results could differ, because `divide` rounds toward zero, but a quotient in a form rounds down.
        """
        return self.computed("quotient", a, b) if self.never_negative(a) and self._positive(b) else None

    def _positive(self, form: Form) -> bool:
        n = as_number(form)
        if n is not None or len(form) != 1 or form[0][1] != 1 or len(form[0][0]) != 1:
            return n is not None and n > 0
        kind, of, where = self.atoms.listed[form[0][0][0]]
        return kind == "maximum" and (self._positive(of) or self._positive(where))

    def reduced(self, form: Form, replaced: Mapping[int, Form] | None = None) -> Form:
        """Substitutes forms for the atoms in a form. By default, substitutes the solutions of the known equations."""
        replaced = self._solved if replaced is None else replaced
        total: Form = ()
        for monomial, factor in form:
            term = constant(factor)
            for i in monomial:
                kind, of, where = self.atoms.listed[i]
                if kind in READ:
                    factors = replaced.get(i, (((i,), 1),))
                else:
                    factors = self.computed(kind, self.reduced(of, replaced), self.reduced(where, replaced))
                term = times(term, factors)
            total = plus(total, term)
        return total

    # ---- known facts decide which checks are needed --------------------------------------------------------

    def never_negative(self, form: Form) -> bool:
        """Whether all terms of a form are known to be nonnegative."""
        return all(n >= 0 and all(map(self._is_count, monomial)) for monomial, n in form)

    def bound(self, form: Form) -> int | None:
        """An upper bound of the value of a form; None if no bound is known."""
        total = 0
        for monomial, n in form:
            if n > 0:
                bounds = [self._bound_of_atom(i) for i in monomial]
                if None in bounds:
                    return None
                total += n * math.prod(m for m in bounds if m is not None)
            elif monomial and not all(map(self._is_count, monomial)):
                return None
        return total

    def _bound_of_atom(self, number: int) -> int | None:
        kind, of, where = self.atoms.listed[number]
        if kind in READ:
            return LARGEST if number < self.atoms.bounded else None
        a = self.bound(of)
        if kind == "quotient":  # a quotient is negative, or at most its dividend; a bound is never negative
            return a
        b = self.bound(where)
        return None if a is None or b is None else max(a, b)

    def _is_count(self, number: int) -> bool:
        kind, of, where = self.atoms.listed[number]
        if kind == "maximum":
            return self.never_negative(of) or self.never_negative(where)
        if kind in ("quotient", "broadcast"):
            return self.never_negative(of) and self.never_negative(where)
        return kind == "dimension" or Check(AT_MOST, (), (((number,), 1),)) in self._checked

    def needed_check(self, requirement: Requirement) -> Check | None:
        """The check that a requirement needs; None if the known facts imply the requirement."""
        if requirement.relation == COUNT:
            forms = tuple(sorted(self.form(n) for n in requirement.a))
            return self.simplest_check(Check(COUNT, forms, self.form(requirement.b)))
        return self.simplest_check(
            Check(requirement.relation, self.form(requirement.a), self.form(requirement.b))
        )

    def simplest_check(self, check: Check) -> Check | None:
        """The check in its simplest form; None if the known facts imply it."""
        simple = SIMPLIFY[check.relation](self, check)
        return None if simple is None or simple in self._checked else simple

    def learn(self, check: Check) -> None:
        """Records that a check has succeeded before this point of the program."""
        self._checked.add(check)
        if check.relation == COUNT:
            most = as_number(check.b) or 0
            self.counts[check.a] = min(most, self.counts.get(check.a, most))
        if check.relation == EQUAL:
            self._solve(plus(check.a, check.b, -1))

    def _solve(self, difference: Form) -> None:
        """Solves `difference = 0` for an atom, and substitutes the solution in the known equations.

        Chooses the last atom that occurs in only one term, alone and with factor 1 or -1. If there is none, does
        nothing.
        """
        factors = dict(difference)
        for number in sorted({i for i in self.atoms.read_by(difference)}, reverse=True):
            factor = factors.get((number,), 0)
            if abs(factor) == 1:
                rest = plus(difference, (((number,), factor),), -1)
                if number not in self.atoms.read_by(rest):
                    solution = {number: tuple((m, -factor * n) for m, n in rest)}
                    self._solved = {i: self.reduced(form, solution) for i, form in self._solved.items()}
                    self._solved |= solution
                    return


_COMPUTED: dict[str, Callable[[Known, Form, Form], Form | None]] = {
    "stablehlo.add": lambda known, a, b: plus(a, b),
    "stablehlo.divide": Known.quotient,
    "stablehlo.maximum": lambda known, a, b: known.computed("maximum", a, b),
    "stablehlo.minimum": lambda known, a, b: plus(plus(a, b), known.computed("maximum", a, b), -1),
    "stablehlo.multiply": lambda known, a, b: times(a, b),
    "stablehlo.subtract": lambda known, a, b: plus(a, b, -1),
}
"""Maps the name of an arithmetic op to a function that returns the form of the op's result, or None if unknown.

The function takes the known facts and the forms of the two operands.
"""


def _equal(known: Known, check: Check) -> Check | None:
    a, b = known.reduced(check.a), known.reduced(check.b)
    return None if a == b else Check(EQUAL, *sorted((a, b), key=_order))


def _order(form: Form) -> tuple[bool, Form]:
    """A sort key that puts constants last."""
    return as_number(form) is not None, form


def _at_most(known: Known, check: Check) -> Check | None:
    a, b = known.reduced(check.a), known.reduced(check.b)
    return None if known.never_negative(plus(b, a, -1)) else Check(AT_MOST, a, b)


def _broadcast(known: Known, check: Check) -> Check | None:
    a, b = known.reduced(check.a), known.reduced(check.b)
    if as_number(a) == 1 or a == b:
        return None
    if as_number(a) is not None or as_number(b) == 1:
        return _equal(known, Check(EQUAL, a, b))
    return Check(BROADCAST, a, b)


def _broadcastable(known: Known, check: Check) -> Check | None:
    a, b = sorted((known.reduced(check.a), known.reduced(check.b)), key=_order)
    if as_number(a) == 1 or as_number(b) == 1 or a == b:
        return None
    return (
        _broadcast(known, Check(BROADCAST, a, b)) if as_number(b) is not None else Check(BROADCASTABLE, a, b)
    )


def _count(known: Known, check: Check) -> Check | None:
    forms = tuple(sorted(known.reduced(n) for n in check.a))
    left = tuple(n for n in forms if as_number(n) is None)
    static = as_number(check.b)
    assert static is not None
    for n in forms:
        if (number := as_number(n)) is not None:
            if number == 0:
                return None
            static //= max(number, 1)
    bounds = [known.bound(n) for n in left]
    if left in known.counts and known.counts[left] <= static:
        return None
    if None not in bounds and math.prod(n for n in bounds if n is not None) <= static:
        return None
    return Check(COUNT, left, constant(static))


SIMPLIFY: dict[str, Callable[[Known, Check], Check | None]] = {
    EQUAL: _equal,
    AT_MOST: _at_most,
    BROADCAST: _broadcast,
    BROADCASTABLE: _broadcastable,
    COUNT: _count,
}
