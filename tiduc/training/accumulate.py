"""Gradient accumulation: every K-th call of the step updates the parameters by the mean gradient of K batches.

    sum += g;  n += 1;  if n == K:  update by sum / K, sum = 0, n = 0

Each call computes the update and selects between the new and the old values, so that the program has no branch.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import element
from tiduc.ports import InputPort


class Accumulation:
    """The sums of gradients in a step's state, and the condition under which a call updates the parameters.

    `slopes` are the mean gradients, `ports` are the inputs of the step for the sums and for the number of batches, and
    `values` are the new values of these inputs.
    """

    def __init__(
        self, b: StablehloBuilder, parameters: Sequence[InputPort], slopes: Sequence[Value], count: int
    ) -> None:
        """Emits ops that add the gradients `slopes` of one batch to the sums. `count` is the number K of batches.

        Raises `RequestError` if `count` is less than 1.
        """
        if count < 1:
            raise RequestError(f"accumulate needs a number of batches, at least 1, got {count}")
        scalar = ir.RankedTensorType.get([], ir.F32Type.get())
        self.ports = [InputPort("batches", scalar, f"{b.graph.name}.batches")]
        number = b.add(b.input(self.ports[0].key, scalar), b.constant(1.0, scalar))
        self._b = b
        self._due = b.compare(number, b.constant(float(count), scalar), "GE")
        self.slopes, self.values = [], [b.select(self._due, b.constant(0.0, scalar), number)]
        for port, slope in zip(parameters, slopes, strict=True):
            type_ = ir.RankedTensorType.get(port.type.shape, element(slope))
            self.ports.append(
                InputPort(f"{port.name}.gradient", type_, f"{b.graph.name}.{port.key}.gradient")
            )
            total = b.add(b.input(self.ports[-1].key, type_), slope)
            self.slopes.append(b.multiply(total, b.constant(1 / count, total)))
            self.values.append(b.select(self._due, b.zeros_like(total), total))

    def new_or_old(self, new: Value, old: Value) -> Value:
        """Returns the value `new` if the call updates the parameters, else `old`."""
        return self._b.select(self._due, new, old)
