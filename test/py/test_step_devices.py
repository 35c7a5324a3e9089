"""Training steps on emulated devices: losses equal PyTorch's, and training can continue from the state that a device
has saved.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from harness.example_files import EXAMPLES
from harness.training_programs import build_digits, run_digits

from tiduc.runtime.weights import read_weights

pytestmark = pytest.mark.more


class Device(NamedTuple):
    """A target, the C compiler that links programs for it, and the emulator that runs them."""

    target: str
    compiler: Sequence[str]
    emulator: Sequence[str]


_LINUX = "aarch64-linux-gnu-gcc", "-static"
_BARE = (
    *(
        "arm-none-eabi-gcc",
        "-mcpu=cortex-m4",
        "-mfloat-abi=hard",
        "-mfpu=fpv4-sp-d16",
        "--specs=rdimon.specs",
    ),
    *("-Wl,--section-start=.vectors=0", "-Wl,-Tdata=0x20000000", "-Wl,--no-warn-execstack"),
    str(EXAMPLES / "on_device" / "cortex_m.c"),
)
_BOARD = "qemu-system-arm", "-M", "mps2-an386", "-nographic", "-kernel", "main", "-semihosting-config"
DEVICES = [
    pytest.param(
        Device("aarch64:cortex-a72", _LINUX, ("qemu-aarch64", "-cpu", "cortex-a72", "./main")),
        id="Raspberry Pi 4",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Device("aarch64:cortex-a76", _LINUX, ("qemu-aarch64", "-cpu", "cortex-a76", "./main")),
        id="Raspberry Pi 5",
    ),
    pytest.param(
        Device("aarch64-android:cortex-a76", _LINUX, ("qemu-aarch64", "-cpu", "cortex-a76", "./main")),
        id="Android, with Linux's C library",
    ),
    pytest.param(Device("cortex-m4", _BARE, _BOARD), id="Cortex-M4"),
]


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_trains(tmp_path: Path, device: Device) -> None:
    """The losses and weights of ten training steps on a device equal PyTorch's.

    A second run continues from the state that the first run has saved.
    """
    for tool in (device.compiler[0], device.emulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    build_digits(tmp_path, device.target)
    flags = "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"
    files = "main.c", "digits.c", "digits.o", "-lm", "-o", "main"
    subprocess.run([*device.compiler, *flags, *files], cwd=tmp_path, check=True)
    with np.load(EXAMPLES / "digits.npz") as data:
        wanted = data["losses"][:10]
        after = {name.removeprefix("after."): data[name] for name in data.files if name.startswith("after.")}
    first = run_on(device, tmp_path, "state.safetensors", "4", "four")
    second = run_on(device, tmp_path, "four", "6", "ten.safetensors")
    np.testing.assert_allclose([*first, *second], wanted, rtol=0, atol=1e-6)
    saved = read_weights(tmp_path / "ten.safetensors")
    for name, x in after.items():
        np.testing.assert_allclose(saved[name], x, rtol=0, atol=1e-5 * np.max(np.abs(x)))


def run_on(device: Device, folder: Path, *words: str) -> list[float]:
    """The losses of a run on a device. The emulator of a board passes the arguments of the program by an option."""
    if device.emulator is not _BOARD:
        status, losses = run_digits(folder, words, device.emulator)
    else:
        listed = ",".join(f"arg={word}" for word in ("main", words[0], "data", *words[1:]))
        command = [*device.emulator, f"enable=on,target=native,{listed}"]
        ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=300)
        status, losses = ended.returncode, [float(line) for line in ended.stdout.split()]
    assert status == 0
    return losses


ROOT = EXAMPLES.parent
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.torch
@pytest.mark.parametrize("tool", ["qemu-aarch64", "qemu-system-arm"])
def test_the_lines_of_the_page_run(tmp_path: Path, tool: str) -> None:
    """The commands in docs/devices.md for a Raspberry Pi and for a Cortex-M work with the files that
    docs/training_in_c.md writes.
    """
    pytest.importorskip("torch")
    blocks = [code for _, code in _FENCED.findall((ROOT / "docs" / "devices.md").read_text())]
    lines = next(code for code in blocks if tool in code)
    for needed in re.findall(r"^(?!tiduc)[\w-]+", lines, re.MULTILINE):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    model, commands, wanted, *_ = _FENCED.findall((ROOT / "docs" / "training_in_c.md").read_text())
    (tmp_path / "examples").symlink_to(EXAMPLES)
    subprocess.run([sys.executable, "-c", model[1]], cwd=tmp_path, check=True)
    program = re.search(r"cat > main.c.*?^END$", commands[1], re.MULTILINE | re.DOTALL)
    assert program is not None
    script = f"tiduc() {{ '{sys.executable}' -m tiduc \"$@\"; }}\n{program[0]}\n{lines}"
    ended = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True
    )
    shown = [line for line in ended.stdout.splitlines() if line.startswith(("step", "infers"))]
    assert shown == wanted[1].splitlines()[:3]


_OF_ANDROID = {
    *("malloc", "free", "memcpy", "memcmp", "memset", "strcmp", "strlen"),
    *("fopen", "fclose", "fread", "fwrite", "fputc", "fputs", "fseek", "ftell", "ferror", "rename", "remove"),
}
"""C functions of Android's library. The library of training steps must call no other functions."""


@pytest.mark.slow
def test_a_library_for_android_links(tmp_path: Path) -> None:
    """A library for Android can be linked to a shared library.

    It cannot be run here, because no available package has Android's C library. The shared library needs no relocations
    of code, no thread-local memory, and only functions of the C library. The code does not use the register x18, which
    Android reserves. The segments are aligned to pages of 16 KiB.
    """
    ziglang = pytest.importorskip("ziglang")
    if shutil.which("aarch64-linux-gnu-objdump") is None:
        pytest.skip("aarch64-linux-gnu-objdump is not installed")
    build_digits(tmp_path, "aarch64-android")
    compiler = sys.executable, "-m", "ziglang", "cc", "--target=aarch64-linux-android"
    # The headers are those of musl, because zig has none of Android.
    headers = Path(ziglang.__file__).parent / "lib" / "libc" / "include"
    paths = [f"-isystem{headers / name}" for name in ("aarch64-linux-musl", "generic-musl")]
    run = partial(subprocess.run, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    run(
        [
            *compiler,
            "-std=c11",
            "-O2",
            "-fPIC",
            "-Wall",
            "-Wextra",
            "-Werror",
            *paths,
            "-c",
            "digits.c",
            "-o",
            "host.o",
        ]
    )
    run(
        [
            *compiler,
            "-shared",
            "-nostdlib",
            "-Wl,-z,max-page-size=16384",
            "host.o",
            "digits.o",
            "-o",
            "libdigits.so",
        ]
    )
    needed = set(
        re.findall(r"\*UND\*\s+\w+\s+(\w+)", run(["aarch64-linux-gnu-objdump", "-T", "libdigits.so"]).stdout)
    )
    # The names with this prefix are functions of the compiler for atomics.
    assert needed - {name for name in needed if name.startswith("__aarch64_")} <= _OF_ANDROID
    headers_ = run(["aarch64-linux-gnu-objdump", "-p", "-R", "libdigits.so"]).stdout
    assert "TEXTREL" not in headers_ and " TLS " not in headers_
    alignments = re.findall(r"^ *LOAD .* align 2\*\*(\d+)$", headers_, re.MULTILINE)
    assert set(alignments) == {"14"} and len(alignments) == len(re.findall(r"\bLOAD\b", headers_))
    kinds = {*re.findall(r"R_AARCH64_\w+", headers_)}
    assert kinds == {"R_AARCH64_RELATIVE", "R_AARCH64_JUMP_SLOT", "R_AARCH64_GLOB_DAT"}
    code = run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", "libdigits.so"]).stdout
    assert "fmla" in code and not re.search(r"\b[xw]18\b", code)


@pytest.mark.slow
def test_a_page_trains_in_chromium(tmp_path: Path) -> None:
    """A web page trains in Chromium and stores its state in IndexedDB.

    When a second process of Chromium opens the page, training continues from this state.
    """
    pytest.importorskip("PyQt6.QtWebEngineCore", exc_type=ImportError), pytest.importorskip("ziglang")
    script = str(EXAMPLES / "train_in_a_browser.py")
    command = [sys.executable, script, str(tmp_path / "digits.html"), "--run", str(tmp_path / "storage")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    wanted, shown = lines[:2], lines[2:]
    assert [line.partition("losses")[0] for line in shown] == ["Chromium: started: ", "Chromium: continued: "]
    for x, y in zip(shown, wanted, strict=True):
        losses = [[float(word) for word in line.partition("losses ")[2].split()] for line in (x, y)]
        np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=2e-5)
