"""What a file is that holds no MLIR, for the error that says so."""

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
