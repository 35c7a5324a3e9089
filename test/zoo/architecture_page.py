"""Writes the section of docs/zoo.md about all architectures, from the records of `test/sweep/architectures.py`."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from table import PAGE, TITLE, head, line, section_of

Record = Mapping[str, Any]

ABOUT = """
`test/sweep/architectures.py` takes gradients of architectures of transformers, timm, torchvision and diffusers
in a small configuration, such as two layers of width 32 and images of 64 x 64: a base model for each type of
configuration of transformers, the smallest models of each family of timm, and named models of torchvision and
diffusers. The scalar is the one above; it is derived toward all float weights and inputs, compiled by IREE, and
compared with PyTorch's in f64. The value, and each gradient by itself, may differ by ten times the error of PyTorch's
own in f32, by 1e-5 of its norm, or by 1e-6 of the norm of the whole gradient. A larger difference counts as right if
the gradient in f64 is right: then rounding has moved a kink. A module in training mode draws its own dropout masks,
for which IREE is compared with XLA.

```sh
python test/sweep/architectures.py architectures.jsonl --seed 20261128 --count 40  # continues where the journal ends
python test/sweep/architectures.py architectures.jsonl --page                      # writes this section
```

"""

_MEANING = {
    "ok": "right",
    "wrong": "wrong",
    "refused": "refused",
    "rejected": "rejected by IREE",
    "crash": "crash",
    "hang": "no result in time",
    "differentiated": "differentiated, not compiled",
    "not exported": "not exported by PyTorch",
    "not built": "not built",
}

_CLASSES = (
    (re.compile(r"torch-mlir lowers no ([\w.]+)"), "op without StableHLO: {}"),
    (re.compile(r"does not lower to StableHLO one of: ([\w., ]+)"), "op without StableHLO: {}"),
    (
        re.compile(r"data-dependent|depends on data|unbacked|GuardOnDataDependent"),
        "size that depends on data",
    ),
    (re.compile(r"torch-mlir cannot"), "program that torch-mlir cannot import"),
    (re.compile(r"PyTorch cannot decompose"), "op that PyTorch cannot decompose"),
    (re.compile(r"PyTorch cannot export"), "function that the import replaces"),
)
"""Classes of reasons, by the text of a refusal."""


def write(records: Mapping[str, Record]) -> None:
    """Replaces the section of the page."""
    from catalog import architectures

    before = PAGE.read_text()
    section = section_of(before)
    PAGE.write_text(before.removesuffix(section) + page(records, len(architectures())))


def page(records: Mapping[str, Record], listed: int) -> str:
    """The text of the section; `listed` is the number of all architectures, whether they have a record or not."""
    packages = sorted({title.partition("/")[0] for title in records})
    lines = [
        f"{len(records)} of {listed} architectures have been tried so far.",
        "",
    ]
    lines += head(["package", *_MEANING.values()])
    for package in packages:
        counts = Counter(
            each["outcome"] for title, each in records.items() if title.startswith(f"{package}/")
        )
        lines.append(line([package, *(counts[name] for name in _MEANING)]))
    lines.append(line(["all", *(_count(records.values(), name) for name in _MEANING)]))
    lines += ["", "### Refusals and failures by reason", "", *head(["outcome", "reason", "architectures"])]
    lines += reasons(records)
    right = ", ".join(title for title in sorted(records) if records[title]["outcome"] == "ok")
    lines += ["", "### Architectures whose gradient is right on IREE", "", f"{right}."]
    return f"{TITLE}\n{ABOUT}" + "\n".join(lines) + "\n"


def _count(records: Iterable[Record], outcome: str) -> int:
    return sum(each["outcome"] == outcome for each in records)


def reasons(records: Mapping[str, Record]) -> list[str]:
    """Lines of the table of reasons, the most frequent first."""
    found: dict[tuple[str, str], list[str]] = {}
    for title, each in sorted(records.items()):
        if each["outcome"] not in ("ok", "differentiated", "not built", "not exported"):
            found.setdefault((each["outcome"], reason(each["why"])), []).append(title)
    ordered = sorted(found.items(), key=lambda item: (item[0][0], -len(item[1])))
    return [line([_MEANING[outcome], why, ", ".join(titles)]) for (outcome, why), titles in ordered]


def reason(why: str) -> str:
    """The class of a reason: what the message says, without names of files and shapes."""
    for pattern, text in _CLASSES:
        if match := pattern.search(why):
            return text.format(*match.groups())
    short = re.sub(r"^[^ ]*:\d+:\d+: ", "", why.removeprefix("error: "))
    return short.replace("|", "\\|")[:160]
