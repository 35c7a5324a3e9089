"""Writes docs/zoo.md from the figures of a journal."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from entries import Entry
from verdict import is_right

PAGE = Path(__file__).parents[2] / "docs" / "zoo.md"
Figures = Mapping[str, Any]

TITLE = "## All architectures"
"""The title of the last section of the page, which `architecture_page.py` writes."""

_ABOUT = """# The zoo

Models of PyTorch, torchvision, timm, transformers and diffusers with random weights, imported by `tiduc.from_torch`.
The loss of a model is the mean of y² + sin(i) y over each float output y, where i numbers the entries of y; the
gradient is that of the loss with respect to all parameters.

After `pip install '.[zoo]'`:

```sh
python test/zoo/run.py --size small --journal zoo.jsonl               # on IREE; --engine xla runs on XLA, and
python test/zoo/run.py --size real --engine none --journal zoo.jsonl  # --engine none stops after the derivative
python test/zoo/run.py --journal zoo.jsonl --write                    # writes this page
```

Each model runs in a process of its own, with limits of time and memory. A run continues where the journal ends. The
figures were measured on November 23, 2026, on IREE if IREE ran the model.

The *error* of a gradient is the norm of its difference from PyTorch's gradient in f64, over the norm of that
gradient; *PyTorch's error* is that of PyTorch's own gradient in f32. A gradient counts as right if its error is at
most 1e-4, or at most 10 times PyTorch's. A larger error in f32 can come from rounding that moves a kink, such as the
choice of a maximum. The gradient is then computed in f64 too, and counts as right if its error in f64 is at most
1e-9, or at most PyTorch's error, since parts of some models always compute in f32. The table states this error in
parentheses.

Import, transform and compile times are seconds of CPU time, with those of worker processes; run times are wall times of
one thread, the least of several calls, on a machine that other work shared. *Peak* is the memory that the first call
adds to the process, in MiB. An empty cell has not been measured.
"""

_OURS = ["model", "weights", "ops", "import s", "transform s"]
_RUN = ["engine", "compile s", "error", "PyTorch's error", "run ms", "PyTorch ms", "peak", "PyTorch peak"]


def write(found: Mapping[tuple[str, str], Figures]) -> None:
    """Writes the page from the figures of each model and engine."""
    from installed import ENTRIES, MISSING

    if MISSING:
        raise SystemExit(f"the page needs all models: install {', '.join(MISSING)}")
    PAGE.write_text(page(ENTRIES, found) + section_of(PAGE.read_text()))


def section_of(text: str) -> str:
    """Returns the last section of the page, which lists all architectures. The text is empty if it is missing."""
    return text[text.index(f"{TITLE}\n") :] if f"{TITLE}\n" in text else ""


def page(entries: Sequence[Entry], found: Mapping[tuple[str, str], Figures]) -> str:
    """Returns the text of the page without its last section."""
    lines = [_ABOUT, *_summary(entries, found)]
    for size, title in (("small", "Small models"), ("real", "Models of real size")):
        lines += ["", f"## {title}"]
        of_size = [entry for entry in entries if entry.size == size]
        for family in dict.fromkeys(entry.family for entry in of_size):
            lines += ["", f"### {family.capitalize()}", "", *head(_OURS + _RUN)]
            lines += [_row(e, found) for e in of_size if e.family == family]
    reasons = [_reason(e.name, engine, found) for e in entries for engine in ("none", "xla", "iree")]
    lines += ["", "## Models that are refused or fail", "", *head(["model", "engine", "reason"])]
    return "\n".join([*lines, *(reason for reason in reasons if reason)]) + "\n\n"


def _summary(entries: Iterable[Entry], found: Mapping[tuple[str, str], Figures]) -> list[str]:
    lines = head(
        ["size", "models", "differentiated", "right on XLA", "run on XLA", "right on IREE", "run on IREE"]
    )
    for size in ("small", "real"):
        names = [entry.name for entry in entries if entry.size == size]
        counts = [len(names), sum("ops" in _any(name, found) for name in names)]
        for engine in ("xla", "iree"):
            ran = [found[name, engine] for name in names if "error" in found.get((name, engine), {})]
            counts += [sum(is_right(figures) for figures in ran), len(ran)]
        lines.append(line([size, *counts]))
    return lines


def _any(name: str, found: Mapping[tuple[str, str], Figures]) -> Figures:
    """Returns a model's figures with IREE if it has run the model, or else those with XLA or without an engine."""
    known = [found.get((name, engine), {}) for engine in ("iree", "xla", "none")]
    return next((figures for stage in ("error", "ops") for figures in known if stage in figures), {})


def _row(entry: Entry, found: Mapping[tuple[str, str], Figures]) -> str:
    """Returns the line of a model in the table."""
    figures = _any(entry.name, found)
    cells = [entry.name, *(f"{figures[key]:,}" if key in figures else "" for key in ("weights", "ops"))]
    cells += [f"{figures[key]:.2g}" if key in figures else "" for key in ("import", "transform")]
    cells += [{"iree": "IREE", "xla": "XLA"}.get(figures.get("engine", ""), "")]
    cells += [f"{figures['compile']:.0f}" if "compile" in figures else ""]
    wide = f" (f64: {figures['wide_error']:.0e})" if "wide_error" in figures else ""
    cells += [f"{figures['error']:.0e}{wide}" if "error" in figures else ""]
    cells += [f"{figures['torch_error']:.0e}" if "torch_error" in figures else ""]
    keys = ("run", "torch_run", "peak", "torch_peak")
    return line([*cells, *(f"{figures[key]:.3g}" if key in figures else "" for key in keys)])


def _reason(name: str, engine: str, found: Mapping[tuple[str, str], Figures]) -> str | None:
    figures = found.get((name, engine), {})
    reason = figures.get("refused") or figures.get("failed")
    if reason is None and "error" in figures and not is_right(figures):
        reason = f"the relative error is {figures['error']:.0e}"
    if reason is None:
        return None
    text = " ".join(str(reason).split()).removeprefix("error: ").replace("|", "\\|")
    return line([name, {"none": "the import", "xla": "XLA", "iree": "IREE"}[engine], text[:300]])


def head(names: Sequence[str]) -> list[str]:
    return [line(names), "|" + "---|" * len(names)]


def line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
