"""Programs whose loops and branches pass on the result of a barrier. IREE without tiduc rejects these programs."""

import numpy as np

V, INDEX, I1 = "tensor<4xf64>", "tensor<i64>", "tensor<i1>"


def _loop(result: str, body: str) -> str:
    """A loop of the carries %i, which is doubled until it is %n, and %y, which begins with %b."""
    return f"""%{result}:2 = stablehlo.while(%i = %one, %y = %b) : {INDEX}, {V}
      cond {{
        %less = stablehlo.compare LT, %i, %n, SIGNED : ({INDEX}, {INDEX}) -> {I1}
        stablehlo.return %less : {I1}
      }} do {{
        %next = stablehlo.add %i, %i : {INDEX}
        {body}
        stablehlo.return %next, %z : {INDEX}, {V}
      }}"""


def _program(body: str) -> str:
    return f"""
func.func @main(%x: {V}, %n: {INDEX}) -> ({V}, {V}) {{
  %one = stablehlo.constant dense<1> : {INDEX}
  %square = stablehlo.multiply %x, %x : {V}
  %b = stablehlo.optimization_barrier %square : {V}
  {body}
}}
"""


def _branch(result: str, relation: str, op: str) -> str:
    """A conditional that runs a loop or returns %b."""
    return f"""%p{result} = stablehlo.compare {relation}, %n, %one, SIGNED : ({INDEX}, {INDEX}) -> {I1}
  %{result} = "stablehlo.if"(%p{result}) ({{
    {_loop("w", f"%z = stablehlo.{op} %y, %x : {V}")}
    stablehlo.return %w#1 : {V}
  }}, {{
    stablehlo.return %b : {V}
  }}) : ({I1}) -> {V}"""


BRANCHES = f"""{_branch("r", "GT", "multiply")}
  {_branch("s", "LT", "add")}
  return %r, %s : {V}, {V}"""
FACTORS = f"""%float = stablehlo.convert %i : ({INDEX}) -> tensor<f64>
        %first = stablehlo.reshape %float : (tensor<f64>) -> tensor<1xf64>
        %others = stablehlo.slice %x [1:4] : ({V}) -> tensor<3xf64>
        %factors = stablehlo.concatenate %first, %others, dim = 0 : (tensor<1xf64>, tensor<3xf64>) -> {V}
        %z = stablehlo.multiply %y, %factors : {V}"""
LOOPS = f"""{_loop("r", FACTORS)}
  %twice = stablehlo.add %n, %n : {INDEX}
  {_loop("s", FACTORS).replace("%n,", "%twice,")}
  return %r#1, %s#1 : {V}, {V}"""
"""The compiler moves the empty result of a concatenation out of a loop."""
_ARGUMENTS = np.array([0.5, -1.5, 2.0, 1.25]), np.array(4, np.int64)
SIZES = {
    "barrier_in_branches": (_program(BRANCHES), _ARGUMENTS, None),
    "barrier_before_loops": (_program(LOOPS), _ARGUMENTS, None),
}
"""Maps the names of witnesses to programs and arguments.

None stands for the expected results, which the reference interpreter computes.
"""
