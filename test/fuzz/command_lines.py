"""Draws random command lines of `tiduc`."""

from random import Random

import click
from operations import MEMORIES, pipeline

from tiduc.cli import tiduc

_WRT = ("0", "1", "0,1", "x", "arg0", "@x", "-1", "9", "", ",", "0,0", "result0", "x,x", "é", "params['w1']")
_INPUTS = (
    *(
        "random",
        "zeros",
        "4xf32=1,2,3,4",
        "4xf32=0",
        "1,2,3",
        "2x2xf64=[[1,2],[3,4]]",
        "2xcomplex<f32>=1+2j,3",
    ),
    *(
        "4xf32=nan",
        "4xi8=300",
        "f32=1e400",
        "0xf32=",
        "4x=1",
        "=",
        "x",
        "@none.npz",
        "@input.mlir",
        "@.",
        "[[",
        "1,,2",
    ),
    *(
        "-1xf32=1",
        "9999999999999xf32=0",
        "9223372036854775807xi1=random",
        "4xf33=1",
        "i1=maybe",
        "4xbf16=1",
        "@",
    ),
    *(
        "2x2xf64=[[1,2],[3]]",
        "1e999999999",
        "4xf32=1_0",
        "0x0x0xf32=zeros",
        "?xf32=1,2",
        "?xf32=random",
        "@\0",
    ),
)
_INTERPRETED = ("--engine", "reference", "--compile-timeout", "10")
_STAGES = ("import", "linearize", "linear_transpose", "materialize_merge", "structure", "lower", "parse")


def of_program(draw: Random, file: str) -> list[str]:
    """Returns a random valid command line that transforms, shows or checks the program in a file."""
    return draw.choices([_derivative, _whole, _jet, _look, _opt, _link, _check], [8, 2, 2, 5, 3, 1, 1])[0](
        draw, file
    )


def _derivative(draw: Random, file: str) -> list[str]:
    name = draw.choice(["jvp", "vjp", "vjp", "grad", "hvp"])
    line = [name, file, "--loop-memory", draw.choice(MEMORIES)]
    if name in ("jvp", "vjp") and draw.randrange(4) == 0:
        line += ["--batch", str(draw.randint(1, 4))]
    if draw.randrange(3) == 0:
        stages = ["import", "linearize", "materialize_merge", "structure", "lower"]
        line += ["--stop-after", draw.choice(stages)]
    if draw.randrange(3) == 0:
        line += ["--emit", draw.choice(["text", "bytecode", "artifact"])]
    return line + (["--inline"] if draw.randrange(5) == 0 else [])


def _whole(draw: Random, file: str) -> list[str]:
    line = [draw.choice(["jacobian", "hessian", "laplacian", "gauss-newton"]), file]
    if line[0] != "laplacian" and draw.randrange(3) == 0:
        line += draw.choice([["--sparsity", "auto"], ["--compressed", draw.choice(["csr", "csc"])]])
    return line


def _jet(draw: Random, file: str) -> list[str]:
    return ["jet", file, "--order", str(draw.randint(1, 4)), *draw.choice([[], [], ["--derivatives"]])]


def _look(draw: Random, file: str) -> list[str]:
    if draw.randrange(3) == 0:
        return ["explain", file, *(["--json"] if draw.randrange(2) else [])]
    if draw.randrange(3) == 0:
        return ["split", file, "-o", "parts"]
    line = ["view", file, "--format", draw.choice(["txt", "txt", "dot", "dot", "html", "svg"])]
    if draw.randrange(2):
        line += ["--derivative", draw.choice(["jvp", "vjp", "grad", "hvp"])]
    return line + (["--no-fold"] if draw.randrange(3) == 0 else [])


def _opt(draw: Random, file: str) -> list[str]:
    line = ["opt", file, f"--pass-pipeline={pipeline(draw)}"]
    return line + draw.choice(
        [[], [], ["--split-input-file"], ["--mlir-print-ir-after-all"], ["--no-verify-each"]]
    )


def _link(draw: Random, file: str) -> list[str]:
    return ["link", *draw.choice([[file], [file, file], [file, "other.mlir"], ["other.mlir", file]])]


def _check(draw: Random, file: str) -> list[str]:
    return ["check", file, *_INTERPRETED, "--input", draw.choice(["random", "zeros"])]


def of_arrays(draw: Random, file: str) -> list[str]:
    """Returns a random command line that reads arrays from a file."""
    return draw.choice(
        [
            ["check", "other.mlir", *_INTERPRETED, "--input", f"@{file}"],
            ["check", "other.mlir", *_INTERPRETED, "--input", "random", "--expect", file],
            [
                "check",
                "other.mlir",
                "--engine",
                "reference",
                "--input",
                f"@{file}:x",
                "--input",
                f"@{file}:*",
            ],
        ]
    )


def of_compiled(draw: Random, file: str) -> list[str]:
    """Returns a random command line that runs a compiled module."""
    return ["run", file, "--input", draw.choice(["random", "zeros", "1", "2x3xf32=1"])]


def of_model(draw: Random, file: str) -> list[str]:
    """Returns a random command line that imports a model."""
    if draw.randrange(6) == 0:
        return ["import", file, "--weights", "weights.npz"]
    return [
        "import",
        file,
        *draw.choice([[], ["--lift-constants"], ["--size", "batch=2"], ["--size", "x=-1"]]),
    ]


def of_cache(draw: Random, file: str) -> list[str]:
    """Returns a random command line of `tiduc cache`."""
    return ["cache", draw.choice(["info", "clear"]), *draw.choice([[], ["--json"]])]


def mistaken(draw: Random, file: str) -> list[str]:
    """Returns a random command line with random options, which may be invalid.

    The command has most of these options.
    """
    line = of_program(draw, file)
    known = {option for parameter in command(line[0]).params for option in parameter.opts}
    for _ in range(draw.randint(1, 3)):
        option = draw.choice([*(name for name in _VALUES if name in known), draw.choice(list(_VALUES))])
        line += [option, draw.choice(_VALUES[option])]
    if draw.randrange(8) == 0:
        line.append(draw.choice([*_FLAGS, "none.mlir", ".", "/dev/null", "é", "\udcff"]))
    if draw.randrange(6) == 0:
        line = ["check", file, *_INTERPRETED]
        line += [word for _ in range(draw.randint(1, 3)) for word in ("--input", draw.choice(_INPUTS))]
    if draw.randrange(12) == 0:
        draw.shuffle(line)
    return line


def command(name: str) -> click.Command:
    """Returns the command of tiduc with this name."""
    named = tiduc.get_command(click.Context(tiduc), name)
    assert named is not None
    return named


_FLAGS = (
    "--json",
    "--inline",
    "--value",
    "--conjugate",
    "--none",
    "-",
    "",
    "--",
    "-q",
    "--no-fold",
    "--help",
)
_PIPELINES = (
    *(
        "",
        ",",
        "(",
        "tidu-import{",
        "tidu-import{x}",
        "tidu-batch{size=-1}",
        "tidu-batch{size=99999999999999}",
    ),
    *(
        "func.func(tidu-import)",
        "tidu-linearize{wrt=}",
        "tidu-linearize{outputs=@a::@b}",
        "any(cse)",
        "none",
        "cse{",
    ),
    *(
        "tidu-import,tidu-linearize{wrt=x name=main}",
        "tidu-import,tidu-batch{size=2 inputs=x,x}",
        "builtin.module()",
    ),
    *(
        "tidu-import,tidu-materialize-merge{values=@main::@x,@main::@x}",
        "func.func(func.func(cse))",
        "é",
        "\0",
    ),
    "tidu-structure{loop-memory=none}",
)
_VALUES: dict[str, tuple[str, ...]] = {
    "--wrt": _WRT,
    "--entry": ("main", "none", "", "@main", "é"),
    "--stop-after": _STAGES,
    "--batch": ("0", "1", "7", "-1", "99999999999999999999", "4294967296", "x"),
    "--order": ("0", "1", "3", "-1", "99999999999999999999", "x"),
    "--rules": ("none", "os", "input.mlir", "tiduc.passes.rules", "", "os:path", ".", ":", "a:b:c"),
    "-o": ("out.mlir", "none/x", "new/", ".", "", "a\tb", "x" * 300, "out.svg", "out.npz"),
    "--input": _INPUTS,
    "--seed": ("0", "-1", "99999999999999999999", "x"),
    "--emit": ("text", "bytecode", "artifact", "none"),
    "--pass-pipeline": _PIPELINES,
    "--graph": ("main", "none", "", "f0"),
    "--mode": ("forward", "reverse", "none"),
    "--compressed": ("csr", "csc", "coo"),
    "--sparsity": ("auto", "diagonal", "block-diagonal"),
    "--expect": ("input.mlir", "none.npz", ".", ""),
    "--search-path": (".", "none", "", "input.mlir"),
    "--format": ("svg", "html", "dot", "txt"),
    "--derivative": ("jvp", "vjp", "grad", "hvp"),
}
