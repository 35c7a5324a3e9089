"""Sizes that a program requires to be equal or bounded. Both the caller and the compiled module check them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.guarded_programs import CASES, V, a, branch, loop, n
from harness.processes import command
from harness.sources import source_of
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module, compile_until
from tiduc.dialect.dynamic.required import is_understood
from tiduc.dialect.errors import InputError, Unsupported
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.modules import load
from tiduc.runtime.required_sizes import RequiredSize
from tiduc.runtime.run import Executable
from tiduc.runtime.signature import Signature, SignatureValue, TensorType, from_reflection, reflection

ROOT = Path(__file__).parents[2]
ADD = CASES["two inputs"][0]


def function(arguments: str, body: str, result: str = V) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}"


def required(text: str) -> list[str]:
    """The requirements that are violated if all dimensions of the first input have size 5, those of the second have
    size 6, and so on.
    """
    signature = tiduc.load(text).signature
    shapes = [(5 + i,) * len(value.type.shape) for i, value in enumerate(signature.inputs)]
    names = [value.name for value in signature.inputs]
    return [each.violation(names, shapes).partition(":")[0] for each in signature.required]


def test_command_line(tmp_path: Path) -> None:
    """`tiduc run` reports a violated requirement and its line, for a program and for a compiled module."""
    source, module = tmp_path / "oob.mlir", tmp_path / "oob.vmfb"
    source.write_text(ADD)
    tiduc.load(source).compile().save(module)
    for path in (source, module):
        arguments = [str(path), "--input", "2000000xf32=0", "--input", "1xf32=1"]
        told = command(tmp_path, "run", *arguments)
        assert told.returncode == 1
        assert "dimension 0 of x is 2000000, dimension 0 of y is 1, must be equal" in told.stderr
        assert "oob.mlir:2:6" in told.stderr
        assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        (
            CASES["two matrices"][0],
            [
                "dimension 0 of x is 5, dimension 0 of y is 6, must be equal",
                "dimension 1 of x is 5, dimension 1 of y is 6, must be equal",
            ],
        ),
        (CASES["static beside dynamic"][0], ["dimension 0 of x is 5, must be 8"]),
        (
            f"func.func private @same(%x: {V}) -> {V} {{ return %x : {V} }}\n"
            + function(
                f"%x: {V}, %y: {V}",
                f'%0 = stablehlo.composite "tidu.stop_gradient" %x {{decomposition = @same}} : ({V}) -> {V}\n'
                f"%1 = stablehlo.add %0, %y : {V}\nreturn %1 : {V}",
            ),
            ["dimension 0 of x is 5, dimension 0 of y is 6, must be equal"],
        ),
        (
            function(
                f"%x: {V}, %y: {V}, %z: {V}",
                f"%0 = stablehlo.concatenate %x, %x, %y, dim = 0 : ({V}, {V}, {V}) -> {V}\n"
                f"%1 = stablehlo.add %0, %z : {V}\nreturn %1 : {V}",
            ),
            ["2 * x[0] + y[0] is 16, dimension 0 of z is 7, must be equal"],
        ),
        (
            function(
                "%x: tensor<?x?xf32>, %y: tensor<?x?xf32>",
                "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] "
                ": (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<4x4xf32>\nreturn %0 : tensor<4x4xf32>",
                "tensor<4x4xf32>",
            ),
            [
                "dimension 0 of x is 5, must be 4",
                "dimension 1 of y is 6, must be 4",
                "dimension 1 of x is 5, dimension 0 of y is 6, must be equal",
            ],
        ),
        (
            function(
                f"%x: {V}",
                f"%0 = stablehlo.slice %x [1:9] : ({V}) -> tensor<8xf32>\nreturn %0 : tensor<8xf32>",
                "tensor<8xf32>",
            ),
            ["dimension 0 of x is 5, must be at least 9"],
        ),
        (
            function(
                f"%x: {V}, %y: {V}",
                f"%0 = chlo.broadcast_add %x, %y : ({V}, {V}) -> {V}\nreturn %0 : {V}",
            ),
            ["dimension 0 of x is 5, dimension 0 of y is 6, must be equal, or one of them must be 1"],
        ),
        (
            CASES["calls"][0],
            [
                "dimension 0 of x is 5, dimension 0 of y is 6, must be equal",
                "2 * x[0] is 10, dimension 0 of z is 7, must be equal",
            ],
        ),
        (loop(V, f"%w = stablehlo.tanh %z : {V}"), []),
        (CASES["loop"][0], []),  # no requirement, because the loop may have no iterations
    ],
)
def test_required_before_the_call(text: str, needs: list[str]) -> None:
    assert required(text) == needs


def test_sizes_that_follow_are_not_required_twice() -> None:
    """A chain of 50 additions with equal shapes requires only one comparison of sizes."""
    lines = [f"%{i + 1} = stablehlo.add %{i}, %y : {V}" for i in range(50)]
    text = function(
        f"%x: {V}, %y: {V}", "\n".join([f"%0 = stablehlo.add %x, %y : {V}", *lines, f"return %50 : {V}"])
    )
    assert len(required(text)) == 1
    # One assertion compares the sizes, the other one checks the largest dimension.
    assert source_of(tiduc.load(text)).stablehlo.count("cf.assert") == 2


def test_derivatives_require_the_sizes_of_their_primals() -> None:
    vjp = tiduc.load(ADD).vjp().compile()
    with pytest.raises(InputError, match="expected size 3 of dimension 0, given the shape of x, got 4"):
        vjp(a(3), a(3), a(4))
    with pytest.raises(InputError, match="dimension 0 of y is 4"):
        vjp(a(3), a(4), a(3))
    vjp(a(3), a(3), a(3))


def test_arrays_on_the_device() -> None:
    with load(tiduc.load(ADD).compile().vmfb) as module:
        with pytest.raises(InputError, match="dimension 0 of x is 3, dimension 0 of y is 1"):
            module["main"](module.put(a(3)), module.put(a(1)))


@stage
def asserting(text: str) -> bytes:
    """A compiled module without a signature. Therefore only the module's assertions check sizes."""
    module = parse(text)
    legalize_for_iree(module)
    return compile_module(stage(str)(module))


def test_assertions_of_the_module() -> None:
    """The assertions in a module fail for wrong sizes, also if the sizes depend on data, loops or branches.

    C programs have no other protection.
    """
    text = "\n".join(
        CASES[name][0].replace("@main", f"@{key}").replace("@f", f"@f_{key}")
        for key, name in (
            ("add", "two inputs"),
            ("loop", "loop"),
            ("data", "size in data"),
            ("calls", "calls"),
        )
    )
    text += branch(
        f"%0 = stablehlo.add %x, %y : {V}\nstablehlo.return %0 : {V}", f"stablehlo.return %x : {V}"
    )
    vmfb = asserting(text)
    run = {name: Executable(vmfb, entry=name) for name in ("add", "loop", "data", "calls", "main")}
    refused: list[tuple[str, list[NDArray[Any]], str]] = [
        (
            "add",
            [a(2_000_000), a(1)],
            "stablehlo.add at -:.* equal: dimension 0 of argument 0, and dimension 0 of arg",
        ),
        ("loop", [a(3), a(1), np.array(1, np.int32)], "stablehlo.add"),
        ("data", [a(3), n(10**9)], r"equal: dimension 0 of argument 0, and argument 1\[0\]"),
        ("data", [a(3), n(-1)], r"at most another: 0, and argument 1\[0\]"),
        ("calls", [a(3), a(3), a(5)], "2 \\* dimension 0 of argument 0, and dimension 0 of argument 2"),
        ("main", [a(3), a(1), np.array(True)], "stablehlo.add"),
    ]
    for name, arguments, told in refused:
        with pytest.raises(InputError, match=told):
            run[name](*arguments)
    for name, taken in (
        ("add", [a(3), a(3)]),
        ("loop", [a(3), a(1), np.array(0, np.int32)]),
        ("data", [a(3), n(3)]),
        ("calls", [a(3), a(3), a(6)]),
        ("main", [a(3), a(1), np.array(False)]),
    ):
        run[name](*taken)


SLICE = function(
    "%x: tensor<4xf32>, %start: tensor<1xi32>, %limit: tensor<1xi32>, %stride: tensor<1xi32>",
    """%0 = stablehlo.real_dynamic_slice %x, %start, %limit, %stride
      : (tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>""",
    "tensor<3xf32>",
)


@pytest.mark.parametrize("target", ["cpu", "vmvx"])
def test_places_of_slices_of_static_shape(target: str) -> None:
    """A slice of static shape whose start, limit and stride are data is refused if it has another size or exceeds the
    array.

    IREE alone would read outside the array.
    """
    call = tiduc.load(SLICE).compile(target)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(call(x, n(1), n(4), n(1))[0], x[1:])
    for places in ((5, 8, 1), (-1, 2, 1), (0, 3, 2), (0, 3, 0), (0, 9, 3), (0, 2, 1)):
        with pytest.raises(InputError, match="real_dynamic_slice at .* needs .* size"):
            call(x, *map(n, places))


def test_modules_for_cuda_check_places_before_they_read() -> None:
    """In modules for CUDA, the host checks the bounds of a slice before it sends the slice to the device."""
    source = source_of(tiduc.load(SLICE), target="cuda")
    assert isinstance(source.stablehlo, str)
    assert source.stablehlo.rindex("cf.assert") < source.stablehlo.index("stablehlo.real_dynamic_slice %")
    text = compile_until(source, "vm").decode()
    last = text.rindex("@hal.device.queue.execute(")
    assert text.rindex('"sizes: ') < last


def test_requirements_that_no_sizes_meet_are_refused() -> None:
    """Programs are refused if their requirements contradict each other, if an op has unknown requirements, or if
    branches return different sizes.
    """
    text = function(
        f"%x: {V}",
        f"%0 = stablehlo.concatenate %x, %x, dim = 0 : ({V}, {V}) -> {V}\n"
        f"%s = stablehlo.slice %x [0:2] : ({V}) -> tensor<2xf32>\n"
        f"%1 = stablehlo.concatenate %s, %s, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> {V}\n"
        f"%2 = stablehlo.add %1, %1 : ({V}, {V}) -> tensor<5xf32>\nreturn %2 : tensor<5xf32>",
        "tensor<5xf32>",
    )
    with pytest.raises(Unsupported, match="a size of 4 must be equal 5") as refused:
        source_of(tiduc.load(text))
    assert refused.value.location == "-:5:6"
    text = function(
        "%x: tensor<?x3xf32>",
        '%0 = "stablehlo.unary_einsum"(%x) {einsum_config = "ij->i"} : (tensor<?x3xf32>) -> tensor<?xf32>\n'
        f"return %0 : {V}",
    )
    with pytest.raises(Unsupported, match="its requirements on dynamic dimensions are not known") as refused:
        asserting(text)
    assert refused.value.location == "-:2:6"
    text = branch(f"stablehlo.return %x : {V}", f"stablehlo.return %y : {V}")
    with pytest.raises(Unsupported, match="sizes of its branches are not known to be equal"):
        asserting(text)  # IREE would use the size of one branch for the other


def test_ops_without_known_requirements() -> None:
    """Each op either has known requirements on sizes, or is listed here.

    Of the listed ops, those other than control flow are refused with dynamic dimensions.
    """
    listed = (ROOT / "test" / "py" / "cases" / "opset.txt").read_text().split("\n")
    names = {line for line in listed if line.startswith(("stablehlo.", "chlo."))}
    assert {name for name in names if not is_understood(name)} == set(
        "stablehlo.all_gather stablehlo.all_to_all stablehlo.async_done stablehlo.async_start "
        "stablehlo.case stablehlo.collective_broadcast stablehlo.collective_reduce stablehlo.composite "
        "stablehlo.cross-replica-sum stablehlo.custom_call stablehlo.einsum stablehlo.get_tuple_element stablehlo.if "
        "stablehlo.infeed stablehlo.outfeed stablehlo.recv stablehlo.reduce_scatter "
        "stablehlo.rng stablehlo.rng_bit_generator stablehlo.send stablehlo.torch_index_select "
        "stablehlo.tuple stablehlo.unary_einsum stablehlo.while chlo.ragged_dot chlo.scan".split()
    )


def test_signature_keeps_requirements() -> None:
    """The reflection of a module stores all requirements, including quotients and maxima."""
    size = ((2, ((0, 1), ("quotient", ((1, ((1, 0),)),), ((3, ()),)))), (-1, ()))
    required_ = RequiredSize("at_most", size, ((1, ((0, 0),)),), "stablehlo.slice at f.mlir:1:2")
    x = SignatureValue("x", TensorType((None, None), "f32"))
    signature = Signature((x, x), (), (), (required_,))
    assert from_reflection(reflection(signature)) == signature
    assert required_.holds([(7, 2), (6, 1)])
    assert not required_.holds([(6, 2), (6, 1)])
    assert required_.renumbered({0: 1, 1: 0}).holds([(6, 1), (7, 2)])


@pytest.mark.more
def test_guard_pages() -> None:
    """A sample of `test/fuzz/guard_pages.py`, which places arrays before inaccessible pages: no array is read beyond
    its end.
    """
    script = ROOT / "test" / "fuzz" / "guard_pages.py"
    arguments = ["--orders", "0", "--calls", "10", "--filter", "^(two|size)"]
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    counts = done.stdout.splitlines()[-1]
    assert "ok" in counts and "refused" in counts and "not compiled" not in counts


def test_guard_pages_see_reads_beyond_the_end() -> None:
    """The guard pages detect a read beyond an array: without assertions, the program is killed."""
    text = f"""
import numpy as np, guard_pages
from tiduc.backends.iree.compile import compile_module, compile_until
from tiduc.runtime.devices import Device
from tiduc.runtime.run import Executable
Device.upload = guard_pages.upload
Executable(compile_module('''{ADD}'''))(np.zeros(9000, np.float32), np.zeros(16, np.float32))
"""
    folder = str(ROOT / "test" / "fuzz")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({folder!r})\n{text}"], capture_output=True
    )
    assert done.returncode == -11
