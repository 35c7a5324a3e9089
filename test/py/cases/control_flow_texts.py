"""Programs with loops, branches and calls in forms that no front end emits.

The tables map names to texts and arguments. The types !f, !i and !b are scalars of f64, i32 and i1. The types !v and !m
are vectors of three and five f64 numbers.
"""

from typing import Any

import numpy as np

ALIASES = """
!f = tensor<f64>
!v = tensor<3xf64>
!m = tensor<5xf64>
!i = tensor<i32>
!b = tensor<i1>
"""
TEXTS: dict[str, tuple[str, tuple[Any, ...]]] = {}
UNBOUNDED_TEXTS: dict[str, tuple[str, tuple[Any, ...]]] = {}
"""Programs with loops whose trip count is not known before they end."""

X, Y, W = 0.4, 0.7, np.array([0.3, 0.8, 0.5])


def text(name: str, body: str, *arguments: Any, of: dict[str, Any] = TEXTS) -> None:
    of[name] = ALIASES + body, arguments


def counting_loop(limit: int) -> str:
    """Returns the condition of a loop with the counter %i, and the beginning of the loop's body."""
    return f"""cond {{
      %limit = stablehlo.constant dense<{limit}> : !i
      %p = stablehlo.compare LT, %i, %limit : (!i, !i) -> !b
      stablehlo.return %p : !b
    }} do {{
      %one = stablehlo.constant dense<1> : !i
      %n = stablehlo.add %i, %one : !i"""


# ---- carried values ------------------------------------------------------------------------------------------

text(
    "swapped_carries",
    f"""func.func @main(%x: !f, %y: !f, %w: !f) -> (!f, !f) {{
    %zero = stablehlo.constant dense<0> : !i
    %r:3 = stablehlo.while(%a = %x, %i = %zero, %c = %y) : !f, !i, !f {counting_loop(3)}
      %s = stablehlo.sine %a : !f
      %t = stablehlo.multiply %s, %w : !f
      stablehlo.return %c, %n, %t : !f, !i, !f
    }}
    return %r#0, %r#2 : !f, !f
  }}""",
    X,
    Y,
    1.3,
)

text(  # %a is kept, %c becomes %a, %d becomes %x, %e is unused, %g becomes %d
    "idle_carries",
    f"""func.func @main(%x: !f, %y: !f) -> (!f, !f, !f, !f, !f) {{
    %zero = stablehlo.constant dense<0> : !i
    %r:6 = stablehlo.while(%i = %zero, %a = %y, %c = %x, %d = %y, %e = %y, %g = %x)
        : !i, !f, !f, !f, !f, !f {counting_loop(4)}
      %s = stablehlo.multiply %g, %c : !f
      stablehlo.return %n, %a, %a, %x, %s, %d : !i, !f, !f, !f, !f, !f
    }}
    return %r#1, %r#2, %r#3, %r#4, %r#5 : !f, !f, !f, !f, !f
  }}""",
    X,
    Y,
)

text(  # one value initializes two carried values; the outputs repeat results, and include the argument
    "one_start",
    f"""func.func @main(%x: !f) -> (!f, !f, !f) {{
    %zero = stablehlo.constant dense<0> : !i
    %r:3 = stablehlo.while(%a = %x, %c = %x, %i = %zero) : !f, !f, !i {counting_loop(3)}
      %s = stablehlo.sine %c : !f
      %t = stablehlo.multiply %a, %s : !f
      stablehlo.return %t, %a, %n : !f, !f, !i
    }}
    %y = stablehlo.multiply %r#0, %r#0 : !f
    %z = stablehlo.add %y, %x : !f
    return %z, %r#0, %x : !f, !f, !f
  }}""",
    X,
)

text(
    "integer_index",
    f"""func.func @main(%x: !m) -> !f {{
    %zero = stablehlo.constant dense<0> : !i
    %start = stablehlo.constant dense<2> : !i
    %init = stablehlo.constant dense<1.0> : !f
    %r:3 = stablehlo.while(%i = %zero, %k = %start, %c = %init) : !i, !i, !f {counting_loop(4)}
      %three = stablehlo.constant dense<3> : !i
      %five = stablehlo.constant dense<5> : !i
      %l = stablehlo.multiply %k, %three : !i
      %k2 = stablehlo.remainder %l, %five : !i
      %e = stablehlo.dynamic_slice %x, %k, sizes = [1] : (!m, !i) -> tensor<1xf64>
      %s = stablehlo.reshape %e : (tensor<1xf64>) -> !f
      %t = stablehlo.sine %s : !f
      %u = stablehlo.multiply %t, %c : !f
      stablehlo.return %n, %k2, %u : !i, !i, !f
    }}
    return %r#2 : !f
  }}""",
    np.array([0.3, 0.8, 0.5, 0.9, 0.2]),
)

text(
    "in_place",
    f"""func.func @main(%x: !m, %y: !f) -> (!m, !f) {{
    %zero = stablehlo.constant dense<0> : !i
    %r:3 = stablehlo.while(%i = %zero, %c = %x, %s = %y) : !i, !m, !f {counting_loop(5)}
      %e = stablehlo.dynamic_slice %c, %i, sizes = [1] : (!m, !i) -> tensor<1xf64>
      %f = stablehlo.reshape %e : (tensor<1xf64>) -> !f
      %g = stablehlo.multiply %f, %s : !f
      %h = stablehlo.sine %g : !f
      %u = stablehlo.reshape %h : (!f) -> tensor<1xf64>
      %d = stablehlo.dynamic_update_slice %c, %u, %n : (!m, tensor<1xf64>, !i) -> !m
      %t = stablehlo.add %s, %f : !f
      stablehlo.return %n, %d, %t : !i, !m, !f
    }}
    return %r#1, %r#2 : !m, !f
  }}""",
    np.array([0.3, 0.8, 0.5, 0.9, 0.2]),
    Y,
)

text(
    "empty_carry",
    f"""func.func @main(%x: tensor<0xf64>, %y: !f) -> (tensor<0xf64>, !f) {{
    %zero = stablehlo.constant dense<0> : !i
    %r:3 = stablehlo.while(%i = %zero, %a = %x, %c = %y) : !i, tensor<0xf64>, !f {counting_loop(3)}
      %s = stablehlo.sine %a : tensor<0xf64>
      %m = stablehlo.multiply %s, %a : tensor<0xf64>
      %t = stablehlo.multiply %c, %y : !f
      stablehlo.return %n, %m, %t : !i, tensor<0xf64>, !f
    }}
    return %r#1, %r#2 : tensor<0xf64>, !f
  }}""",
    np.zeros(0),
    Y,
)

text(
    "complex_carry",
    f"""!c = tensor<complex<f64>>
  func.func @main(%x: !c, %w: !c) -> !c {{
    %zero = stablehlo.constant dense<0> : !i
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !c {counting_loop(3)}
      %s = stablehlo.multiply %a, %a : !c
      %t = stablehlo.multiply %s, %w : !c
      %u = stablehlo.add %t, %x : !c
      stablehlo.return %n, %u : !i, !c
    }}
    return %r#1 : !c
  }}""",
    0.4 + 0.3j,
    0.5 - 0.6j,
)

text(
    "float_counter",
    """func.func @main(%x: !f) -> (!f, !f) {
    %zero = stablehlo.constant dense<0.0> : !f
    %r:2 = stablehlo.while(%t = %zero, %a = %x) : !f, !f cond {
      %limit = stablehlo.constant dense<2.75> : !f
      %p = stablehlo.compare LE, %t, %limit : (!f, !f) -> !b
      stablehlo.return %p : !b
    } do {
      %half = stablehlo.constant dense<5.000000e-01> : !f
      %n = stablehlo.add %t, %half : !f
      %s = stablehlo.multiply %a, %t : !f
      %u = stablehlo.cosine %s : !f
      stablehlo.return %n, %u : !f, !f
    }
    return %r#0, %r#1 : !f, !f
  }""",
    X,
    of=UNBOUNDED_TEXTS,
)

text(
    "done_flag",
    """func.func @main(%x: !f, %w: !f) -> !f {
    %go = stablehlo.constant dense<true> : !b
    %r:2 = stablehlo.while(%p = %go, %a = %x) : !b, !f cond {
      stablehlo.return %p : !b
    } do {
      %limit = stablehlo.constant dense<2.6> : !f
      %s = stablehlo.multiply %a, %w : !f
      %t = stablehlo.add %s, %x : !f
      %q = stablehlo.compare LT, %t, %limit : (!f, !f) -> !b
      stablehlo.return %q, %t : !b, !f
    }
    return %r#1 : !f
  }""",
    X,
    1.2,
    of=UNBOUNDED_TEXTS,
)

text(  # the condition captures values and calls a function with a loop
    "captured_condition",
    """func.func private @power(%x: !f, %i: !i) -> !f attributes {no_inline} {
    %one = stablehlo.constant dense<1.0> : !f
    %r:2 = stablehlo.while(%k = %i, %a = %one) : !i, !f cond {
      %zero = stablehlo.constant dense<0> : !i
      %p = stablehlo.compare GT, %k, %zero : (!i, !i) -> !b
      stablehlo.return %p : !b
    } do {
      %back = stablehlo.constant dense<-1> : !i
      %l = stablehlo.add %k, %back : !i
      %b = stablehlo.multiply %a, %x : !f
      stablehlo.return %l, %b : !i, !f
    }
    return %r#1 : !f
  }
  func.func @main(%x: !f, %limit: !f) -> (!f, !f) {
    %zero = stablehlo.constant dense<0> : !i
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f cond {
      %two = stablehlo.constant dense<2> : !i
      %s = func.call @power(%a, %two) : (!f, !i) -> !f
      %p = stablehlo.compare LT, %s, %limit : (!f, !f) -> !b
      stablehlo.return %p : !b
    } do {
      %one = stablehlo.constant dense<1> : !i
      %n = stablehlo.add %i, %one : !i
      %t = func.call @power(%x, %n) : (!f, !i) -> !f
      %u = stablehlo.add %a, %t : !f
      %v = stablehlo.multiply %u, %limit : !f
      stablehlo.return %n, %v : !i, !f
    }
    %y = func.call @power(%r#1, %r#0) : (!f, !i) -> !f
    return %r#1, %y : !f, !f
  }""",
    X,
    1.7,
    of=UNBOUNDED_TEXTS,
)

# ---- several loops --------------------------------------------------------------------------------------------

SAME = f"""{counting_loop(3)}
      %s = stablehlo.sine %a : !f
      %t = stablehlo.multiply %s, %w : !f
      stablehlo.return %n, %t : !i, !f
    }}"""

text(
    "same_body_twice",
    f"""func.func @main(%x: !f, %w: !f) -> (!f, !f) {{
    %zero = stablehlo.constant dense<0> : !i
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f {SAME}
    %q:2 = stablehlo.while(%i = %zero, %a = %r#1) : !i, !f {SAME}
    %o:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f {SAME}
    return %q#1, %o#1 : !f, !f
  }}""",
    X,
    1.2,
)

text(
    "unused_loop",
    f"""func.func @main(%x: !f, %w: !f) -> (!f, !i) {{
    %zero = stablehlo.constant dense<0> : !i
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f {SAME}
    %q:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f {SAME}
    %y = stablehlo.multiply %x, %w : !f
    return %y, %q#0 : !f, !i
  }}""",
    X,
    1.2,
)

text(  # the trip count is the counter of the outer loop
    "triangular",
    f"""func.func @main(%x: !f, %w: !f) -> !f {{
    %zero = stablehlo.constant dense<0> : !i
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f {counting_loop(4)}
      %q:2 = stablehlo.while(%j = %zero, %c = %a) : !i, !f cond {{
        %p = stablehlo.compare LT, %j, %i : (!i, !i) -> !b
        stablehlo.return %p : !b
      }} do {{
        %k = stablehlo.add %j, %one : !i
        %s = stablehlo.multiply %c, %w : !f
        %t = stablehlo.sine %s : !f
        %u = stablehlo.add %t, %a : !f
        stablehlo.return %k, %u : !i, !f
      }}
      stablehlo.return %n, %q#1 : !i, !f
    }}
    return %r#1 : !f
  }}""",
    X,
    Y,
    of=UNBOUNDED_TEXTS,
)

# ---- counters: (type, start, step, limit, direction, iterations) --------------------------------------------------

COUNTERS = (
    ("i32", 0, 1, 0, "LT", 0),
    ("i64", 3, 1, 4, "LT", 1),
    ("ui32", 0, 2, 3, "LT", 2),
    ("i8", 100, 9, 126, "LT", 3),
    ("i8", -120, 60, 119, "LE", 4),
    ("i32", 1, 3, 10, "LE", 4),
    ("i16", 5, -1, 2, "GT", 3),
    ("i64", 4, -2, -3, "GE", 4),
    ("ui8", 250, -1, 247, "NE", 3),
    ("i32", 7, 1, 7, "EQ", 1),
    ("i32", 0, 1, 7, "EQ", 0),
    ("ui64", 2, 1, 2, "NE", 0),
)
"""Counters for which the trip count is known at compile time if start, step and limit are constants."""


def counter(type_: str, start: int, step: int, limit: int, direction: str, where: str) -> str:
    """Returns the text of a program whose loop has this counter.

    `where` is "inside" or "outside" if the constants of the counter are inside or outside the loop. If it is "swapped",
    they are inside, and the operands of the comparison are swapped. If it is "argument", the limit is an argument.
    """
    down = step < 0 and type_.startswith("u")
    parts = {"start": start, "step": abs(step) if down else step, "limit": limit}
    constants = [f"%{name} = stablehlo.constant dense<{x}> : !n" for name, x in parts.items()]
    inside = where != "outside"
    sides = "%limit, %i : (!n, !n) -> !b" if where == "swapped" else "%i, %limit : (!n, !n) -> !b"
    if where == "swapped":
        direction = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    limit_inside = constants[2] if inside and where != "argument" else ""
    argument = ", %limit: !n" if where == "argument" else ""
    step_inside, limit_outside = ("", "\n".join(constants[1:])) if where == "outside" else (constants[1], "")
    return f"""{ALIASES}!n = tensor<{type_}>
  func.func @main(%x: !f, %w: !f{argument}) -> (!f, !n) {{
    {constants[0]}
    {limit_outside}
    %r:2 = stablehlo.while(%i = %start, %a = %x) : !n, !f cond {{
      {limit_inside}
      %p = stablehlo.compare {direction}, {sides}
      stablehlo.return %p : !b
    }} do {{
      {step_inside}
      %n = stablehlo.{"subtract" if down else "add"} %i, %step : !n
      %k = stablehlo.convert %i : (!n) -> !f
      %s = stablehlo.multiply %a, %w : !f
      %t = stablehlo.add %s, %k : !f
      %u = stablehlo.sine %t : !f
      stablehlo.return %n, %u : !n, !f
    }}
    return %r#1, %r#0 : !f, !n
  }}"""
