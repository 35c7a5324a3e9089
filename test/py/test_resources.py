"""The data of a resource must have as many bytes as the resource's type needs, wherever a module is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_mlir import ir

import tiduc
from tiduc.cli import run
from tiduc.dialect.errors import ParseError
from tiduc.dialect.mlir.constants import constants_in
from tiduc.dialect.mlir.context import context
from tiduc.dialect.mlir.resources import check_resources, contents_of

ONE = "0000803F"
LOCATED = ":2:8: error: a resource of type tensor<{}> needs {} bytes, and the file has {}"


def program(type_: str, digits: str | None, attributes: str = "") -> str:
    """The text of a function that returns a resource with these hexadecimal digits.

    If `digits` is None, the resource is not defined.
    """
    resource = "" if digits is None else f'r: "0x04000000{digits}"'
    return f"""func.func @main() -> (tensor<{type_}>) {attributes} {{
  %c = stablehlo.constant dense_resource<r> : tensor<{type_}>
  return %c : tensor<{type_}>
}}
{{-# dialect_resources: {{ builtin: {{ {resource} }} }} #-}}
"""


WRONG = [
    ("4xf32", None, 16, "none"),
    ("5000xf32", 3 * ONE, 20000, "12"),
    ("2xf32", 3 * ONE, 8, "12"),
    ("f64", ONE, 8, "4"),
    ("1xcomplex<f32>", ONE, 8, "4"),
    ("16xi1", "AAAA", 16, "2"),  # a boolean takes one byte
    ("2xi4", "21", 2, "1"),
]


@pytest.mark.parametrize(("type_", "digits", "needs", "has"), WRONG)
def test_text_with_other_bytes_is_refused(type_: str, digits: str | None, needs: int, has: str) -> None:
    with pytest.raises(ParseError) as error:
        tiduc.load(program(type_, digits))
    assert str(error.value) == "-" + LOCATED.format(type_, needs, has)


RIGHT = [("3xf32", 3 * ONE), ("1xcomplex<f32>", 2 * ONE), ("3xi1", "010001"), ("2xui8", "0102")]


@pytest.mark.parametrize(("type_", "digits"), RIGHT)
def test_equal_bytes_are_read_again_and_again(type_: str, digits: str) -> None:
    for _ in range(2):  # MLIR renames the resource the second time, because the name is in use
        values = tiduc.load(program(type_, digits)).compile(engine="reference")()[0]
    np.testing.assert_array_equal(
        values.view(np.uint8).ravel(), np.frombuffer(bytes.fromhex(digits), np.uint8)
    )


def unchecked_bytecode(text: str) -> bytes:
    """The bytecode of a module. MLIR writes it without checking the sizes of resources."""
    written = Written()
    with context(), ir.Location.unknown():
        ir.Module.parse(text).operation.write_bytecode(written)
    return b"".join(written.chunks)


class Written:
    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self.chunks.append(chunk)


@pytest.mark.parametrize(("type_", "digits", "needs", "has"), WRONG[:2])
def test_bytecode_with_other_bytes_is_refused(type_: str, digits: str | None, needs: int, has: str) -> None:
    with pytest.raises(ParseError, match=f"needs {needs} bytes, and the file has {has}"):
        tiduc.load(unchecked_bytecode(program(type_, digits)))


def test_bytecode_with_a_large_resource_is_read() -> None:
    text = program("1000000xf32", 1000000 * ONE)
    assert tiduc.load(unchecked_bytecode(text)).text.count("dense_resource") == 1


def test_resources_inside_other_attributes_are_compared() -> None:
    attributes = "attributes {mine = [{w = dense_resource<r> : tensor<7xf32>}]}"
    with pytest.raises(ParseError, match="needs 28 bytes, and the file has 4"):
        tiduc.load(program("1xf32", ONE, attributes))


def test_modules_without_resources_are_not_searched() -> None:
    class Untouched:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    check_resources(Untouched(), "func.func @main() { return }")
    check_resources(Untouched(), unchecked_bytecode("func.func @main() { return }"))


READERS: list[Callable[[str, str], list[str]]] = [
    lambda file, out: ["run", file],
    lambda file, out: ["compile", file, "-o", out],
    lambda file, out: ["opt", file],
    lambda file, out: ["link", file, file, "-o", out],
    lambda file, out: ["import", file, "-o", out],
    lambda file, out: ["explain", file],
]


@pytest.mark.parametrize("arguments", READERS, ids=lambda a: " ".join(a("", "")[:2]))
def test_every_command_refuses_the_file(
    arguments: Callable[[str, str], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "short.mlir"
    file.write_text(program("5000xf32", 3 * ONE))
    assert run(arguments(str(file), str(tmp_path / "out"))) == 1
    assert f"{file}{LOCATED.format('5000xf32', 20000, 12)}" in capfd.readouterr().err


STORED = {"ui8": 1, "ui16": 2, "ui32": 4, "ui64": 8, "f8E5M2": 1, "complex<f64>": 16, "i1": 1, "bf16": 2}


@pytest.mark.more
@pytest.mark.parametrize("fast", [True, False])
def test_constants_that_are_stored_apart_compile(fast: bool) -> None:
    """Large constants that are stored as resources compile for all element types in STORED.

    IREE cannot read resources of unsigned integers, of which ImageGPT has 1 MiB, and reads complex f64 only as real and
    imaginary parts.
    """
    count, results, resources, body = 5000, list[str](), list[str](), list[str]()
    numbers = np.random.default_rng(0).integers(0, 2, count * 16).astype(np.uint8)
    for i, (element, width) in enumerate(STORED.items()):
        type_ = f"tensor<{count}x{element}>"
        resources.append(f'r{i}: "0x{width:02x}000000{numbers[: count * width].tobytes().hex()}"')
        body.append(f"  %{i} = stablehlo.constant dense_resource<r{i}> : {type_}")
        results.append(type_)
    values = ", ".join(f"%{i}" for i in range(len(STORED)))
    text = f"""func.func @main() -> ({", ".join(results)}) {{
{chr(10).join(body)}
  return {values} : {", ".join(results)}
}}
{{-# dialect_resources: {{ builtin: {{ {", ".join(resources)} }} }} #-}}
"""
    found = tiduc.load(text).compile(fast=fast)()
    for y, width in zip(found, STORED.values(), strict=True):
        assert y.tobytes() == numbers[: count * width].tobytes(), y.dtype


@pytest.mark.parametrize(("element", "byte"), [("i4", "i8"), ("ui2", "ui8")])
def test_elements_of_less_than_a_byte_are_refused(element: str, byte: str) -> None:
    """Constants with elements of less than a byte are refused with a message of tiduc, because IREE's code does not
    load such constants.
    """
    with pytest.raises(
        tiduc.TiducError, match=f"cannot load constants of {element}; use a constant of {byte}"
    ):
        tiduc.load(program(f"4x{element}", "00010203")).compile()


def test_the_bytes_of_a_resource() -> None:
    with context():
        for type_, digits in RIGHT:
            (op,) = constants_in(ir.Module.parse(program(type_, digits)).operation)
            assert contents_of(op.attributes["value"]).hex().upper() == digits
