"""The inputs of the fuzzer. Each input is determined by a kind, a seed and a number."""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import archives
import byte_mutations
import command_lines
import corpus
import structural
import text_mutations
from operations import PROGRAM

CACHE = "cache"
"""The name of the folder in the input's folder that is the value of TIDUC_CACHE."""
_OTHER = b"""func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.tanh %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


@dataclass(frozen=True)
class Case:
    """An input: its files by name, and the operations to run, which read the first file.

    An operation is the name of a Python operation, or the arguments of a command line. `has_places` states whether
    errors about the input must have locations. `prepare` is called with the folder of the input before an operation.
    """

    kind: str
    files: Mapping[str, bytes]
    operations: tuple[str | tuple[str, ...], ...]
    has_places: bool = False
    prepare: Callable[[Path], None] = field(default=lambda folder: None)

    @property
    def file(self) -> str:
        return next(iter(self.files))


def case_of(kind: str, seed: int, number: int) -> Case:
    """Draws the input with this kind, seed and number."""
    return KINDS[kind](Random(f"{seed} {kind} {number}"))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _on_program(
    draw: Random, count: int, commands: float, compiled: float
) -> tuple[str | tuple[str, ...], ...]:
    """Returns the operations on a program: it is loaded, then `count` random operations follow.

    `commands` and `compiled` are the probabilities that a command line and a compilation follow.
    """
    names, weights = list(PROGRAM), [weight for _, weight in PROGRAM.values()]
    chosen: list[str | tuple[str, ...]] = ["load", *draw.choices(names, weights, k=count)]
    if draw.random() < commands:
        chosen.append(tuple(command_lines.of_program(draw, "input.mlir")))
    if draw.random() < compiled:
        chosen.append("compile")  # is the last operation, because it starts threads
    return tuple(chosen)


def _programs(draw: Random) -> Case:
    files = {"input.mlir": _encoded(structural.program(draw)), "other.mlir": _OTHER}
    return Case("programs", files, _on_program(draw, 3, 0.3, 0.01), True)


def _text(draw: Random) -> Case:
    texts = corpus.texts()
    base = structural.program(draw) if draw.randrange(6) == 0 else draw.choice(texts)
    mutant = text_mutations.mutated(base, text_mutations.Source(draw, texts))
    return Case(
        "text", {"input.mlir": _encoded(mutant), "other.mlir": _OTHER}, _on_program(draw, 2, 0.1, 0.002), True
    )


def _bytecode(draw: Random) -> Case:
    files = corpus.binaries()
    mutant = byte_mutations.mutated(draw.choice(files), draw, files)
    operations = _on_program(draw, 1, 0.2, 0)
    # Command lines run first: they are forked from the worker, and loading the file may corrupt the worker's memory.
    ordered = sorted(operations, key=lambda operation: isinstance(operation, str))
    return Case("bytecode", {"input.mlir": mutant, "other.mlir": _OTHER}, tuple(ordered))


def _compiled(draw: Random) -> Case:
    files = corpus.compiled()
    base = draw.choice(files)
    if draw.randrange(2):  # changes bytes, such as machine code, but the checksum is valid
        mutant = byte_mutations.in_stored_archive(base, draw)
        return Case(
            "compiled", {"input.vmfb": mutant}, (tuple(command_lines.of_compiled(draw, "input.vmfb")),)
        )
    mutant = byte_mutations.mutated(base, draw, files)
    return Case("compiled", {"input.vmfb": mutant}, ("run compiled",))


def _arrays(draw: Random) -> Case:
    files = corpus.arrays()
    suffix, base = draw.choice(files)
    mutate = draw.choice([byte_mutations.in_archive, byte_mutations.mutated])
    mutant = (
        byte_mutations.header(base, draw)
        if suffix == ".npy"
        else mutate(base, draw, [data for _, data in files])
    )
    operations: list[str | tuple[str, ...]] = ["weights"]
    if draw.randrange(5) == 0:
        operations.append(tuple(command_lines.of_arrays(draw, f"input{suffix}")))
    return Case("arrays", {f"input{suffix}": mutant, "other.mlir": _OTHER}, tuple(operations))


def _models(draw: Random) -> Case:
    files = corpus.models()
    suffix, base = draw.choice(files)
    mutate = byte_mutations.in_archive if suffix == ".pt2" else byte_mutations.mutated
    mutant = mutate(base, draw, [data for _, data in files])
    operation = tuple(command_lines.of_model(draw, f"input{suffix}")) if draw.randrange(2) else "import"
    return Case("models", {f"input{suffix}": mutant}, (operation,))


def _archives(draw: Random) -> Case:
    files = corpus.archive_parts()
    mutant = archives.mutated(draw.choice(files), draw, files)
    operation = "build, watched" if draw.randrange(4) else "import, watched"
    return Case("archives", {"input.pt2": mutant}, (operation,))


def _cache(draw: Random) -> Case:
    """Returns a cache folder that contains damaged entries, and entries that are not regular files."""
    files = corpus.compiled()
    names = [
        draw.choice([f"{draw.randrange(16):x}" * 64, "x", "tmp.part"]) for _ in range(draw.randint(1, 3))
    ]
    entries = {f"{name}.vmfb": byte_mutations.mutated(draw.choice(files), draw, files) for name in names}
    odd = {f"{draw.randrange(99)}.vmfb": draw.choice(list(_ODD)) for _ in range(draw.randrange(3))}

    def prepare(folder: Path) -> None:
        place = folder / CACHE
        if draw_is_file:
            place.write_bytes(b"")
            return
        place.mkdir()
        for name, contents in entries.items():
            (place / name).write_bytes(contents)
        for name, kind in odd.items():
            _ODD[kind](place / name)

    draw_is_file = draw.randrange(20) == 0
    operation = tuple(command_lines.of_cache(draw, "")) if draw.randrange(3) == 0 else "cache"
    return Case("cache", {next(iter(entries)): next(iter(entries.values()))}, (operation,), False, prepare)


_ODD: dict[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(exist_ok=True),
    "pipe": lambda path: os.mkfifo(path),
    "link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path),
    "unreadable": lambda path: (path.write_bytes(b"x"), path.chmod(stat.S_IWUSR)),
}
"""Functions that create something at a path in the cache that is not a readable regular file."""


def _commands(draw: Random) -> Case:
    base = structural.program(draw) if draw.randrange(3) == 0 else draw.choice(corpus.texts())
    line = tuple(command_lines.mistaken(draw, "input.mlir"))
    return Case("commands", {"input.mlir": _encoded(base), "other.mlir": _OTHER}, (line,), True)


KINDS: dict[str, Callable[[Random], Case]] = {
    "programs": _programs,
    "text": _text,
    "bytecode": _bytecode,
    "compiled": _compiled,
    "arrays": _arrays,
    "models": _models,
    "archives": _archives,
    "cache": _cache,
    "commands": _commands,
}
SHARES = {
    "programs": 10,
    "text": 39,
    "bytecode": 20,
    "compiled": 5,
    "arrays": 15,
    "models": 1,
    "archives": 1,
    "cache": 4,
    "commands": 5,
}
"""Of 100 inputs, the number that has each kind."""
