"""Training steps as static libraries: losses equal PyTorch's.

States are saved and loaded, and invalid ones are refused.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.example_files import EXAMPLES
from harness.static_libraries import run_thread_sanitizer
from harness.training_programs import build_digits, run_digits

from tiduc.runtime.run import Module
from tiduc.runtime.weights import IDENTITY, notes_in, read_weights, write_weights

pytestmark = [pytest.mark.more, pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A folder with the training program, which is built with sanitizers, the initial state, and the data."""
    place: Path = tmp_path_factory.mktemp("digits")
    build_digits(place, "x86_64", "vmfb,static-library")
    flags = "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"
    built(place, "gcc", *flags, "main.c", "digits.c", "digits.o", "-lm", "-o", "main")
    return place


def built(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True)


def run(folder: Path, state: str, steps: int, saved: str) -> tuple[int, list[float]]:
    """Runs the training program, and returns its exit status and the losses."""
    return run_digits(folder, (state, str(steps), saved))


def test_losses_are_those_of_pytorch(folder: Path) -> None:
    """The losses and weights of ten steps equal PyTorch's.

    A second run continues from the state that the first run has saved.
    """
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
    saved, notes = read_weights(folder / "ten.safetensors"), notes_in(folder / "ten.safetensors")
    assert notes[IDENTITY] == notes_in(folder / "state.safetensors")[IDENTITY]
    assert set(saved) == set(read_weights(folder / "state.safetensors"))
    assert saved["step"] == 10
    for name, x in after.items():
        np.testing.assert_allclose(saved[name], x, rtol=0, atol=1e-5 * np.max(np.abs(x)))


def test_the_module_beside_the_library_gives_its_losses(folder: Path) -> None:
    with np.load(EXAMPLES / "digits.npz") as data:
        images, labels = data["images"], data["labels"].astype(np.int32)
    step = Module((folder / "digits.vmfb").read_bytes())["step"]
    state = read_weights(folder / "state.safetensors")
    arguments = [state[x.name] if x.name in state else None for x in step.signature.inputs]
    losses = []
    for _ in range(3):
        rest = iter((images, labels, np.float32(0.01)))
        loss, *new = step(*(next(rest) if x is None else x for x in arguments))
        arguments[: len(new)] = new
        losses.append(float(loss))
    np.testing.assert_allclose(losses, run(folder, "state.safetensors", 3, "three")[1], rtol=1e-6)


def damaged(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_states_are_refused(folder: Path) -> None:
    """Files of states are refused if they are missing, truncated, changed, or contain other arrays."""
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
    write_weights(folder / "anonymous.safetensors", other)
    write_weights(folder / "another.safetensors", other, {IDENTITY: "another-model"})
    assert [run(folder, f"{name}.safetensors", 0, "unused")[0] for name in ("anonymous", "another")] == [0, 4]


THREADS = """
#include "digits.h"
#include <pthread.h>
#include <stdio.h>

static digits_state state, own[2];
static float images[4096], losses[2], scores[2][640];
static int32_t labels[64];

static void *work(void *argument) {  // threads 0 and 1 step states of their own, 2 and 3 share one
  long i = (long)argument;
  digits_batch batch = {images, labels, 0.01f};
  digits_infer_batch given = {images};
  for (int n = 0; n < 5; n++)
    if (i < 2 ? digits_step(&own[i], &batch, &losses[i]) : digits_infer(&state, &given, scores[i - 2])) return "failed";
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  if (digits_load(&state, "state.safetensors") || digits_load(&own[0], "state.safetensors")) return 1;
  own[1] = own[0];
  digits_infer_batch given = {images};
  if (digits_infer(&state, &given, scores[0])) return 1;  // the first call returns before another one begins
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < 4; i++) {
    void *result;
    pthread_join(threads[i], &result);
    if (result) return 1;
  }
  for (int i = 0; i < 640; i++)
    if (scores[0][i] != scores[1][i]) return 1;
  return losses[0] != losses[1];
}
"""


def test_threads(folder: Path) -> None:
    """The thread sanitizer finds no data race in calls that the header allows to be concurrent."""
    (folder / "threads.c").write_text(THREADS)
    flags = "-std=c11", "-O1", "-fsanitize=thread", "-pthread", "-DTIDUC_KEPT=64"
    built(folder, "gcc", *flags, "threads.c", "digits.c", "digits.o", "-lm", "-o", "threads")
    run_thread_sanitizer(folder / "threads")


ON_DEVICE = EXAMPLES / "on_device"
LEARNS = "loss 2.303, then 0.000; 64 of 64 right\n"


def objects(folder: Path) -> None:
    """Compiles the library's C file to `host.o`, by a C compiler."""
    built(folder, "gcc", "-std=c11", "-O1", "-c", "digits.c", "-o", "host.o")


def example(folder: Path, program: str) -> str:
    """Runs an example program, and returns its output."""
    command = [program, "state.safetensors", "learned.safetensors"]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_cpp(folder: Path) -> None:
    """The example in C++ includes the library's header, and trains the model."""
    objects(folder)
    source, flags = str(ON_DEVICE / "digits.cpp"), ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-I.")
    built(folder, "g++", *flags, source, "host.o", "digits.o", "-o", "by_cpp")
    assert example(folder, "./by_cpp") == LEARNS


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no Rust compiler")
def test_rust(folder: Path) -> None:
    """The example in Rust, which cannot read the header, finds all it needs in the tables of the library."""
    objects(folder)
    built(folder, "ar", "rcs", "libdigits.a", "host.o", "digits.o")
    flags = "--edition", "2021", "-D", "warnings", "-L", ".", "-l", "static=digits", "-l", "m"
    built(folder, "rustc", *flags, str(ON_DEVICE / "digits.rs"), "-o", "by_rust")
    assert example(folder, "./by_rust") == LEARNS


@pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("g++") is None, reason="no CMake, or no C++ compiler"
)
def test_cmake(folder: Path) -> None:
    """CMake finds the library as a package, and builds an example that trains the model."""
    built(folder, "cmake", "-S", str(ON_DEVICE), "-B", "build", f"-DCMAKE_PREFIX_PATH={folder}")
    built(folder, "cmake", "--build", "build")
    assert example(folder, "build/on_device") == LEARNS
