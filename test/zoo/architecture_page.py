"""Writes the section of docs/zoo.md about all architectures, from the records of `test/sweep/architectures.py`."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from table import PAGE, TITLE, head, line, section_of

Record = Mapping[str, Any]

ABOUT = """
`test/sweep/architectures.py` computes gradients for architectures of transformers, timm, torchvision and diffusers: a
base model for each type of configuration of transformers, the smallest models of each family of timm, and named
models of torchvision and diffusers. The loss is the one described above. IREE compiles its gradient with respect to
all float weights and inputs, and the result is compared with PyTorch's. The reference is computed in f64, even where
a module asks for f32. The value, and the gradient toward each weight or input, may differ by ten times the error of
PyTorch's own result in f32, by 1e-5 of its norm, or by 1e-6 of the norm of the whole gradient. A larger difference
counts as right if the gradient in f64 is right: then rounding has moved a kink. XLA computes the gradients that are
not right, so that the record says whether IREE alone is wrong. A module in training mode draws its own dropout masks,
for which IREE is compared with XLA.

The size of a model is *published* where its widths and layers are the default of its package, with at most 150 million
weights. Its images then have the side that the package names (224 where that side is above 288, and in torchvision),
and its sequences have 8 tokens. All other models have a *reduced* size, such as two layers of width 32 and images of
64 x 64; all models of diffusers do. There are two images at a time, since PyTorch's batch normalization has a wrong
gradient for one image in a layout that is transposed.

```sh
python test/sweep/architectures.py --seed 20261129 --count 40  # continues the record, test/zoo/architectures.jsonl
python test/sweep/architectures.py --page                      # writes this section from the record
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
    "too large": "more memory than the limit",
}

_CLASSES = (
    (re.compile(r"torch-mlir lowers no ([\w.]+)"), "op without StableHLO: {}"),
    (re.compile(r"does not lower to StableHLO one of: ([\w., ]+)"), "op without StableHLO: {}"),
    (
        re.compile(r"data-dependent|depends on data|unbacked|GuardOnDataDependent"),
        "size that depends on data",
    ),
    (re.compile(r"RESOURCE_EXHAUSTED|can't allocate memory"), "more memory than the limit of 11 GB"),
    (re.compile(r"torch-mlir cannot"), "program that torch-mlir cannot import"),
    (re.compile(r"PyTorch cannot decompose"), "op that PyTorch cannot decompose"),
    (re.compile(r"PyTorch cannot export"), "function that the import replaces"),
)
"""Maps patterns of error messages to the reasons that the page shows."""


def write(records: Mapping[str, Record]) -> None:
    """Replaces the section about all architectures in docs/zoo.md."""
    from catalog import architectures

    before = PAGE.read_text()
    section = section_of(before)
    PAGE.write_text(before.removesuffix(section) + page(records, len(architectures())))


def page(records: Mapping[str, Record], listed: int) -> str:
    """Returns the text of the section. `listed` is the number of architectures in the catalog."""
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
    published, reduced = (_sized(records.values(), size) for size in ("published", "reduced"))
    lines += [
        "",
        f"{published} of the right ones have their published size, and {reduced} have a reduced one.",
    ]
    lines += ["", "### Refusals and failures by reason", "", *head(["outcome", "reason", "architectures"])]
    lines += reasons(records)
    lines += ["", "### Architectures compared on IREE", "", *_COMPARED, "", *compared(records)]
    return f"{TITLE}\n{ABOUT}" + "\n".join(lines) + "\n"


_COMPARED = (
    "*Error* is the relative error of the value, or the largest norm of a difference toward one weight or input over",
    "the norm of the whole gradient; PyTorch's results in f64 are the reference. *PyTorch's error* is that of its",
    "gradient in f32. It is missing where PyTorch gives no finite numbers in f64, so that its f32 is the reference,",
    "and where modules draw random numbers. *In f64* is the error of IREE's gradient in f64. It is computed where the",
    "error is above ten times PyTorch's: rounding moves a kink in f32, or sums are in another order than PyTorch's.",
)


def compared(records: Mapping[str, Record]) -> list[str]:
    """Returns the lines of the table of architectures whose gradients IREE has computed."""
    lines = head(["architecture", "size", "weights", "error", "PyTorch's error", "in f64", "day", "outcome"])
    for title, each in sorted(records.items()):
        if "error" in each:
            errors = (f"{each[name]:.0e}" if name in each else "" for name in _ERRORS)
            weights = f"{each['weights']:,}"
            lines.append(
                line([title, each["size"], weights, *errors, each["day"], _MEANING[each["outcome"]]])
            )
    return lines


_ERRORS = ("error", "torch_error", "wide_error")


def _count(records: Iterable[Record], outcome: str) -> int:
    return sum(each["outcome"] == outcome for each in records)


def _sized(records: Iterable[Record], size: str) -> int:
    return sum(each["outcome"] == "ok" and each["size"] == size for each in records)


def reasons(records: Mapping[str, Record]) -> list[str]:
    """Returns the lines of the table of reasons, sorted by outcome and then by frequency."""
    found: dict[tuple[str, str], list[str]] = {}
    for title, each in sorted(records.items()):
        if each["outcome"] not in ("ok", "differentiated", "not built", "not exported"):
            found.setdefault((each["outcome"], reason(each["why"])), []).append(title)
    ordered = sorted(found.items(), key=lambda item: (item[0][0], -len(item[1])))
    return [line([_MEANING[outcome], why, ", ".join(titles)]) for (outcome, why), titles in ordered]


def reason(why: str) -> str:
    """Returns the reason that the page shows for an error message.

    If no pattern matches, the result is the beginning of the message, without its position in a file.
    """
    for pattern, text in _CLASSES:
        if match := pattern.search(why):
            return text.format(*match.groups())
    short = re.sub(r"^[^ ]*:\d+:\d+: ", "", why.removeprefix("error: "))
    return short.replace("|", "\\|")[:160]
