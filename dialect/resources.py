"""Resources in MLIR text: constants whose bytes are stored apart from the ops. Not every reader supports them."""

import re

_NAME = r'("(?:[^"\\]|\\.)*"|[^\s:<>"]+)'
_USE = re.compile(rf"dense_resource<{_NAME}>")
_BYTES = re.compile(rf'^\s*{_NAME}: "0x([0-9A-Fa-f]*)"', re.MULTILINE)
_SECTION = "\n{-#"
_ALIGNMENT = 8  # hex digits of the alignment, in front of the elements


def inlined(text: str) -> str:
    """The text of a module with its resources inlined as `dense` elements; a text without resources is unchanged.

    StableHLO's interpreter reads wrong numbers from a resource, and XLA rejects resources; both read `dense` elements.
    """
    body, separator, section = text.partition(_SECTION)
    if not separator or _USE.search(body) is None:
        return text
    digits = {name: elements[_ALIGNMENT:] for name, elements in _BYTES.findall(section)}

    def elements_of(use: re.Match[str]) -> str:
        return f'dense<"0x{digits[use[1]]}">' if use[1] in digits else use[0]

    return _USE.sub(elements_of, body) + "\n"
