"""Sources of which MLIR's parser says too little: no MLIR at all, text that fails silently, or ends the process."""

import re

_BYTECODE = b"ML\xefR"
_ZIP = b"PK\x03\x04"
_COMPILED = b"IREE"  # at byte 4 of what IREE's compiler writes, where that is in no zip archive
_ENCODINGS = {b"\xef\xbb\xbf": "a byte order mark", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def foreign(contents: bytes) -> str | None:
    """What these bytes are, as a message, where they are neither MLIR text nor bytecode that is damaged."""
    if contents.startswith(_BYTECODE):
        return None
    if contents.startswith(_ZIP) and b".fb" in contents[:64] or contents[4:8] == _COMPILED:
        return (
            "a compiled module, of which the program cannot be read: give the file that it was compiled from"
        )
    for mark, name in _ENCODINGS.items():
        if contents.startswith(mark):
            return f"it begins with {name}: MLIR reads plain UTF-8, so save the file as that"
    if b"\0" in contents[:4096]:
        return "neither MLIR text nor bytecode; 'tiduc import' reads models of PyTorch, ONNX and JAX"
    return None


_DIALECT_OP = re.compile(r"^[ \t]*(?:%[^=\n]*=[ \t]*)?(tidu\.\w+)", re.MULTILINE)
_REST = re.compile(r"([^\[\]]*)\]->\[([^\[\]]*)\]")


def without_words(source: str) -> tuple[str, int] | None:
    """Why MLIR fails on a text without a word, and where: ops of `tidu` have their generic form only."""
    found = _DIALECT_OP.search(source)
    if found is None:
        return None
    return f'{found[1]} is written in generic form: "{found[1]}"(...)', found.start(1)


def oversized(source: str) -> tuple[str, int] | None:
    """The numbers of dimensions that end the process, which makes room for as many, and where they are.

    `[b, 0, f]x[0, i, o]->[b, 0, f]` names those of a convolution.
    """
    at = source.find("]x[")
    while at >= 0:
        rest = _REST.match(source, at + 3)
        named = source[source.rfind("[", 0, at) : at] + (" ".join(rest.groups()) if rest else "")
        if huge := re.search(r"\d{4,}", named):
            return f"no tensor has a dimension {huge[0]}", at
        at = source.find("]x[", at + 3)
    return None
