"""The batching rules of StableHLO and CHLO, which the files beside this one fill: the forms, bound to their table."""

from tiduc.passes.batching.registry import BatchRules

BATCHING = BatchRules()

elementwise = BATCHING.elementwise
leading = BATCHING.leading
batch = BATCHING.batch
refuse = BATCHING.refuse
