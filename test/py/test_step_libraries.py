"""Training steps as static libraries: losses are PyTorch's, and states are saved, loaded, and refused."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.example_files import EXAMPLES

from tiduc.cli import run as cli
from tiduc.runtime.weights import read_weights, write_weights

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")

MAIN = """
#include "step.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static step_state state;
static float images[4096];
static int32_t labels[64];

int main(int count, char **words) {  // state to load, data, number of steps, state to save
  int status = step_load(&state, words[1]);
  if (status || count < 5) return status;
  FILE *file = fopen(words[2], "rb");
  if (!file || fread(images, sizeof images, 1, file) != 1 || fread(labels, sizeof labels, 1, file) != 1) return 9;
  fclose(file);
  step_batch batch = {images, labels, 0.01f};
  for (int i = 0; i < atoi(words[3]); i++) {
    float loss;
    if ((status = step_step(&state, &batch, &loss))) return status;
    printf("%.9g\\n", loss);
  }
  if (strcmp(step_arrays[0].name, "0.weight") || step_arrays[0].rank != 4 || step_arrays[0].size != 288) return 9;
  return step_save(&state, words[4]);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """The program, with sanitizers; the initial state and the data."""
    place: Path = tmp_path_factory.mktemp("step")
    wanted = ["--loss", "softmax-cross-entropy", "--optimizer", "adam", "--emit", "static-library"]
    files = ["--target", "x86_64", "--state", str(place / "state.safetensors"), "-o", str(place / "step.o")]
    assert cli(["train-step", str(EXAMPLES / "digits.onnx"), *wanted, *files]) == 0
    (place / "main.c").write_text(MAIN)
    flags = "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"
    built(place, "gcc", *flags, "main.c", "step.c", "step.o", "-lm", "-o", "main")
    with np.load(EXAMPLES / "digits.npz") as data:
        (place / "data").write_bytes(data["images"].tobytes() + data["labels"].astype(np.int32).tobytes())
    return place


def built(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True)


def run(folder: Path, state: str, steps: int, saved: str, program: str = "./main") -> tuple[int, list[float]]:
    """The status of a run, and its losses."""
    command = [program, state, "data", str(steps), saved]
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    return ended.returncode, [float(line) for line in ended.stdout.split()]


def test_losses_are_those_of_pytorch(folder: Path) -> None:
    """Ten steps in two runs, the second from the state that the first has saved."""
    with np.load(EXAMPLES / "digits.npz") as data:
        wanted, rate = data["losses"], float(data["rate"])
        after = {name.removeprefix("after."): data[name] for name in data.files if name.startswith("after.")}
    assert rate == np.float32(0.01)
    (first, losses), (second, more) = (
        run(folder, "state.safetensors", 4, "four"),
        run(folder, "four", 6, "ten"),
    )
    assert (first, second) == (0, 0)
    np.testing.assert_allclose([*losses, *more], wanted[:10], rtol=0, atol=1e-6)
    shutil.copy(folder / "ten", folder / "ten.safetensors")
    saved = read_weights(folder / "ten.safetensors")
    assert set(saved) == set(read_weights(folder / "state.safetensors"))
    assert saved["step"] == 10
    for name, x in after.items():
        np.testing.assert_allclose(saved[name], x, rtol=0, atol=1e-5 * np.max(np.abs(x)))


def damaged(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_states_are_refused(folder: Path) -> None:
    """Files that are missing, cut, changed, or of other arrays; all cuts and changes of the text in a sample."""
    assert run(folder, "state.safetensors", 0, "whole")[0] == 0
    data = (folder / "whole").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    cases: list[tuple[bytes, Sequence[int]]] = [
        (damaged(data, len(data) - 1), [5]),
        (damaged(data, end), [5]),
        (data[:-1], [4]),
        (data[:5], [4]),
        (b"", [4]),
        (data.replace(b'"0.bias"', b'"1.bias"'), [4]),
        (data.replace(b'"shape":[8]', b'"shape":[4]', 1), [4]),
        (data.replace(b'"F32"', b'"I32"', 1), [4]),
        (data.replace(b'"tiduc.version":"1"', b'"tiduc.version":"2"'), [4]),
        (b"\xff" * 8 + data[8:], [4]),
    ]
    cases += [(data[:n], [4]) for n in range(0, end, 97)]
    cases += [(damaged(data, n), [0, 4, 5]) for n in range(8, end, 97)]
    for i, (content, statuses) in enumerate(cases):
        (folder / "bad").write_bytes(content)
        assert run(folder, "bad", 0, "unused")[0] in statuses, i
    assert run(folder, "missing", 0, "unused")[0] == 3
    assert run(folder, "state.safetensors", 0, "no/folder")[0] == 3
    other = dict(read_weights(folder / "state.safetensors"))
    write_weights(folder / "less.safetensors", dict(list(other.items())[1:]))
    write_weights(folder / "more.safetensors", {**other, "more": np.zeros(2, np.float32)})
    assert [run(folder, f"{name}.safetensors", 0, "unused")[0] for name in ("less", "more")] == [4, 4]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_cpp(folder: Path) -> None:
    """The header serves C++, with the C file built as C."""
    (folder / "main.cpp").write_text(MAIN)
    built(folder, "gcc", "-std=c11", "-O1", "-c", "step.c", "-o", "host.o")
    built(
        folder,
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "main.cpp",
        "host.o",
        "step.o",
        "-o",
        "by_cpp",
    )
    by_c, by_cpp = (run(folder, "state.safetensors", 2, "two", f"./{name}") for name in ("main", "by_cpp"))
    assert by_c == by_cpp and by_c[0] == 0
