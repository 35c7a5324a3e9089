"""Recognizes sources on which MLIR's parser crashes or emits no useful message, and explains what is wrong."""

import re

from tiduc.dialect.mlir.formats import format_of

_BYTECODE = b"ML\xefR"
_ZIP = b"PK\x03\x04"
_COMPILED = b"IREE"  # the bytes 4 to 7 of a compiled module that is not a zip archive
_NUMPY = b"\x93NUMPY"
_ENCODINGS = {b"\xef\xbb\xbf": "a byte order mark", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def foreign(contents: bytes) -> str | None:
    """Returns a message that names the format of a file that is not MLIR.

    Returns None for bytecode, even if it is damaged, and for text without another known format.
    """
    if contents.startswith(_BYTECODE):
        return None
    if contents.startswith(_ZIP) and b".fb" in contents[:64] or contents[4:8] == _COMPILED:
        return (
            "a compiled module, from which the program cannot be recovered: "
            "give the file that the module was compiled from"
        )
    if contents.startswith(_NUMPY) or contents.startswith(_ZIP) and b".npy" in contents[:256]:
        return "an array of NumPy, not a program; arrays follow --input, as in --input @x.npy"
    if other := format_of(contents):
        return other.message()
    for prefix, name in _ENCODINGS.items():
        if contents.startswith(prefix):
            return f"the file begins with {name}: MLIR reads plain UTF-8, so save the file as UTF-8"
    if b"\0" in contents[:4096]:
        return "neither MLIR text, bytecode nor a compiled module; 'tiduc import' reads models of PyTorch, ONNX and JAX"
    return None


_DIALECT_OP = re.compile(r"^[ \t]*(?:%[^=\n]*=[ \t]*)?(tidu\.\w+)", re.MULTILINE)
_DIALECT_WORD = re.compile(r'(?<![\w"@.#!])(tidu\.\w+)(?!\w*\s*=)')
_REST = re.compile(r"([^\[\]]*)\]->\[([^\[\]]*)\]")


def without_words(source: str) -> tuple[str, int] | None:
    """Returns a message and an offset if the text has an unquoted word `tidu.x` that is not the name of an attribute.

    MLIR rejects such a text without a message. Returns None if there is no such word.
    """
    if match := _DIALECT_OP.search(source):
        return f'{match[1]} must be written in generic form: "{match[1]}"(...)', match.start(1)
    if match := _DIALECT_WORD.search(source):
        return f"{match[1]} is neither an op nor the name of an attribute here", match.start(1)
    return None


_ELSEWHERE = {
    "mhlo": "convert it to StableHLO first: mlir-hlo-opt --hlo-legalize-to-stablehlo, of XLA",
    "torch": "convert it to StableHLO first: torch-mlir-opt --torch-backend-to-stablehlo-backend-pipeline",
    "onnx": "give the .onnx file itself: 'tiduc import' converts it",
}


_OP_ELSEWHERE = re.compile(rf"""(?:^|[\s"])({"|".join(_ELSEWHERE)})\.\w""", re.MULTILINE)


def of_another_compiler(source: str) -> str | None:
    """Advice for a text that holds ops of another compiler's dialect; None for other texts."""
    match = _OP_ELSEWHERE.search(source)
    return f"the program is in the dialect {match[1]}: {_ELSEWHERE[match[1]]}" if match else None


def of_python(source: str) -> str | None:
    """Advice for a text that is the source of a Python module; None for other texts."""
    lines = (line for line in source.splitlines() if line.strip() and not line.startswith("#"))
    if next(lines, "").startswith(("import ", "from ", "def ", '"""')):
        return "Python source: export its function first, by jax.export or torch.export, for 'tiduc import'"
    return None


def oversized(source: str) -> tuple[str, int] | None:
    """Returns a message and an offset if a dimension number is so large that the parser would exhaust memory.

    In the dimension numbers of a convolution, such as `[b, 0, f]x[0, i, o]->[b, 0, f]`, the largest number determines
    how many dimensions the parser allocates. Returns None if no number is so large.
    """
    at = source.find("]x[")
    while at >= 0:
        rest = _REST.match(source, at + 3)
        named = source[source.rfind("[", 0, at) : at] + (" ".join(rest.groups()) if rest else "")
        if huge := re.search(r"\d{4,}", named):
            return f"no tensor can have the dimension {huge[0]}", at
        at = source.find("]x[", at + 3)
    return None
