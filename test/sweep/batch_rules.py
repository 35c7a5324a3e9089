"""The programs of the tests of rules, batched: a plugin that checks batching where these check derivatives.

    PYTHONPATH=test/py:test/sweep python -m pytest -p batch_rules test/py/rules

Of each program, each input alone and all together come three at a time, and are compared with runs one by one. Left
out are rules of other op sets, programs of several processes, and those of open sizes or with random numbers, which
have no batch.
"""

import re
from typing import Any

import check_rule
from check_batch import check_batch
from devices import by_processes

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.program import load

NO_BATCH = "cannot be batched; only tensors of known sizes can|unsupported batching of stablehlo.rng"


def batched_instead(text: str, *arguments: Any, **options: Any) -> None:
    """In the place of `check_rule`."""
    if "opset" in options or check_rule.chosen(text) is by_processes:
        return
    program = load(text)
    if program.inputs:
        try:
            check_batch(program, *arguments, subsets=False, rtol=1e-9)
        except (RequestError, Unsupported) as error:
            if not re.search(NO_BATCH, error.message):
                raise


check_rule.check_rule = batched_instead  # type: ignore[assignment]
