"""Random command lines of `tiduc`."""

from random import Random

from operations import MEMORIES, pipeline

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
_STAGES = ("import", "linearize", "linear_transpose", "materialize_merge", "structure", "lower", "parse")


def of_program(draw: Random, file: str) -> list[str]:
    """A command line that differentiates the program in a file, or looks into it; it has no mistakes."""
    return draw.choices([_derivative, _whole, _look, _opt, _link, _check], [8, 2, 5, 3, 1, 1])[0](draw, file)


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
    line = [draw.choice(["jacobian", "hessian", "laplacian"]), file]
    return line + (["--sparsity", "auto"] if line[0] != "laplacian" and draw.randrange(3) == 0 else [])


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
    return ["check", file, "--engine", "reference", "--input", draw.choice(["random", "zeros"])]


def of_arrays(draw: Random, file: str) -> list[str]:
    """A command line that reads arrays from a file."""
    return draw.choice(
        [
            ["check", "other.mlir", "--engine", "reference", "--input", f"@{file}"],
            ["check", "other.mlir", "--engine", "reference", "--input", "random", "--expect", file],
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
    """A command line that runs a compiled module."""
    return ["run", file, "--input", draw.choice(["random", "zeros", "1", "2x3xf32=1"])]


def of_model(draw: Random, file: str) -> list[str]:
    """A command line that imports a model."""
    if draw.randrange(6) == 0:
        return ["import", file, "--weights", "weights.npz"]
    return [
        "import",
        file,
        *draw.choice([[], ["--lift-constants"], ["--size", "batch=2"], ["--size", "x=-1"]]),
    ]


def of_cache(draw: Random, file: str) -> list[str]:
    """A command line about the cache."""
    return ["cache", draw.choice(["info", "clear"]), *draw.choice([[], ["--json"]])]


def mistaken(draw: Random, file: str) -> list[str]:
    """A command line with options that may be wrong, or fit neither the command nor the program."""
    line = of_program(draw, file)
    for _ in range(draw.randint(1, 3)):
        line += draw.choice(
            [
                ["--wrt", draw.choice(_WRT)],
                ["--wrt", draw.choice(_WRT)],
                ["--entry", draw.choice(["main", "none", "", "@main", "é"])],
                ["--stop-after", draw.choice(_STAGES)],
                ["--batch", draw.choice(["0", "1", "-1", "99999999999999999999", "x"])],
                ["--rules", draw.choice(["none", "os", "input.mlir", "tiduc.passes.rules", "", "os:path"])],
                ["-o", draw.choice(["out.mlir", "none/x", "new/", ".", "", "a\tb", "x" * 300])],
                ["--input", draw.choice(_INPUTS)],
                ["--input", draw.choice(_INPUTS)],
                ["--seed", draw.choice(["0", "-1", "99999999999999999999", "x"])],
                ["--emit", draw.choice(["text", "bytecode", "artifact", "none"])],
                [
                    draw.choice(
                        ["--json", "--inline", "--value", "--conjugate", "--none", "-", "", "--", "-q"]
                    )
                ],
                [draw.choice(["none.mlir", ".", "/dev/null", "other.mlir", "é", "\udcff"])],
                [f"--pass-pipeline={draw.choice(_PIPELINES)}"],
                ["--graph", draw.choice(["main", "none", ""])],
                ["--mode", draw.choice(["forward", "reverse", "none"])],
                ["--expect", draw.choice(["input.mlir", "none.npz", ".", ""])],
            ]
        )
    if draw.randrange(6) == 0:
        line = [
            "check",
            file,
            "--engine",
            "reference",
            *[x for _ in range(2) for x in ("--input", draw.choice(_INPUTS))],
        ]
    if draw.randrange(12) == 0:
        draw.shuffle(line)
    return line


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
