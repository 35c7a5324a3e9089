"""Tests the plan of a compilation: a list of attempts to compile a program with IREE, each with its reason."""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.sources import sources_of
from harness.variants import AVX2, AVX512, HERE
from jax import lax
from test_layers import files, graph

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree import plan, prepare, targets
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.fast.compile_time import repeats
from tiduc.backends.iree.prepare import Prepared
from tiduc.backends.iree.source import Source
from tiduc.cli import run

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDEN = Path(__file__).with_name("cases") / "plans.txt"
F32 = np.float32


@functools.cache
def gradient(f: Callable[..., Any], *shapes: tuple[int, ...]) -> tiduc.Program:
    """The gradient of a JAX function with respect to its first argument, for f32 arguments of these shapes."""
    text = jax.jit(f).lower(*(jax.ShapeDtypeStruct(each, F32) for each in shapes)).as_text()
    return tiduc.load(text).grad([0], value=True)


def summed_product(x: Any) -> Any:
    return jnp.sum(x @ x)


def loop(x: Any, w: Any) -> Any:
    """A loop over small arrays with a constant trip count. Its gradient stores the carried values of each iteration."""
    return jnp.sum(lax.scan(lambda c, _: (jnp.tanh(c * w), c), x, None, 20)[0])


def by_data(x: Any) -> Any:
    """A loop over small arrays whose trip count depends on the data."""
    return jnp.sum(lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: c * 2 + 1, x))


def loop_and_product(x: Any, w: Any) -> Any:
    return loop(x[0, :32], w) + summed_product(x)


def layers(x: Any, w: Any) -> Any:
    for _ in range(4):
        x = jnp.tanh(x @ w) * 0.25 + x
    return jnp.sum(x)


def program(name: str) -> tiduc.Program:
    return tiduc.load(EXAMPLES / f"{name}.mlir")


PROGRAMS: dict[str, tuple[Callable[[], tiduc.Program], str, bool]] = {
    "sum of a product of 64": (lambda: gradient(summed_product, (64, 64)), AVX512, True),
    "sum of a product of 512": (lambda: gradient(summed_product, (512, 512)), AVX512, True),
    "sum of a product of 512, narrow registers": (lambda: gradient(summed_product, (512, 512)), AVX2, True),
    "sum of a product of 1024": (lambda: gradient(summed_product, (1024, 1024)), AVX512, True),
    "sum of a product of 64, for CUDA": (lambda: gradient(summed_product, (64, 64)), "cuda", True),
    "sum of a product of 64, for Vulkan": (lambda: gradient(summed_product, (64, 64)), "vulkan", True),
    "sum of a product of 64, for vmvx": (lambda: gradient(summed_product, (64, 64)), "vmvx", True),
    "sum of a product of 64, without rewrites for speed": (
        lambda: gradient(summed_product, (64, 64)),
        AVX512,
        False,
    ),
    "loop over 32": (lambda: gradient(loop, (32,), (32,)), AVX512, True),
    "loop over 32, for threads": (
        lambda: gradient(loop, (32,), (32,)),
        AVX512.replace("cpu", "cpu-threads"),
        True,
    ),
    "loop over 32, for CUDA": (lambda: gradient(loop, (32,), (32,)), "cuda", True),
    "loop over 10,000": (lambda: gradient(loop, (10_000,), (10_000,)), AVX512, True),
    "loop by data": (lambda: tiduc.load(jitted(by_data, (32,))), AVX512, True),
    "loop beside a product of 512": (lambda: gradient(loop_and_product, (512, 512), (32,)), AVX512, True),
    "equal layers": (lambda: gradient(layers, (64, 64), (64, 64)), AVX512, True),
    "newton": (lambda: program("newton"), AVX512, True),
    "gradient of mlp_f32": (lambda: program("mlp_f32").grad(), AVX512, True),
    "gradient of convnet_f32": (lambda: program("convnet_f32").grad(), AVX512, True),
    "gradient of transformer_f64": (lambda: program("transformer_f64").grad(), AVX512, True),
    "sgd_mlp": (lambda: program("sgd_mlp"), AVX512, True),
}
"""For each name: a function that creates a program, the target, and whether passes for speed run."""

NAMES = {
    getattr(targets, name): name
    for name in (
        "REASSOCIATED",
        "IN_ORDER",
        "TILED",
        "IN_TILES",
        "PEELED",
        "SMALL_KERNELS",
        "KERNELS",
        "INLINED",
    )
}


def jitted(f: Callable[..., Any], *shapes: tuple[int, ...]) -> str:
    text: str = jax.jit(f).lower(*(jax.ShapeDtypeStruct(each, F32) for each in shapes)).as_text()
    return text


def flags_of(attempt: plan.Attempt) -> str:
    """The names of the groups of flags that an attempt passes to IREE's compiler, separated by spaces."""
    names, rest = [], attempt.flags
    while rest:
        flags, name = next((flags, name) for flags, name in NAMES.items() if rest[: len(flags)] == flags)
        names.append(name)
        rest = rest[len(flags) :]
    return " ".join(names) or "no flags"


@functools.cache
def attempts(name: str) -> list[tuple[plan.Attempt, Source | None]]:
    """The attempts to compile a program, each with its source. The source is None if the attempt does not apply."""
    make, target, fast = PROGRAMS[name]
    # The limits allow repeated functions with few ops, so that the program can be small.
    few = patch.multiple(repeats, LEAST=4, SAVED=4, LEAST_SAVED=8)
    with few if name == "equal layers" else nullcontext():
        return [*Prepared(make().lower(), Options(target, fast=fast)).sources()]


def printed(name: str) -> str:
    """A text that lists the attempts to compile a program, with `+` before each attempt that applies."""
    lines = [f"{name} ({PROGRAMS[name][1]}):"]
    for attempt, source in attempts(name):
        more = [
            " ".join(attempt.groups),
            flags_of(attempt),
            *([f"on {attempt.device}"] if attempt.device else []),
            *(["threads"] if attempt.threaded else []),
            *(["vectors"] if attempt.settings.vectors else []),
            *(["places"] if attempt.may_place else []),
            *(["whole"] if attempt.whole else []),
        ]
        lines += [f"  {'-' if source is None else '+'} {attempt.reason}", f"      {'; '.join(more)}"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_attempts(name: str) -> None:
    """The attempts for a program are those of the golden file, and their sources and reasons are distinct.

    To rewrite the golden file, run in this folder: python -c 'import test_iree_plan as t; t.write()'
    """
    goldens = dict(zip(PROGRAMS, GOLDEN.read_text().split("\n\n"), strict=True))
    assert printed(name).strip() == goldens[name].strip()
    reasons = [attempt.reason for attempt, _ in attempts(name)]
    assert len(set(reasons)) == len(reasons)
    sources = [
        (each.text, each.flags, each.repeats, each.places) for _, each in attempts(name) if each is not None
    ]
    assert len(set(sources)) == len(sources) > 0
    for attempt, source in attempts(name):
        if attempt.whole:  # this attempt omits all edits of IREE's IR
            alike = replace(attempt, reason="", whole=False)
            others = [each for other, each in attempts(name) if replace(other, reason="") == alike]
            assert [each is not None and each.has_edits for each in others] == [source is not None]
            assert source is None or not source.has_edits


def write() -> None:
    GOLDEN.write_text("\n".join(map(printed, PROGRAMS)))


OF_IREE = "tiduc.backends.iree."
IMPORTERS = {
    "prepare": {f"{OF_IREE}build"},
    "source": {OF_IREE + name for name in ("build", "compile", "prepare", "steps")},
    "steps": {OF_IREE + name for name in ("compile", "objects")},
    "compile": {
        f"{OF_IREE}build",
        f"{OF_IREE}static.host",  # this module checks host code before kernels are compiled
        "tiduc.cli.intermediates",
    },  # the command line lists the compiler's phases
}
"""For each stage of compilation, the modules that may import it. Other modules must call a function of `build.py`."""


@pytest.mark.parametrize("part", IMPORTERS)
def test_there_is_one_way_to_a_module(part: str) -> None:
    edges = graph(files())
    assert {module for module in edges if OF_IREE + part in edges[module]} == IMPORTERS[part]


def test_importers_write_no_code_for_iree() -> None:
    edges = graph(files())
    outside = {module for module in edges if any(each.startswith(f"{OF_IREE}emit") for each in edges[module])}
    assert all(module.startswith(OF_IREE) for module in outside)


def test_later_attempts_run_no_passes_before_the_first_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    run_group = prepare.run_group

    def noted(group: Any, *rest: Any) -> int:
        ran.append(group)
        return run_group(group, *rest)

    monkeypatch.setattr(prepare, "run_group", noted)
    sources = sources_of(gradient(loop, (32,), (32,)), AVX512)
    assert ran == ["speed", "tiles", "host", "legal"]  # the groups that decide the plan
    next(sources)
    first = ["legal", "loops", "carries", "regions"]  # the first source is built without the group "host"
    assert ran[4:] == first
    assert ran[8:] == []
    next(sources)
    assert ran[8:] == [
        "carries",
        "regions",
    ]  # the second attempt runs the loop on the host; the results of the other groups are reused


@pytest.mark.more
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["loop over 32", "equal layers", "sum of a product of 64", "loop over 10,000"]
)
def test_every_attempt_gives_the_values_of_the_first(name: str) -> None:
    program = PROGRAMS[name][0]()
    random = np.random.default_rng(0)
    arguments = [random.uniform(-0.1, 0.1, x.type.shape).astype(F32) for x in program.inputs]
    first, *others = [
        tiduc.Executable(compile_source(each))(*arguments) for each in sources_of(program, HERE)
    ]
    assert others or name.startswith("sum")
    for results in others:
        for x, y in zip(results, first, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["vmfb", "static-library"])
def test_the_command_says_which_attempt_succeeded(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = tmp_path / "f.mlir", tmp_path / ("f.vmfb" if kind == "vmfb" else "f.o")
    file.write_text(gradient(loop, (32,), (32,)).text)
    monkeypatch.setattr(plan, "KERNELS", ("--no-such-flag",))  # makes IREE reject the loops in dispatches
    command = ["compile", str(file), "--emit", kind, "-o", str(output), "--verbose", "--no-cache"]
    assert run(command) == 0 and output.exists()
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("attempt 1 of ") and "does not apply" in told[0]
    assert "loops over small arrays are dispatches, in one thread" in told[1] and ": failed: " in told[1]
    assert "no-such-flag" in told[1]
    assert told[-1].endswith(": compiled") and "the host runs loops" in told[-1]
    if kind == "static-library":  # the cache contains no libraries
        return
    assert run(command[:-1]) == 0 and run(command[:-1]) == 0
    assert "the module is in the cache" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "more",
    [["g.mlir"], ["--stop-after", "flow"]],
    ids=["files", "text"],
)
def test_verbose_is_for_one_compiled_program(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("f.mlir", "g.mlir"):
        Path(name).write_text(gradient(loop, (32,), (32,)).text)
    assert run(["compile", "f.mlir", *more, "-o", "out", "--verbose"]) == 1
    assert "--verbose" in capsys.readouterr().err and not Path("out").exists()
