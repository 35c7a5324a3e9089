"""A pytest plugin for the tests of rules that batches their programs instead of checking derivatives.

    PYTHONPATH=test/py:test/sweep python -m pytest -p batch_rules test/py/rules

Each program is batched for three examples: once for each input, with only this input batched, and once with all inputs
batched. The results are compared with three separate runs of the program. The plugin skips rules of other op sets,
programs that run on several processes, dynamic dimensions, and random numbers.
"""

import re
from typing import Any

from harness import check_rule
from harness.check_batch import check_batch
from harness.devices import by_processes

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.loading import load

NO_BATCH = "cannot be batched; only tensors of static shape can|unsupported batching of stablehlo.rng"


def batched_instead(text: str, *arguments: Any, **options: Any) -> None:
    """Checks the batched program. The tests call this function instead of `check_rule`."""
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
