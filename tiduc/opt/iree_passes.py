"""Defines the passes for IREE that textual pipelines can use."""

from dataclasses import fields

from tiduc.backends.iree.pipeline import PIPELINE, legalize_for_iree, parts_of_legalization
from tiduc.backends.iree.settings import HELP, Settings
from tiduc.opt.textual import Option, Pass

_LEGALIZE = Pass(
    "tidu-legalize-for-iree",
    "Rewrites ops that IREE rejects or miscompiles in functions of StableHLO, and refuses ops that cannot be "
    "rewritten.",
    legalize_for_iree,
    tuple(
        Option(each.name, "bool" if each.type is bool else "string", each.metadata[HELP])
        for each in fields(Settings)
    ),
    parts=parts_of_legalization,
)

_OTHERS = ("legal", "tiles")
"""The groups whose passes cannot be used in pipelines one by one.

`tidu-legalize-for-iree` runs all passes of the group `legal`. The passes of the group `tiles` need a target.
"""

PASSES: dict[str, Pass] = {_LEGALIZE.name: _LEGALIZE} | {
    name: Pass(name, entry.description, entry.function)
    for entry in PIPELINE
    if entry.group not in _OTHERS
    for name in [f"tidu-{entry.function.__name__.replace('_', '-')}"]
}
