"""The table of batching rules of StableHLO and CHLO, and the functions by which rule files declare rules."""

from tiduc.passes.batching.registry import BatchRules

BATCHING = BatchRules()

elementwise = BATCHING.elementwise
leading = BATCHING.leading
batch = BATCHING.batch
refuse = BATCHING.refuse
