"""Lists sentences that a reader has to decode: python test/prose.py FILE...

Searches the docstrings and comments of Python files, and the text of pages, for openings without a subject ("Of complex
numbers, ...", "The same, with ...") and for private words for which the field has a term. The exit status is 1 if there
are any. The list of words is short, so a sentence that passes may still be bad.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

OPENINGS = re.compile(r"^(?:Of|The same|What|Whoever|Such as|That of|As it|None of|In these|With these)\b")
WORDS = {
    "open size": "dynamic dimension",
    "runs along with": "is fused with",
    "settles": "lowers, legalizes",
    "anew": "again",
    "lest": "so that ... not",
    "nobody": "no op, no caller",
    "whoever": "if you",
    "what is left of": "the rest of",
}
_WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_FENCED = re.compile(r"```.*?```", re.DOTALL)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring and comment.

    For a page, each line of prose, without headings and code.
    """
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        plain = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), source)
        lines = enumerate(plain.splitlines(), 1)
        yield from ((n, line.strip(" |-")) for n, line in lines if not line.startswith(("#", "**")))
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def unclear(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each sentence that should be rewritten."""
    for line, text in texts(path):
        for sentence in re.split(r"(?<=[.:;])\s+|\n\s*\n", text):
            joined = " ".join(sentence.split())
            if OPENINGS.match(joined) or _WORD.search(joined):
                yield line, joined


def main(names: list[str]) -> int:
    found = [(name, *each) for name in names for each in unclear(Path(name))]
    for name, line, sentence in found:
        print(f"{name}:{line}: {sentence[:140]}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
