"""The host code of static libraries: scalar ops in C have the results of MLIR's ops, and no undefined behaviour."""

import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
from iree.compiler import ir

from tiduc.backends.iree.static.arithmetic import expression
from tiduc.backends.iree.static.host import TYPES

WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
OPS = "addi subi muli andi ori xori shli shrui shrsi minsi maxsi minui maxui".split()
OF_TRUTH = "addi subi muli andi ori xori".split()


def wrapped(x: int, bits: int) -> int:
    """The signed integer with the last bits of x. A truth value is 0 or 1 in C."""
    x %= 2**bits
    return x - 2**bits if bits > 1 and x >= 2 ** (bits - 1) else x


def wanted(name: str, x: int, y: int, bits: int) -> int | None:
    """The result of an op. None for a shift by the width or more, whose result MLIR does not define."""
    unsigned, other = x % 2**bits, y % 2**bits
    if name.startswith("sh"):
        if other >= bits:
            return None
        return wrapped(
            {"shli": unsigned << other, "shrui": unsigned >> other, "shrsi": x >> other}[name], bits
        )
    if name in ("minui", "maxui"):
        return wrapped((min if name == "minui" else max)(unsigned, other), bits)
    if name in ("minsi", "maxsi"):
        return (min if name == "minsi" else max)(x, y)
    of = {"addi": x + y, "subi": x - y, "muli": x * y, "andi": x & y, "ori": x | y, "xori": x ^ y}
    return wrapped(of[name], bits)


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_ops_on_integers(tmp_path: Path) -> None:
    """A call for each op, each type, and each pair of numbers near the limits of the type."""
    calls, functions, exact = [], [], []
    for kind, bits in WIDTHS.items():
        some = {0, 1} if bits == 1 else {0, 1, 3, -1, -7, bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)) + 1}
        for name in OF_TRUTH if bits == 1 else OPS:
            text = f"func.func @f(%x: {kind}, %y: {kind}) {{\n%0 = arith.{name} %x, %y : {kind}\nreturn\n}}"
            with ir.Context():
                module = ir.Module.parse(text)
                block = module.body.operations[0].operation.regions[0].blocks[0]
                names = dict(zip(block.arguments, "xy", strict=True))
                body = expression(block.operations[0].operation, names.__getitem__)
            c, f = TYPES[kind], f"{name}_{kind}"
            functions.append(f"static {c} {f}({c} x, {c} y) {{ return {body}; }}")
            for x, y in product(sorted(some), repeat=2):
                calls.append(f"printf({chr(34)}%lld\\n{chr(34)}, (long long){f}({x}, {y}));")
                exact.append((f, x, y, wanted(name, x, y, bits)))
    lines = "\n".join((*functions, "int main(void) {", *calls, "return 0;", "}"))
    (tmp_path / "main.c").write_text(
        f"#include <stdbool.h>\n#include <stdint.h>\n#include <stdio.h>\n{lines}\n"
    )
    checked = "-fsanitize=undefined", "-fno-sanitize-recover"
    subprocess.run(["gcc", "-std=c11", *checked, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    ended = subprocess.run([tmp_path / "main"], check=True, stdout=subprocess.PIPE, text=True)
    for (f, x, y, z), found in zip(exact, ended.stdout.split(), strict=True):
        assert z is None or int(found) == z, (f, x, y)
