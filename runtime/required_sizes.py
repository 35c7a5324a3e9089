"""Relations between dynamic dimensions of a function's inputs. They are checked before a call.

A size is a sum of terms. A term is an integer factor times a product of atoms. An atom is either the size of a
dimension of an input, written as the pair (input, dimension), or the quotient, maximum or broadcast of two sizes. For
example, `[[2, [[0, 1]]], [3, []]]` is 2 d + 3, where d is the size of dimension 1 of input 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Size = tuple[tuple[int, tuple["Atom", ...]], ...]
"""A size as a sum of terms. Each term is an integer factor and the atoms by which it is multiplied."""

Atom = tuple[int, int] | tuple[str, Size, Size]
"""Either the indices of an input and of one of its dimensions, or the name of a function and its two arguments."""

Shapes = Sequence[tuple[int, ...]]

_WORDS = {
    "equal": "must be equal",
    "broadcast": "must be equal, or the first must be 1",
    "broadcastable": "must be equal, or one of them must be 1",
}


@dataclass(frozen=True)
class RequiredSize:
    """A relation between the sizes `a` and `b`. `by` describes the op that requires the relation.

    The relations are `equal`: a = b; `at_most`: a <= b; `broadcast`: a = 1 or a = b; `broadcastable`: a = 1 or b = 1 or
    a = b.
    """

    relation: str
    a: Size
    b: Size
    by: str

    def holds(self, shapes: Shapes) -> bool:
        """Whether inputs of these shapes satisfy the relation."""
        a, b = _value(self.a, shapes), _value(self.b, shapes)
        if self.relation == "at_most":
            return a <= b
        ones = {"equal": (), "broadcast": (a,), "broadcastable": (a, b)}[self.relation]
        return a == b or 1 in ones

    def violation(self, names: Sequence[str], shapes: Shapes) -> str:
        """Returns the error message for inputs with these names and shapes, which violate the relation."""
        if self.relation == "at_most" and not _reads(self.b):  # b is a constant, so the message names only a
            return f"{_size_in_words(self.a, names, shapes)}, must be at most {_value(self.b, shapes)}: {self.by}"
        if self.relation == "at_most":
            least = (
                f"{_value(self.a, shapes)}" if not _reads(self.a) else _size_in_words(self.a, names, shapes)
            )
            return f"{_size_in_words(self.b, names, shapes)}, must be at least {least}: {self.by}"
        if not _reads(self.b):
            also = " or 1" if self.relation != "equal" else ""
            return (
                f"{_size_in_words(self.a, names, shapes)}, must be {_value(self.b, shapes)}{also}: {self.by}"
            )
        sizes = f"{_size_in_words(self.a, names, shapes)}, {_size_in_words(self.b, names, shapes)}"
        return f"{sizes}, {_WORDS[self.relation]}: {self.by}"

    def renumbered(self, numbers: dict[int, int]) -> "RequiredSize":
        """Returns the relation with other input indices. `numbers` maps the old indices to the new ones."""
        return RequiredSize(
            self.relation, _renumbered(self.a, numbers), _renumbered(self.b, numbers), self.by
        )


def _value(size: Size, shapes: Shapes) -> int:
    total = 0
    for factor, atoms in size:
        for atom in atoms:
            factor *= _of_atom(atom, shapes)
        total += factor
    return total


def _of_atom(atom: Atom, shapes: Shapes) -> int:
    if len(atom) == 2:
        return int(shapes[atom[0]][atom[1]])
    a, b = _value(atom[1], shapes), _value(atom[2], shapes)
    if atom[0] == "quotient":
        return a // max(b, 1)
    if atom[0] == "maximum":
        return max(a, b)
    return b if a == 1 else a


def _reads(size: Size) -> bool:
    return any(atoms for _, atoms in size)


def _size_in_words(size: Size, names: Sequence[str], shapes: Shapes) -> str:
    """Formats a size and its value, for example as `dimension 0 of x is 1000`."""
    text = _text(size, names)
    return f"{text} is {_value(size, shapes)}"


def _text(size: Size, names: Sequence[str]) -> str:
    if len(size) == 1 and size[0][0] == 1 and len(size[0][1]) == 1 and len(size[0][1][0]) == 2:
        number, d = size[0][1][0]
        return f"dimension {d} of {names[number]}"
    terms = []
    for factor, atoms in size:
        factors = [str(factor)] * (factor != 1 or not atoms)
        for atom in atoms:
            if len(atom) == 2:
                factors.append(f"{names[atom[0]]}[{atom[1]}]")
            else:
                factors.append(f"{atom[0]}({_text(atom[1], names)}, {_text(atom[2], names)})")
        terms.append(" * ".join(factors))
    return " + ".join(terms) or "0"


def _renumbered(size: Size, numbers: dict[int, int]) -> Size:
    def atom(old: Atom) -> Atom:
        if len(old) == 2:
            return numbers[old[0]], old[1]
        return old[0], _renumbered(old[1], numbers), _renumbered(old[2], numbers)

    return tuple((factor, tuple(map(atom, atoms))) for factor, atoms in size)


def parsed(size: Any) -> Size:
    """Reads a size from the lists of its JSON form. Raises `TypeError` or `ValueError` if the lists are malformed."""

    def atom(read: Any) -> Atom:
        if len(read) == 2:
            return int(read[0]), int(read[1])
        kind, a, b = read
        if kind not in ("quotient", "maximum", "broadcast"):
            raise ValueError(f"unknown kind of size: {kind!r}")
        return kind, parsed(a), parsed(b)

    return tuple((int(factor), tuple(map(atom, atoms))) for factor, atoms in size)
