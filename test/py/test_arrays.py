"""Reads and writes arrays as text and as files, and tests the error messages for invalid arrays."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tiduc.dialect.errors import InputError, TiducError
from tiduc.runtime.array_files import read_npz, write_npz
from tiduc.runtime.arrays import (
    format_array,
    parse_array,
    parse_inputs,
    random_array,
    summary,
)
from tiduc.runtime.signature import DTYPES, SignatureValue, TensorType
from tiduc.runtime.weights import read_weights


@pytest.mark.parametrize(
    "text, expected",
    [
        ("4xf32=1,2,3,4", np.array([1, 2, 3, 4], np.float32)),
        ("f64=3.5", np.array(3.5)),
        ("2x2xf32=[[1,2],[3,4]]", np.array([[1, 2], [3, 4]], np.float32)),
        ("2x2xf32=1,2,3,4", np.array([[1, 2], [3, 4]], np.float32)),
        ("2x2xf32=[1 2][3 4]", np.array([[1, 2], [3, 4]], np.float32)),
        ("1x1xf32=[[5]]", np.array([[5]], np.float32)),
        ("4xf32=0", np.zeros(4, np.float32)),
        ("2x3xi32=zeros", np.zeros((2, 3), np.int32)),
        ("3xf64=nan,-inf,1e-310", np.array([np.nan, -np.inf, 1e-310])),
        ("2xcomplex<f32>=1+2j,3", np.array([1 + 2j, 3], np.complex64)),
        ("complex<f64>=nan+infj", np.array(complex(np.nan, np.inf))),
        ("4xi1=true,0,1,false", np.array([True, False, True, False])),
        ("2xui8=255,0x10", np.array([255, 16], np.uint8)),
        ("2xi64=9223372036854775807,-9223372036854775808", np.array([2**63 - 1, -(2**63)])),
        ("2xbf16=1.5,2", np.array([1.5, 2], ml_dtypes.bfloat16)),
        ("0x3xf32=", np.zeros((0, 3), np.float32)),
        ("1x0xf32=[[]]", np.zeros((1, 0), np.float32)),
        ("?xf32=1,2,3", np.array([1, 2, 3], np.float32)),
        ("?xf32=1", np.array([1], np.float32)),
    ],
)
def test_text_is_read_and_written_back(text: str, expected: np.ndarray) -> None:
    array = parse_array(text)
    assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(array, expected)
    assert parse_array(format_array(array)).tobytes() == array.tobytes()


@pytest.mark.parametrize("element", DTYPES)
def test_random_elements_survive_printing(element: str) -> None:
    array = parse_array(f"2x5x{element}=random")
    assert array.dtype == DTYPES[element] and array.shape == (2, 5)
    assert parse_array(format_array(array)).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "text, words",
    [
        ("4xf32=1,2,3", "4xf32 has 4 elements, got 3"),
        ("f32=", "f32 has 1 element, got 0"),
        ("4xf32", "a type is missing"),
        ("4 by 4=1", "is not a tensor type"),
        ("4xq32=1", "unknown element type q32"),
        ("2xi4=1,2", "unknown element type i4"),
        ("4xf32=[1,2,3,4", "unmatched opening bracket"),
        ("4xf32=1]", "unmatched closing bracket"),
        ("2x2xf32=[[1,2],[3]]", "differ in length"),
        ("2x2xf32=[[1,2],3]", "a list mixes values and lists"),
        ("2x3xf32=[[1,2],[3,4],[5,6]]", "expected 2x3xf32, got values of shape 3x2"),
        ("2xf32=a,b", "'a' is not a number"),
        ("2xi8=300,1", "300 does not fit int8"),
        ("2xi8=1.5,1", "'1.5' is not an integer"),
        ("2xi1=2,0", "'2' is not a boolean"),
        ("2xf16=1e9,0", "1e9 does not fit float16"),
        ("2xf64=1e400,0", "1e400 does not fit float64"),
        ("?xf32=random", "has a dynamic dimension"),
        ("@no/such.npy", "No such file"),
    ],
)
def test_bad_text_is_named(text: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_inputs([text])
    assert words in str(raised.value)


def test_the_signature_gives_the_type() -> None:
    inputs = [SignatureValue("x", TensorType((2, 2), "f64")), SignatureValue("n", TensorType((3,), "i32"))]
    x, n = parse_inputs(["random", "1,2,3"], inputs)
    assert (x.dtype, x.shape, n.dtype, n.tolist()) == (np.float64, (2, 2), np.int32, [1, 2, 3])
    repeated, other = (parse_inputs(["random"], inputs, seed) for seed in (0, 1))
    np.testing.assert_array_equal(x, repeated[0])
    assert not np.array_equal(x, other[0])


def test_two_random_arguments_differ() -> None:
    x, y = parse_inputs(["8xf32=random", "8xf32=random"])
    assert not np.array_equal(x, y)


def test_files(tmp_path: Path) -> None:
    # np.savez cannot store arrays with the names `file` and `allow_pickle`.
    arrays = {"b": np.arange(3.0), "file": np.array([[True]]), "allow_pickle": np.array(2j)}
    write_npz(tmp_path / "all.npz", arrays)
    for read, written in zip(parse_inputs([f"@{tmp_path / 'all.npz'}"]), arrays.values(), strict=True):
        np.testing.assert_array_equal(read, written)
    (one,) = parse_inputs([f"@{tmp_path / 'all.npz'}:b"])
    assert len(parse_inputs([f"@{tmp_path / 'all.npz'}:*"])) == len(arrays)
    np.testing.assert_array_equal(one, arrays["b"])
    np.save(tmp_path / "x.npy", arrays["b"])
    (x,) = parse_inputs([f"@{tmp_path / 'x.npy'}"])
    np.testing.assert_array_equal(x, arrays["b"])
    with pytest.raises(InputError, match="no array 'c' in the file; it has: b, file, allow_pickle"):
        parse_inputs([f"@{tmp_path / 'all.npz'}:c"])


@pytest.mark.parametrize("element", DTYPES)
def test_every_element_type_survives_a_file(element: str, tmp_path: Path) -> None:
    type = TensorType((5,), element)
    x = random_array(type, np.random.default_rng(0))
    write_npz(tmp_path / "x.npz", {"x": x})
    (y,) = parse_inputs([f"@{tmp_path / 'x.npz'}"], [SignatureValue("x", type)])
    assert y.dtype == x.dtype and y.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"PK\x03\x04 cut",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x01\x00\x02\x00((",
        b"\x93NUMPY\x01\x00\x01\x00\xff",
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match="x.npy"):
        parse_inputs([f"@{tmp_path / 'x.npy'}"])


def test_pickles_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([print], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"x\.npy: error: not a \.npy or \.npz file of numbers$"):
        parse_inputs([f"@{tmp_path / 'x.npy'}"])


def test_archives_of_something_else_are_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("module.fb", b"no array")
    for read in (read_npz, read_weights, lambda path: parse_inputs([f"@{path}"])):
        with pytest.raises(
            InputError, match=r"x\.npz: error: .*the archive's member 'module\.fb' is not an array"
        ):
            read(str(tmp_path / "x.npz"))


def test_large_arrays_are_summarized(recwarn: pytest.WarningsRecorder) -> None:
    x = np.zeros((40, 50), np.float16)
    assert summary(x + np.float16(60000)).startswith("40x50xf16 (from 60000 to 60000, mean 60000; ")
    x[0, :3] = np.inf, -np.inf, np.nan
    assert summary(x) == "40x50xf16 (from -inf to inf, mean nan, 1 NaN; -o keeps the 2000 elements)"
    assert summary(x * np.float16(np.nan)).startswith("40x50xf16 (from nan to nan, mean nan, 2000 NaN; ")
    assert summary(x.astype("bool")) == "40x50xi1 (2000 elements; -o keeps them)"
    assert not recwarn.list


def test_an_argument_too_many_is_named() -> None:
    x = SignatureValue("x", TensorType((2,), "f32"))
    with pytest.raises(InputError, match="'random' is one too many; the inputs are: x: 2xf32"):
        parse_inputs(["1,2", "random"], [x])


FULL = """
import resource, sys, numpy as np
from tiduc.runtime.array_files import write_npz
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
write_npz(sys.argv[1], {"x": np.zeros(100_000)})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    path.write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False
    )
    assert "TiducError" in done.stderr and "cannot write" in done.stderr
    assert os.listdir(tmp_path) == ["out.npz"] and path.read_bytes() == b"old"


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(TiducError, match="cannot write: No such file"):
        write_npz(tmp_path / "no" / "out.npz", {})
    with pytest.raises(TiducError, match="cannot write: Is a directory"):
        write_npz(tmp_path, {})
    assert not os.listdir(tmp_path)
