"""Ops with contradictory types or attributes are refused with their location, and all emitted ops are verified."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch_mlir import ir

import tiduc
from tiduc.backends.iree.emit.emitter import CALLS
from tiduc.dialect.errors import InvalidIR, ParseError
from tiduc.dialect.facts.lapack import BY_TARGET, Routine
from tiduc.dialect.facts.signatures import Shape, positions
from tiduc.dialect.graph.functions import within
from tiduc.dialect.mlir.context import context, parse
from tiduc.passes.importing.constraints import check_constraints

SIZES = {"m": 4, "n": 3, "k": 3, "u": 3, "v": 3, "r": 2, "s": 2, "n-1": 2, "p": 4, "q": 5}
BATCH = "2x"


# ---- one table of calls ------------------------------------------------------------------------------------


def settings(routine: Routine) -> dict[str, str]:
    """Attributes for a call of the routine that computes vectors and multiplies from the left."""
    letters = {
        name: f"{ord('L' if name == 'side' else among[-1])} : ui8" for name, among in routine.letters.items()
    }
    return {**letters, "compute_uv": "true"}


def written(routine: Routine) -> tuple[list[str], list[str]]:
    """The types of operands and results of a valid call of the routine's last target, for a batch of matrices."""
    target = routine.targets[-1]
    real = (
        {"s": "f32", "d": "f64", "c": "f32"}.get(target[7], "f64") if target.startswith("lapack_") else "f64"
    )
    is_complex = target.startswith(("lapack_c", "lapack_z")) or target.endswith("_comp")
    elements = {
        "R": real,
        "C": f"complex<{real}>",
        "T": f"complex<{real}>" if is_complex else real,
        "E": "f32",
    }
    signature = routine.signature
    operands, results = positions(
        signature if isinstance(signature, str) else signature({"compute_uv": True})
    )

    def type_(shape: Shape) -> str:
        sizes = "".join(f"{SIZES[name]}x" for name in shape.sizes or ())
        return f"tensor<{BATCH}{sizes}{elements.get(shape.element, shape.element)}>"

    return [type_(one) for one, *_ in operands], [type_(one) for one, *_ in results]


def call(target: str, given: dict[str, str], operands: list[str], results: list[str]) -> str:
    arguments = ", ".join(f"%x{i}: {t}" for i, t in enumerate(operands))
    config = ", ".join(f"{name} = {value}" for name, value in given.items())
    names = ", ".join(f"%x{i}" for i in range(len(operands)))
    return f"""
    func.func @main({arguments}) {{
      %y:{len(results)} = "stablehlo.custom_call"({names}) {{
        call_target_name = "{target}", api_version = 4 : i32, backend_config = {{{config}}}
      }} : ({", ".join(operands)}) -> ({", ".join(results)})
      return
    }}"""


FREE = {"hipsolver_ormqr_ffi": "q", "hip_lu_pivots_to_permutation": "m", "mhlo.topk": "n"}
"""For each target, the name of the size that a call may choose freely, because no other size determines it."""


def contradictions(types: list[str], free: int) -> Iterator[tuple[int, str]]:
    """Yields pairs of an index in `types` and a wrong type for it: with another size, element type or rank.

    Does not change sizes equal to `free`, because any value of these sizes is valid.
    """
    for i, type_ in enumerate(types):
        *sizes, element = re.fullmatch(r"tensor<(.*)>", type_)[1].split(
            "x", type_.count("x") - ("complex" in type_)
        )  # type: ignore[index]
        for d in range(len(sizes)):
            if sizes[d] == str(free):
                continue
            yield i, f"tensor<{'x'.join([*sizes[:d], '4294967296', *sizes[d + 1 :], element])}>"
        yield i, f"tensor<{'x'.join([*sizes, 'i8'])}>"
        yield i, f"tensor<{'x'.join(['1', *sizes, element])}>"


ROUTINES = {routine.targets[-1]: routine for routine in BY_TARGET.values()}


@pytest.mark.parametrize("target", ROUTINES)
def test_every_type_of_every_call_is_checked(target: str) -> None:
    routine, given, free = ROUTINES[target], settings(ROUTINES[target]), SIZES.get(FREE.get(target, ""), 0)
    types = written(routine)
    check(call(target, given, *types))
    for which in range(2):
        for i, changed in contradictions(types[which], free):
            both = [list(some) for some in types]
            both[which][i] = changed
            refused(target, call(target, given, *both))
    for name in routine.letters:
        refused(target, call(target, {**given, name: "63 : ui8"}, *types))
    refused(target, call(target, given, types[0], [*types[1], "tensor<i32>"]))
    refused(target, call(target, given, [*types[0], "tensor<i32>"], types[1]))


def refused(target: str, text: str) -> None:
    parse(text)  # MLIR accepts this call
    with pytest.raises(ParseError, match=rf"^-:3:\d+: error: inconsistent call of @{target}: "):
        check(text)


def test_reflections_of_a_matrix_with_fewer_columns() -> None:
    """A call of ormqr is refused if its matrices contradict the attribute `left`, even if each type is possible."""
    a, tau, c = "tensor<4x3xf64>", "tensor<3xf64>", "tensor<4x1xf64>"
    check(call("lapack_dormqr_ffi", {"left": "true"}, [a, tau, c], [c]))
    refused("lapack_dormqr_ffi", call("lapack_dormqr_ffi", {"left": "false"}, [a, tau, c], [c]))


def check(text: str) -> None:
    with context(), ir.Location.unknown():
        module = parse(text)  # the variable keeps the module alive; its ops do not
        check_constraints(within(module.operation))


def test_the_table_has_every_call_that_passes_support() -> None:
    named = ("lapack_", "cusolver_", "hipsolver_", "cuhybrid_", "hiphybrid_")
    known = {t for t in tiduc.OPSET.called("stablehlo.custom_call") if t.startswith(named)}
    assert known | set(CALLS) <= set(BY_TARGET)


# ---- constraints that MLIR's verifier does not check -------------------------------------------------------

FFT = '"stablehlo.fft"(%x) <{{fft_type = #stablehlo<fft_type {0}>, fft_length = array<i64: {1}>}}> : ({2}) -> {3}'
C8, F8, F5 = "tensor<2x8xcomplex<f64>>", "tensor<2x8xf64>", "tensor<2x5xcomplex<f64>>"
VIOLATIONS = {
    "an fft longer than its dimension": (
        C8,
        FFT.format("FFT", 16, C8, C8),
        "'stablehlo.fft' op has the operand",
    ),
    "an ifft shorter than its dimension": (
        C8,
        FFT.format("IFFT", 4, C8, C8),
        "'stablehlo.fft' op has the operand",
    ),
    "svd": (
        "tensor<3x3xf64>",
        "stablehlo.custom_call @lapack_dgesdd_ffi(%x) {mhlo.backend_config = {mode = 83 : ui8}} : "
        "(tensor<3x3xf64>) -> "
        "(tensor<3x3xf64>, tensor<3xf64>, tensor<4294967296x3xf64>, tensor<3x3xf64>, tensor<i32>)",
        "result 2 is tensor<4294967296x3xf64>, where tensor<3x3xf64> is expected",
    ),
    "qr": (
        "tensor<4x3xf32>",
        "stablehlo.custom_call @Qr(%x) : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xi32>)",
        "result 1 is tensor<3xi32>, where tensor<3xf32> is expected",
    ),
    "eig": (
        "tensor<3x3xcomplex<f64>>",
        "stablehlo.custom_call @lapack_zgeev_ffi(%x) {mhlo.backend_config = {}} : (tensor<3x3xcomplex<f64>>) "
        "-> "
        "(tensor<3xcomplex<f64>>, tensor<64x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)",
        "result 1 is tensor<64x3xcomplex<f64>>, where tensor<3x3xcomplex<f64>> is expected",
    ),
    "a broadcast of two sizes": (
        "tensor<2xf64>",
        "chlo.broadcast_add %x, %w : (tensor<2xf64>, tensor<3xf64>) -> tensor<3xf64>",
        "cannot broadcast tensor<2xf64>, tensor<3xf64> to tensor<3xf64>",
    ),
    "a selection of other elements": (
        "tensor<2xf64>",
        "chlo.broadcast_select %c, %x, %x : (tensor<i1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf32>",
        "selects elements of tensor<2xf64> and tensor<2xf64>, but gives tensor<2xf32>",
    ),
    "a slice of another rank": (
        "tensor<4xf64>",
        "stablehlo.real_dynamic_slice %x, %i, %i, %i : (tensor<4xf64>, tensor<1xi64>, tensor<1xi64>, "
        "tensor<1xi64>) -> "
        "tensor<?x1xf64>",
        "slices tensor<4xf64> to tensor<?x1xf64>",
    ),
    "a convolution of other features": (
        "tensor<2x5x3xf64>",
        '"stablehlo.dynamic_conv"(%x, %k, %p) {dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, '
        "batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<2x5x3xf64>, tensor<2x3x4xf64>, tensor<1x2xi64>) -> tensor<2x?x5xf64>",
        "has batching or feature dimensions that do not fit: [2, 5, 3], [2, 3, 4] and [2,",
    ),
    "a shape of another rank": (
        "tensor<f64>",
        "stablehlo.dynamic_broadcast_in_dim %x, %e, dims = [] : (tensor<f64>, tensor<0xi64>) -> "
        "tensor<?xf64>",
        "has the shape operand tensor<0xi64> for tensor<?xf64>",
    ),
    "a selection of other sizes": (
        "tensor<4xf64>",
        '"stablehlo.torch_index_select"(%x, %i) {dim = 0 : i64, batch_dims = 0 : i64} : '
        "(tensor<4xf64>, tensor<1xi64>) -> tensor<2xf64>",
        "selects [1] elements from tensor<4xf64>, but gives tensor<2xf64>",
    ),
    "a sharding of another type": (
        "tensor<4xf64>",
        "stablehlo.custom_call @Sharding(%x) : (tensor<4xf64>) -> tensor<2xf64>",
        "@Sharding returns a type other than its operand's",
    ),
    "a part of an array on devices that are not named": (
        "tensor<4xf64>",
        "stablehlo.custom_call @shardy.to_parts(%x) : (tensor<4xf64>) -> tensor<2xf64>",
        "@shardy.to_parts requires attribute 'sharding'",
    ),
    "a narrower sum": (
        "tensor<4xf64>",
        '"stablehlo.reduce_window"(%x, %s) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): '
        "%r = stablehlo.add %a, %b : tensor<f32> stablehlo.return %r : tensor<f32> }) "
        "{window_dimensions = array<i64: 4>} : (tensor<4xf64>, tensor<f64>) -> tensor<1xf32>",
        "combines elements of tensor<4xf64>, but gives tensor<1xf32>",
    ),
    "global ids without a channel": (
        "tensor<4xf64>",
        '"stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, use_global_device_ids, '
        "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf64>) -> tensor<8xf64>",
        "channel_id must be positive",
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_violations(name: str) -> None:
    type_, op, message = VIOLATIONS[name]
    results = op.count("tensor<", op.rindex("->"))
    others = "%c: tensor<i1>, %e: tensor<0xi64>, %i: tensor<1xi64>, %s: tensor<f64>, %w: tensor<3xf64>, "
    others += "%k: tensor<2x3x4xf64>, %p: tensor<1x2xi64>"
    text = f"""func.func @main(%x: {type_}, {others}) -> {type_} {{
      %y:{results} = {op}
      return %x : {type_}
    }}"""
    with pytest.raises(ParseError) as raised:
        tiduc.load(text)
    assert str(raised.value).startswith("-:2:") and message in str(raised.value)


def test_an_einsum_of_other_sizes() -> None:
    """An einsum with a wrong result type is refused by tiduc, although MLIR accepts it."""
    text = """func.func @main(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>) -> tensor<4x1xf64> {
      %0 = "stablehlo.einsum"(%x, %y) {einsum_config = "ij,jk->ik"}
        : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<4x1xf64>
      return %0 : tensor<4x1xf64>
    }"""
    with pytest.raises(tiduc.Unsupported, match="-:2:12: .*not a plain sum of products"):
        tiduc.load(text).jvp()


def test_no_strides_are_strides_of_one() -> None:
    """The JVP of `reduce_window` treats an empty list of strides as strides of 1, as MLIR does."""
    text = """func.func @main(%x: tensor<4xf64>, %s: tensor<f64>) -> tensor<1xf64> {
      %0 = "stablehlo.reduce_window"(%x, %s) ({
      ^bb0(%a: tensor<f64>, %b: tensor<f64>):
        %r = stablehlo.multiply %a, %b : tensor<f64>
        stablehlo.return %r : tensor<f64>
      }) {window_dimensions = array<i64: 4>, window_strides = array<i64>}
        : (tensor<4xf64>, tensor<f64>) -> tensor<1xf64>
      return %0 : tensor<1xf64>
    }"""
    ones = text.replace("array<i64>}", "array<i64: 1>}")
    assert tiduc.load(text).jvp().text.count("multiply") == tiduc.load(ones).jvp().text.count("multiply")


# ---- what rules emit ---------------------------------------------------------------------------------------

PROGRAM = """func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.tanh %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
"""


def wrong(b: Any, x: Any, y: Any) -> Any:
    return b.emit(
        "stablehlo.add", (x, b.constant(1, ir.RankedTensorType.get([2], x.type.element_type))), x.type
    )


def test_invalid_ir_of_a_rule_is_an_error_at_its_op() -> None:
    mine = tiduc.OPSET.extended()
    mine.elementwise("stablehlo.tanh", wrong)
    p = tiduc.load(PROGRAM, opset=mine).jvp()
    with pytest.raises(
        InvalidIR, match=r"^-:2:8: error: tiduc made invalid IR; please report it, .*'stablehlo.add' op"
    ):
        _ = p.text


def test_a_command_writes_nothing_that_is_not_valid(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("""
from typing import Any
import tiduc
from torch_mlir import ir

def wrong(b, x, y):
    return b.emit("stablehlo.add", (x, b.constant(1, ir.RankedTensorType.get([2], x.type.element_type))), x.type)

OPSET = tiduc.OPSET.extended()
OPSET.elementwise("stablehlo.tanh", wrong)
""")
    source, output = tmp_path / "f.mlir", tmp_path / "g.mlir"
    source.write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "tiduc",
        "jvp",
        str(source),
        "--rules",
        str(tmp_path / "mine.py"),
        "-o",
        str(output),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and not done.stdout and not output.exists()
    assert f"{source}:2:8: error: tiduc made invalid IR" in done.stderr and "Traceback" not in done.stderr


def test_every_kind_of_file_is_verified_first() -> None:
    from tiduc.dialect.mlir.emit import EMITTERS, emit

    with context(), ir.Location.unknown():
        module = parse(PROGRAM)
        next(iter(module.body.operations)).regions[0].blocks[0].operations[0].results[0].set_type(
            ir.Type.parse("tensor<2xf64>")
        )
        for kind in EMITTERS:
            with pytest.raises(InvalidIR, match="-:2:8: error: tiduc made invalid IR"):
                emit(module, kind)
