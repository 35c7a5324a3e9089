"""Draws valid random programs from all generators of random programs in the tests."""

from random import Random

from array_programs import ArrayProgram
from cases.control_flow_random import program as control_flow
from cases.dynamic_programs import CASES
from loop_programs import Program as LoopProgram
from programs import program as composed


def program(draw: Random) -> str:
    """Returns the text of a random valid program, from a random generator."""
    return draw.choice(_MAKERS)(draw)


def _composed(draw: Random) -> str:
    return composed(draw.randrange(2**31))


def _arrays(draw: Random) -> str:
    return ArrayProgram(draw.randrange(2**31)).text


def _loops(draw: Random) -> str:
    return LoopProgram(draw.randrange(2**31), smooth=bool(draw.randrange(2))).text


def _control(draw: Random) -> str:
    return control_flow(draw.randrange)


def _from_cases(draw: Random) -> str:
    return CASES[draw.choice(sorted(CASES))][0]


def _elementwise_dynamic(draw: Random) -> str:
    """Returns the text of a program with elementwise ops, followed by a sum along the first dimension.

    Any dimension may be dynamic.
    """
    rank = draw.randint(1, 3)
    sizes = [draw.choice(["?", "?", "4", "1"]) for _ in range(rank)]
    element = draw.choice(["f32", "f64", "complex<f32>", "bf16"])
    type_ = f"tensor<{'x'.join([*sizes, element])}>"
    lines, values = [], ["%x", "%y"]
    for i in range(draw.randint(1, 8)):
        if draw.randrange(2):
            op = draw.choice(["add", "multiply", "subtract", "divide", "power"])
            lines.append(f"%{i} = stablehlo.{op} {draw.choice(values)}, {draw.choice(values)} : {type_}")
        else:
            op = draw.choice(["tanh", "exponential", "negate", "log_plus_one", "sqrt"])
            lines.append(f"%{i} = stablehlo.{op} {draw.choice(values)} : {type_}")
        values.append(f"%{i}")
    kept = "x".join([*sizes[1:], element])
    zero = "(0.0, 0.0)" if element.startswith("complex") else "0.0"
    lines += [
        f"%zero = stablehlo.constant dense<{zero}> : tensor<{element}>",
        f"%r = stablehlo.reduce({values[-1]} init: %zero) applies stablehlo.add across dimensions = [0] : "
        f"({type_}, tensor<{element}>) -> tensor<{kept}>",
    ]
    body = "\n".join(lines)
    return f"func.func @main(%x: {type_}, %y: {type_}) -> tensor<{kept}> {{\n{body}\nreturn %r : tensor<{kept}>\n}}\n"


_MAKERS = (_composed, _arrays, _loops, _control, _from_cases, _elementwise_dynamic)
