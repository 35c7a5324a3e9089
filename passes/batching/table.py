"""The batching rule table of StableHLO and CHLO, and its declaration functions, which the rule files call."""

from tiduc.passes.batching.registry import BatchRules

BATCHING = BatchRules()

elementwise = BATCHING.elementwise
leading = BATCHING.leading
batch = BATCHING.batch
refuse = BATCHING.refuse
