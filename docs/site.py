"""Files of the documentation site that docs/ does not contain: the Python reference, and files to which pages link.

    reference/NAME.md     a page for each part of the package, from docstrings
    source/PATH           a file of the repository outside docs/ that some page links to

Pages and links are unchanged, so they can also be read in the repository.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import tiduc

ROOT = Path(__file__).resolve().parents[1]
_OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)")

REFERENCE = {
    "program": ("Programs", ["tiduc.program", "tiduc.ports"]),
    "models": ("Models", ["tiduc.models.from_torch", "tiduc.models.from_onnx", "tiduc.models.from_jax"]),
    "model": ("Weights", ["tiduc.models.model"]),
    "eager": ("Eager programs", ["tiduc.eager"]),
    "runtime": (
        "Running modules",
        ["tiduc.runtime.modules", "tiduc.runtime.loading", "tiduc.runtime.run", "tiduc.runtime.devices"],
    ),
    "signature": ("Signatures and targets", ["tiduc.runtime.signature", "tiduc.backends.iree.targets"]),
    "stages": (
        "Stages",
        [
            "tiduc.pipeline",
            "tiduc.passes.importing.import_stablehlo",
            "tiduc.passes.resolve",
            "tiduc.passes.linearize",
            "tiduc.passes.linear_transpose",
            "tiduc.passes.materialize_merge",
            "tiduc.passes.structure.structure",
            "tiduc.passes.lower.lower",
            "tiduc.linking",
            "tiduc.opt.driver",
        ],
    ),
    "graphs": (
        "Graphs and views",
        ["tiduc.dialect.mlir.context", "tiduc.dialect.graph.graph", "tiduc.dialect.graph.view"],
    ),
    "rules": (
        "Rules",
        [
            "tiduc.passes.rules.registry",
            "tiduc.dialect.emitters.builder",
            "tiduc.dialect.emitters.stablehlo",
            "tiduc.dialect.emitters.stablehlo_ops",
        ],
    ),
    "explain": ("Explanations", ["tiduc.explain", "tiduc.explain.costs", "tiduc.activity"]),
    "errors": ("Errors", ["tiduc.dialect.errors"]),
}
"""Pages by file name: their title, and the modules whose docstrings they show."""

_listed = {module for _, modules in REFERENCE.values() for module in modules}
if _more := sorted({module for module in tiduc._MODULE_OF.values()} - _listed - {"tiduc.passes.rules"}):
    REFERENCE["more"] = "More", _more


def on_config(config: Any) -> Any:
    """Adds the pages of the reference to the navigation. Adds pages that the navigation lacks to its guides."""
    sections = {
        title: pages
        for section in config.nav
        if isinstance(section, dict)
        for title, pages in section.items()
    }
    for entry in sections["Reference"]:
        if entry.get("Python") == "reference/":
            entry["Python"] = [{title: f"reference/{name}.md"} for name, (title, _) in REFERENCE.items()]
    listed = str(config.nav)
    names = sorted(path.name for path in Path(config.docs_dir).glob("*.md"))
    sections["Guides"] += [name for name in names if f"'{name}'" not in listed]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are generated from the code, and the files that pages link to."""
    for name, (title, modules) in REFERENCE.items():
        body = "\n\n".join(f"::: {module}" for module in modules)
        text = f"# {title}\n\nFrom the docstrings.\n\n{body}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for path in sorted(_linked(files)):
        files.append(File.generated(config, f"source/{path}", content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Changes links to files outside docs/ to links to the copies; pages in folders of docs/ have no such links."""
    return markdown if "/" in page.file.src_uri else _OUTSIDE.sub(r"](source/\1", markdown)


def _linked(files: Files) -> set[str]:
    texts = [
        Path(file.abs_src_path).read_text("utf-8")
        for file in files.documentation_pages()
        if file.abs_src_path and "/" not in file.src_uri
    ]
    return {path for text in texts for path in _OUTSIDE.findall(text) if (ROOT / path).is_file()}
