"""identity_of: a text that two programs of one model share, and that programs of other models do not.

The files of a state carry the identity of their model, so that a static library refuses the state of another model
whose arrays have equal names and types.
"""

import hashlib
import re
from collections.abc import Iterator

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.models.model import Model
from tiduc.ports import described
from tiduc.program import Program


def identity_of(model: Program) -> str:
    """A hash of the ops of a model, of the values that each op reads, and of the names and types of the weights.

    Shapes and constants of ops are no part of the hash, since they depend on the size of a batch.
    """
    digest = hashlib.sha256()
    for line in _lines(model):
        digest.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def check_identity(text: str) -> None:
    """Raises `RequestError` for a text that files and programs in C cannot hold as it is."""
    if not re.fullmatch(r"[\w.+-]{,200}", text, re.ASCII):
        raise RequestError(
            f"an identity has letters, digits, '.', '_', '+' and '-', at most 200; not {text!r}"
        )


def _lines(model: Program) -> Iterator[str]:
    weights = model.weights if isinstance(model, Model) else {}
    yield from (str(described(port)) for port in model.inputs if port.name in weights)
    numbers: dict[Value, int] = {x: i for i, x in enumerate(model.merged.inputs.values())}
    for op in model.merged.definitions:
        read = [numbers.get(x, -1) for x in op.reads]
        yield f"{' '.join(_names(op))} {read}"
        for y in op.results:
            numbers[y] = len(numbers)


def _names(op: Definition) -> list[str]:
    """The name of an op, and the names of the ops in its regions."""
    return [op.name, *(inner.name for inner in within(op.source))] if op.source is not None else [op.name]
