"""chunk: computes large arrays in parts, by loops over chunks of one dimension, as attention without a table of scores.

    %s = dot_general %q, %k  : 4096x4096            for each of 16 chunks %c of the rows of %q:
    %p = softmax %s                           ->        %s = dot_general %c, %k  : 256x4096
    %o = dot_general %p, %v  : 4096x64                  %p = softmax %s;  part of %o = dot_general %p, %v  : 256x64

Memory then holds only a chunk of each large array. In reverse mode, the loop recomputes these arrays from its inputs.
`chunking/regions.py` says which ops form a loop. If the ops are parallel along several dimensions that are long
enough, the pass takes the one along which the fewest bytes are the same for all chunks, as along an attention's heads.

Sources: Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021); Dao, Fu, Ermon, Rudra and Re,
"FlashAttention" (2022).
"""

from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import AnyModule, IrOp
from tiduc.passes.chunking.loops import replace_by_loop
from tiduc.passes.chunking.regions import Order, Region, is_seed, region_of, result_bytes, shared_bytes

LIMIT = 2**26
"""Products of at least this many bytes start a region."""
AIM = 2**23
"""The aim for the number of bytes of a chunk of such a product."""


@stage
def chunk(module: AnyModule, limit: int = LIMIT, aim: int = AIM) -> None:
    """Replaces ops of the graphs of a module by loops over chunks, in place.

    Products of at least `limit` bytes are computed in chunks of about `aim` bytes.
    """
    for graph in [op for op in operations(module.body) if op.name == "tidu.graph"]:
        block = graph.regions[0].blocks[0]
        waiting = [op for op in operations(block) if is_seed(op, limit)]
        while waiting:
            seed = waiting.pop()
            parts = max(2, -(-result_bytes(seed) // aim))
            region = _best(Order(block), seed, limit, parts)
            if region is not None:
                waiting = [op for op in waiting if op not in region.ops]
                replace_by_loop(module, graph, region, _size(region.size, parts))


def _best(block: Order, seed: IrOp, limit: int, parts: int) -> Region | None:
    """The region of a seed along the best dimension. Returns None if there is no region.

    The best dimension has at least `parts` elements and, of such dimensions, chunks along it share the fewest bytes.
    """
    sizes = seed.result.type.shape
    regions = [region_of(block, seed, d, limit) for d, n in enumerate(sizes) if n > 1]
    found = [region for region in regions if region is not None]
    return min(found, key=lambda r: (-min(r.size, parts), shared_bytes(r)), default=None)


def _size(n: int, parts: int) -> int:
    """The size of a chunk of a dimension of size n, so that there are about `parts` chunks.

    The sizes of all chunks are equal if this needs at most twice as many chunks.
    """
    parts = min(n, parts)
    equal = [n // trips for trips in range(parts, min(n, 2 * parts) + 1) if n % trips == 0]
    return max(equal, default=-(-n // parts))
