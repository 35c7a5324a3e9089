"""contract: reorders chains of `dot_general` if another order takes fewer FLOPs.

    %0 = dot_general %a, %b : 100x80, 80x60        ->   %0 = dot_general %b, %x : 80x60, 60
    %1 = dot_general %0, %x : 100x60, 60                %1 = dot_general %a, %0 : 100x80, 80

A chain is a tree of products of one element type. Transposes may stand between the products, and each inner result has
a single use. opt_einsum finds the new order. All sizes must be static, so that the FLOPs of both orders are known. The
new order changes results by rounding, so the pass runs only on request. For each reordered chain, the attribute
`tidu.plan` of the function has the number of products, and the FLOPs before and after.
"""

from collections.abc import Mapping, Sequence
from math import prod
from string import ascii_letters

from opt_einsum import contract_path
from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.emitters.einsum import Path, along_path
from tiduc.dialect.graph.functions import functions_in, within
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import i64, is_complex, is_float

PLAN = "tidu.plan"

_PRODUCT, _TRANSPOSE = "stablehlo.dot_general", "stablehlo.transpose"


@stage
def contract(module: ir.Module) -> None:
    """Reorders the chains of products in each function, in place."""
    for function in functions_in(module):
        plans = [plan for root in _roots(function) for plan in _reordered(_Chain(root))]
        if PLAN in function.attributes:
            del function.attributes[PLAN]  # left by an earlier run
        if plans:
            function.attributes[PLAN] = ir.ArrayAttr.get(plans[::-1])


def _roots(function: IrOp) -> list[IrOp]:
    """The last product (root) of each chain. The last chain comes first, because it may read an earlier one."""
    roots: list[IrOp] = []
    inner: set[IrOp] = set()
    for op in (each.operation for each in reversed(within(function, [_PRODUCT]))):
        if op not in inner and _is_plain(op):
            roots.append(op)
            inner.update(_Chain(op).ops[1:])
    return roots


class _Chain:
    """The chain of products that ends in `root`: its `factors`, and its `ops`, of which the root is the first.

    A factor is a value with one einsum letter per dimension. `flops` is the number of multiplications and additions
    before reordering. If the chain has more than 52 dimensions, the other letters are "", and it is not reordered.
    """

    def __init__(self, root: IrOp) -> None:
        self.factors: list[tuple[IrValue, str]] = []
        self.ops: list[IrOp] = []
        self.sizes: dict[str, int] = {}
        self.flops = 0
        self._letters = iter(ascii_letters)
        self.result = "".join(map(self._letter, root.results[0].type.shape))
        self._split(root, self.result)

    def _letter(self, size: int) -> str:
        letter = next(self._letters, "")
        self.sizes[letter] = size
        return letter

    def _split(self, op: IrOp, of: str) -> None:
        """Adds the factors of the product `op` to the chain. The result of `op` has the letters `of`."""
        numbers, ranks = Contraction.of(op), [x.type.rank for x in op.operands]
        self.ops.append(op)
        known = [{d: of[at] for d, at in numbers.places(side, ranks).items()} for side in (0, 1)]
        for d, e in zip(*numbers.summed, strict=True):
            known[0][d] = known[1][e] = self._letter(op.operands[0].type.shape[d])
        named = ["".join(letters[d] for d in range(n)) for letters, n in zip(known, ranks, strict=True)]
        self.flops += _flops(set("".join(named)), self.sizes)
        for x, own in zip(op.operands, named, strict=True):
            self._add(x, own)

    def _add(self, x: IrValue, of: str) -> None:
        """Adds x, whose letters are `of`, as a factor.

        If x is a product, perhaps transposed, that only this chain reads, adds the factors of that product instead.
        """
        root, y, own, turns = self.ops[0], x, of, list[IrOp]()
        while (turn := _only_read_here(y, _TRANSPOSE, root)) is not None:
            order = list(turn.attributes["permutation"])
            own = "".join(own[order.index(d)] for d in range(len(order)))
            turns.append(turn)
            y = turn.operands[0]
        product = _only_read_here(y, _PRODUCT, root)
        if product is None or not _is_plain(product) or _options(product) != _options(root):
            self.factors.append((x, of))
        else:
            self.ops += turns
            self._split(product, own)


def _only_read_here(x: IrValue, name: str, root: IrOp) -> IrOp | None:
    """The op named `name` that defines x, if it is in the root's block and x has a single use; else None."""
    op = defined_by(x, name)
    block = None if op is None else op.operation.block
    return (
        op.operation if op is not None and block == root.operation.block and len(list(x.uses)) == 1 else None
    )


def _is_plain(op: IrOp) -> bool:
    """Whether a product has static sizes, and floating-point or complex elements of one type."""
    types = [x.type for x in (*op.operands, op.results[0])]
    same = all(t.element_type == types[0].element_type for t in types)
    return same and all(t.has_static_shape for t in types) and (is_float(types[0]) or is_complex(types[0]))


def _options(op: IrOp) -> dict[str, ir.Attribute]:
    return {name: op.attributes[name] for name in ("precision_config", "algorithm") if name in op.attributes}


def _flops(letters: set[str], sizes: Mapping[str, int]) -> int:
    """The number of multiplications and additions in a product of two operands that together have these letters."""
    return 2 * prod(sizes[letter] for letter in letters)


def _reordered(chain: _Chain) -> list[ir.Attribute]:
    """Replaces a chain by one of fewer FLOPs. Returns its entry for `tidu.plan` in a list; [] if the chain is kept."""
    labels, root = [of for _, of in chain.factors], chain.ops[0]
    if len(labels) < 3 or "" in chain.sizes:
        return []
    shapes = [tuple([chain.sizes[letter] for letter in of]) for of in labels]
    path, _ = contract_path(f"{','.join(labels)}->{chain.result}", *shapes, shapes=True, optimize="auto")
    flops = _flops_along(labels, chain.result, chain.sizes, path)
    if flops >= chain.flops:
        return []
    b = IrEmitter(ir.InsertionPoint(root), root.location)
    x, of = along_path(b, chain.factors, chain.result, path, _options(root))
    root.results[0].replace_all_uses_with(b.transpose(x, [of.index(letter) for letter in chain.result]))
    for op in chain.ops:
        op.erase()
    numbers = {"before": chain.flops, "flops": flops, "products": len(labels) - 1}
    return [ir.DictAttr.get({name: i64(n) for name, n in numbers.items()})]


def _flops_along(labels: Sequence[str], result: str, sizes: Mapping[str, int], path: Path) -> int:
    """The FLOPs of multiplying factors with the letters `labels` in the order `path`, as `along_path` does."""
    left, total = [set(of) for of in labels], 0
    for step in path:
        first, *rest = [left[i] for i in sorted(step)]
        left = [of for i, of in enumerate(left) if i not in step]
        for i, of in enumerate(rest, 1):
            total += _flops(first | of, sizes)
            first = (first | of) & set(result).union(*left, *rest[i:])
        left.append(first)
    return total
