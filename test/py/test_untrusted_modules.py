"""Untrusted compiled modules: false signatures, damage that checksums do not detect, and isolation."""

import json
import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from cases.damaged_modules import outcome, parts, rewritten, without_code

import tiduc.runtime
from tiduc.backends.iree.compile import compile_module
from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.loading import load
from tiduc.runtime.process import Limits
from tiduc.runtime.run import Executable, run_module
from tiduc.runtime.signature import check_declared, from_declaration, from_reflection
from tiduc.runtime.worker import Died, in_worker

PROGRAM = """
func.func @main(%x: tensor<?xf32>, %w: tensor<4xf32>) -> (tensor<?xf32>, tensor<4xf32>) {
  %y = stablehlo.sine %x : tensor<?xf32>
  %z = stablehlo.multiply %w, %w : tensor<4xf32>
  return %y, %z : tensor<?xf32>, tensor<4xf32>
}
"""
TRUE: dict[str, Any] = {
    "inputs": [["x", "?xf32"], ["w", "4xf32"]],
    "outputs": [["y", "?xf32"], ["z", "4xf32"]],
}
DECLARED = (
    "sync func @main(%input0: tensor<?xf32>, %input1: tensor<4xf32>)"
    " -> (%output0: tensor<?xf32>, %output1: tensor<4xf32>)"
)


@pytest.fixture(scope="module")
def vmfb() -> bytes:
    return load(PROGRAM).compile().vmfb


def saying(signature: str) -> str:
    """The text of `PROGRAM` with `signature` as its stored signature."""
    escaped = signature.replace("\\", "\\5C").replace('"', "\\22")
    said = f'attributes {{iree.reflection = {{"tiduc.signature" = "{escaped}"}}}} {{'
    return PROGRAM.replace("{", said, 1)


@pytest.mark.parametrize(
    "other, words",
    [
        (
            {"inputs": [["x", "?xf32"], ["w", "1000000xf32"]]},
            "has w: 1000000xf32, but the declaration has 4xf32",
        ),
        ({"inputs": [["x", "?xf32"], ["w", "4xi8"]]}, "has w: 4xi8, but the declaration has 4xf32"),
        ({"inputs": [["x", "?xf32"], ["w", "?xf32"]]}, "the signature has w: \\?xf32"),
        ({"inputs": [["x", "?xf32"]]}, "has 1 inputs, but the declaration has 2"),
        ({"outputs": [["y", "?xf32"], ["z", "4xf64"]]}, "the signature has z: 4xf64"),
        ({"outputs": []}, "has 0 outputs, but the declaration has 2"),
        ({"sizes": [[7, 0, 0, []]]}, "malformed"),
        ({"sizes": [[0, 3, 0, []]]}, "malformed"),
        ({"sizes": [[0, 0, 0, [[1, 9, 0]]]]}, "malformed"),
        ({"sizes": [[0, 0, "a", [[1, 1, 0]]]]}, "malformed"),
        ({"sizes": [["a", 0, 0, []]]}, "malformed"),
    ],
)
def test_signatures_that_contradict_the_module(other: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_declared(from_reflection(json.dumps({**TRUE, **other})), DECLARED)


def test_a_module_with_a_false_signature_is_not_run() -> None:
    check_declared(from_reflection(json.dumps(TRUE)), DECLARED)
    true = compile_module(saying(json.dumps(TRUE)))
    assert [y.shape for y in run_module(true, [np.zeros(3, np.float32), np.zeros(4, np.float32)])] == [
        (3,),
        (4,),
    ]
    lie = {**TRUE, "inputs": [["x", "?xf32"], ["w", "9xf32"]]}
    with pytest.raises(
        TiducError, match="f.vmfb: error: .*: the signature has w: 9xf32, but the declaration has 4xf32"
    ):
        Executable(compile_module(saying(json.dumps(lie))), name="f.vmfb")
    with pytest.raises(ValueError, match="malformed"):
        from_reflection("[" * 100_000)


def test_names_of_arguments_are_not_read_as_declarations() -> None:
    name = ") -> (%output0: tensor<9xf32>), %input7: tensor<1xi8> {iree.abi.output = 3 : index}"
    text = PROGRAM.replace("%x: tensor<?xf32>", f'%x: tensor<?xf32> {{tidu.name = "{name}"}}')
    main = load(text).compile()
    assert main.signature.inputs[0].name == name and main.donated == ()
    named = DECLARED.replace("tensor<4xf32>)", 'tensor<4xf32> {tidu.name = "%x: tensor<2xi8>) -> ("})')
    assert from_declaration(named) == from_declaration(DECLARED)


def test_damage_that_checksums_do_not_show(vmfb: bytes) -> None:
    """If bytes in IREE's part of a module are changed, a call in a worker gives a result, an error, or the end of the
    worker.

    The caller survives in each case.
    """
    generator = random.Random(0)
    part, start = next(parts(vmfb))
    outcomes: Counter[str] = Counter()
    for _ in range(150):
        at = generator.randrange(start, start + part.file_size - 4)
        new = generator.choice(
            [bytes([vmfb[at] ^ 1 << generator.randrange(8)]), b"\xff", b"\xff\xff\xff\x7f"]
        )
        try:
            outcomes[in_worker(outcome, Limits(5, 4096), rewritten(vmfb, at, new))] += 1
        except Died:
            outcomes["died"] += 1
    assert outcomes["answer"] > 10 and outcomes["error"] > 10 and sum(outcomes.values()) == 150


def test_machine_code_that_crashes_ends_its_own_process(vmfb: bytes) -> None:
    damaged = without_code(vmfb)
    assert damaged != vmfb
    with pytest.raises(TiducError, match=r"error: the process that runs the module died \(SIG\w+\)$"):
        tiduc.runtime.load(damaged, isolated=True)


def test_isolated_modules(vmfb: bytes, tmp_path: Any) -> None:
    (tmp_path / "f.vmfb").write_bytes(vmfb)
    x, w = np.array([0.5, 1, 2], np.float32), np.arange(4, dtype=np.float32)
    with tiduc.runtime.load(tmp_path / "f.vmfb", isolated=True) as module:
        main = module["main"]
        for ours, theirs in zip(main(x, w), run_module(vmfb, [x, w]), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert list(module) == ["main"] and "main(x: ?xf32, w: 4xf32)" in repr(module) + repr(main)
        assert main.donated == () and main.signature == Executable(vmfb).signature
        with pytest.raises(InputError, match=r"argument 1 \(w\): expected 4xf32, got 3xf32"):
            main(x, x)
        with pytest.raises(RequestError, match="no function 'f' in the module; it has: main"):
            module["f"]
        with pytest.raises(
            TiducError, match=r"f\.vmfb: error: the process that runs the module died \(SIGABRT\)"
        ):
            module.call(os.abort)
        with pytest.raises(RequestError, match="the module is closed, or its process has died"):
            main(x, w)


def test_an_isolated_module_has_limits_of_time(vmfb: bytes) -> None:
    endless = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %y = stablehlo.while(%z = %x) : tensor<i32>
        cond {
          %c = stablehlo.compare EQ, %z, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }
        do { %n = stablehlo.add %z, %z : tensor<i32> stablehlo.return %n : tensor<i32> }
      return %y : tensor<i32>
    }"""
    module = compile_module(endless)
    with (
        tiduc.runtime.load(module, isolated=True, limits=Limits(2, 4096)) as isolated,
        pytest.raises(TiducError, match="the process that runs the module took longer than 2 seconds"),
    ):
        isolated["main"](np.array(1, np.int32))
