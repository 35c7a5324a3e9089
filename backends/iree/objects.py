"""Compiles a program's kernels to an object file, for a static library (`static/library.py`).

    StableHLO --in_steps--> SCHEDULED --check--> LOWERED --iree-compile--> NAME.o, NAME.h
                                                    |
                                                    +--in_steps--> the module for IREE's runtime, if it is requested

`SCHEDULED` and `LOWERED` are phases of IREE's compiler (`steps.py`). Up to `LOWERED`, the compiler gets the flags for a
module, because a program for a static library differs only in the description of its target. `as_static_library` then
replaces this description.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from iree.compiler.tools.binaries import find_tool

from tiduc.backends.iree.elf import NO_KERNELS, is_elf
from tiduc.backends.iree.steps import LOWERED, SCHEDULED
from tiduc.dialect.errors import CompileError
from tiduc.runtime.process import Ended

_TARGET = re.compile(rb'<"llvm-cpu", "[^"]*", \{')
_LINKED = re.compile(rb"\blink_embedded = (?:true|false), ")
_QUERY = re.compile(r"\w+_library_query")
_MODULE = re.compile(rb"^module(?: @\S+)?", re.MULTILINE)


@dataclass(frozen=True)
class Objects:
    """An object file with a program's kernels, IREE's header for it, and the program's text after `LOWERED`.

    If the program has no kernels, `kernels` is `NO_KERNELS`, and the header is empty.
    """

    kernels: bytes
    header: str
    text: bytes


@dataclass
class ObjectFile:
    """A request to compile a program to an object file.

    The names of the object file's symbols contain `name`. `check` is called with the program after `SCHEDULED`, before
    the kernels are compiled. It must raise an error if the host code cannot be translated to C. With `beside_module`,
    the module for IREE's runtime is also compiled. The method `reached` sets `objects`.
    """

    name: str
    check: Callable[[bytes], object]
    beside_module: bool = False
    objects: Objects | None = None

    @property
    def is_made(self) -> bool:
        return self.objects is not None

    def reached(
        self,
        command: Sequence[str],
        run: Callable[[list[str], bytes], Ended],
        folder: str,
        phase: str,
        text: bytes,
    ) -> Ended:
        """Checks the host code if `phase` is `SCHEDULED`, and compiles the kernels if `phase` is `LOWERED`.

        `text` is the program after `phase`. `command` is IREE's compiler with the flags of the program, and `run` runs
        a command on a text. Returns an `Ended` whose output is the text for the next step, or empty if no step follows.
        If the kernels do not compile, returns the result of the failed run.
        """
        if phase == SCHEDULED:
            self.check(text)
        if phase != LOWERED:
            return Ended(0, text, "")
        kernels = os.path.join(folder, f"{self.name}.o")
        static = as_static_library(text, self.name, kernels)
        ended = run([*command, "-", "-o", os.devnull, f"--compile-from={LOWERED}"], static)
        if ended.code != 0:
            return ended
        self.objects = Objects(NO_KERNELS, "", text)
        if os.path.exists(kernels):
            with open(kernels, "rb") as file, open(f"{kernels[:-2]}.h", encoding="utf-8") as header:
                self.objects = Objects(file.read(), header.read(), text)
            query = _QUERY.search(self.objects.header)
            if query is not None:
                smaller = without_unused(self.objects.kernels, query[0], folder, lambda x: run(x, b""))
                self.objects = replace(self.objects, kernels=smaller)
        return Ended(0, text if self.beside_module else b"", "")


def without_unused(kernels: bytes, query: str, folder: str, run: Callable[[list[str]], Ended]) -> bytes:
    """Returns an object file without functions that no kernel calls: up to 3 KB, such as IREE's conversions of f16.

    `query` is the function that returns the kernels to a caller. The file is returned unchanged if it is not an ELF
    file, or if the linker in IREE's package refuses it.
    """
    if not is_elf(kernels):
        return kernels
    given, found = (os.path.join(folder, f"{query}.{end}.o") for end in ("all", "used"))
    with open(given, "wb") as file:
        file.write(kernels)
    keeping = "-r", "--gc-sections", "-u", query
    if run([find_tool("iree-lld"), "-flavor", "gnu", *keeping, given, "-o", found]).code != 0:
        return kernels
    with open(found, "rb") as file:
        return file.read()


def as_static_library(text: bytes, name: str, kernels: str) -> bytes:
    """Returns a program's text after `LOWERED`, changed so that the target is a static library instead of a module.

    `name` becomes the name of the MLIR module. IREE's compiler will write the object file to the path `kernels`. Raises
    `CompileError` if the text does not have the expected form.
    """
    settings = f'link_embedded = false, link_static = true, static_library_output = "{kernels}", '
    static = b'<"llvm-cpu", "static", {' + settings.encode()
    described, targets = _TARGET.subn(lambda _: static, _LINKED.sub(b"", text))
    named, modules = _MODULE.subn(b"module @" + name.encode(), described, count=1)
    if not targets or not modules:
        raise CompileError("IREE's text after its executables are lowered has no target or no module", name)
    return named
