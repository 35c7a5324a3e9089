"""Builds PyTorch's symbolic sizes from the expressions in a `.pt2` archive."""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.models.torch.archive import Refused
from tiduc.models.torch.expressions import as_sympy, read_expression
from tiduc.models.torch.records import ExpressionRecord, RangeRecord

if TYPE_CHECKING:
    import sympy

Hint = float | None
"""The value of a size for the example inputs, or None if it is not known."""

_UNBACKED = {"u": "unbacked_symint_counter", "zuf": "unbacked_symfloat_counter"}
_MOST_UNBACKED = 10**6
_MOST_EXPRESSIONS = 10**5


class SizeEnvironment:
    """The symbolic sizes of one program: the symbols, their ranges, and their values for the example inputs."""

    def __init__(self, torch: ModuleType, ranges: Mapping[str, RangeRecord]) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental import symbolic_shapes

        self._torch, self._shapes = torch, symbolic_shapes
        self.environment = symbolic_shapes.ShapeEnv(assume_static_by_default=True)
        self.mode = FakeTensorMode(
            allow_fallback_kernels=False, allow_non_fake_inputs=True, shape_env=self.environment
        )
        self._ranges = {name: self._range(each) for name, each in ranges.items()}
        self._symbols: dict[str, Any] = {}
        self._read: dict[tuple[str, Any], Any] = {}
        self.pending: set[Any] = set()
        """The symbols of data-dependent sizes that no node defines yet."""
        for name in ranges:
            self._count(name)

    def _range(self, given: RangeRecord) -> Any:
        from sympy import Integer
        from torch.utils._sympy.numbers import int_oo

        low, high = given["min_val"], given["max_val"]
        return self._shapes.ValueRanges(
            -int_oo if low is None else Integer(low), int_oo if high is None else Integer(high)
        )

    def _count(self, name: str) -> None:
        """Advances PyTorch's counter of symbols beyond `name`, so that new symbols do not get a name of the file."""
        prefix = name.rstrip("0123456789")
        if counter := _UNBACKED.get(prefix):
            number = int(name[len(prefix) :] or 0) if len(name) < 16 else _MOST_UNBACKED
            if number >= _MOST_UNBACKED:
                raise Refused(f"the number in the name of a symbol is too large: {name[:40]}")
            if isinstance(getattr(self.environment, counter, None), int):
                setattr(self.environment, counter, max(number + 1, getattr(self.environment, counter)))

    @property
    def ranges(self) -> dict[Any, Any]:
        """Maps the symbols that occur in the program to their ranges."""
        return {self._symbols[name]: each for name, each in self._ranges.items() if name in self._symbols}

    def integer(self, record: tuple[str, Any]) -> Any:
        """Converts the record of an integer to an `int` or to a symbolic integer of PyTorch."""
        tag, value = record
        if tag == "as_int":
            return value
        hint = self._hint(value, "as_int")
        return self.environment.create_symintnode(self._expression(value["expr_str"], hint), hint=hint)

    def float(self, record: tuple[str, Any]) -> Any:
        tag, value = record
        if tag == "as_float":
            return value
        hint = self._hint(value, "as_float")
        return self.environment.create_symfloatnode(self._expression(value["expr_str"], hint), hint=hint)

    def boolean(self, record: tuple[str, Any]) -> Any:
        tag, value = record
        if tag == "as_bool":
            return value
        return self.environment.create_symboolnode(self._expression(value["expr_str"], None))

    def _hint(self, value: ExpressionRecord, tag: str) -> Any:
        if value["hint"] is None:
            return None
        if value["hint"][0] != tag:
            raise Refused("the example value of a size has the wrong type")
        return value["hint"][1]

    def _expression(self, text: str, hint: Hint) -> Any:
        key = text, hint
        if key not in self._read:
            if len(self._read) >= _MOST_EXPRESSIONS:
                raise Refused(f"the program has more than {_MOST_EXPRESSIONS:,} expressions for sizes")
            self._read[key] = self._known(as_sympy(read_expression(text)), hint)
        return self._read[key]

    def _known(self, expression: "sympy.Basic", hint: Hint) -> Any:
        """Adds the range and the example value of an expression to the environment, and returns the expression.

        Replaces a symbol by the first symbol of the same name.
        """
        if expression.is_Integer or expression.is_Float or expression.is_Boolean:
            return expression
        for part in expression.args:
            self._known(part, None)
        name = str(expression)
        expression = self._symbols.setdefault(name, expression)
        is_symbol = bool(expression.is_Symbol)
        kinds = self._shapes.SymT.UNBACKED_INT, self._shapes.SymT.UNBACKED_FLOAT
        if is_symbol and self._shapes.symbol_is_type(expression, kinds):
            self.pending.add(expression)
        backed = "backed_" if hasattr(self.environment, "backed_var_to_val") else ""  # new in PyTorch 2.10
        values = getattr(self.environment, f"{backed}var_to_val")
        add = getattr(self.environment, f"add_{backed}var_to_val")
        if hint is not None and expression not in values:
            add(expression, hint)
        if known := self._ranges.get(name):
            self.environment.constrain_symbol_range(
                expression, compiler_min=known.lower, compiler_max=known.upper
            )
        if is_symbol:
            from torch.utils._traceback import CapturedTraceback

            self.environment.var_to_stack[expression] = CapturedTraceback.extract(skip=1)
        return expression

    def bindings(self, value: object) -> Any:
        """The data-dependent symbols that a node's value defines, or None if it defines none."""
        return self._shapes._free_unbacked_symbols_with_path(
            value, (), shape_env=self.environment, pending=self.pending, simplify=True
        )
