"""Resources in MLIR text: constants whose bytes are apart from the ops, and which not every reader takes."""

import re

_NAME = r'("(?:[^"\\]|\\.)*"|[^\s:<>"]+)'
_USE = re.compile(rf"dense_resource<{_NAME}>")
_BYTES = re.compile(rf'^\s*{_NAME}: "0x([0-9A-Fa-f]*)"', re.MULTILINE)
_SECTION = "\n{-#"
_ALIGNMENT = 8  # digits that say the alignment, before those of the elements


def inlined(text: str) -> str:
    """The text of a module with the elements of its resources where these are used; any other text as it is.

    The interpreter computes with other numbers than a resource holds, and XLA refuses it; both take these.
    """
    body, found, section = text.partition(_SECTION)
    if not found or _USE.search(body) is None:
        return text
    digits = {name: elements[_ALIGNMENT:] for name, elements in _BYTES.findall(section)}

    def elements_of(use: re.Match[str]) -> str:
        return f'dense<"0x{digits[use[1]]}">' if use[1] in digits else use[0]

    return _USE.sub(elements_of, body) + "\n"
