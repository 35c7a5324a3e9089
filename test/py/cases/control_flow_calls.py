"""Control-flow programs with branches and calls as text. They are added to the table in `control_flow_texts.py`."""

import numpy as np

from cases.control_flow_texts import W, X, Y, counting_loop, text

# ---- branches -------------------------------------------------------------------------------------------------

for _index in (-1, 0, 1, 2, 5):
    text(
        f"case_{_index}",
        f"""func.func @main(%k: !i, %x: !f, %w: !f) -> (!f, !f, !i) {{
    %zero = stablehlo.constant dense<0> : !i
    %first = stablehlo.constant dense<1> : !i
    %s = stablehlo.sine %x : !f
    %r:3 = "stablehlo.case"(%k) ({{
      %t = stablehlo.multiply %s, %w : !f
      stablehlo.return %t, %x, %zero : !f, !f, !i
    }}, {{
      %q:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f {counting_loop(3)}
        %p = stablehlo.compare EQ, %i, %first : (!i, !i) -> !b
        %u = "stablehlo.if"(%p) ({{
          %v = stablehlo.multiply %a, %s : !f
          stablehlo.return %v : !f
        }}, {{
          %v = stablehlo.multiply %a, %w : !f
          %y = stablehlo.cosine %v : !f
          stablehlo.return %y : !f
        }}) : (!b) -> !f
        stablehlo.return %n, %u : !i, !f
      }}
      stablehlo.return %q#1, %w, %q#0 : !f, !f, !i
    }}, {{
      %c = stablehlo.constant dense<0.3> : !f
      %t = stablehlo.cosine %w : !f
      stablehlo.return %c, %t, %first : !f, !f, !i
    }}) : (!i) -> (!f, !f, !i)
    %z = stablehlo.multiply %r#0, %r#1 : !f
    return %z, %r#1, %r#2 : !f, !f, !i
  }}""",
        np.int32(_index),
        X,
        Y,
    )

text(
    "if_of_nothing",
    """func.func @main(%x: !f, %p: !b) -> (!f, !f) {
    %a, %c = "stablehlo.if"(%p) ({
      %s = stablehlo.constant dense<1.5> : !f
      stablehlo.return %s, %x : !f, !f
    }, {
      stablehlo.return %x, %x : !f, !f
    }) : (!b) -> (!f, !f)
    %d = stablehlo.multiply %a, %c : !f
    return %a, %d : !f, !f
  }""",
    X,
    np.bool_(True),
)

# ---- calls ----------------------------------------------------------------------------------------------------

text(  # arguments are repeated, unused, inactive, integers, or returned
    "arguments_of_calls",
    """func.func private @f(%a: !f, %c: !f, %k: !i, %d: !f) -> (!f, !f, !i, !f) attributes {no_inline} {
    %s = stablehlo.multiply %a, %c : !f
    %t = stablehlo.sine %s : !f
    return %t, %c, %k, %t : !f, !f, !i, !f
  }
  func.func @main(%x: !f, %y: !f, %k: !i) -> (!f, !f, !f, !i) {
    %h = stablehlo.constant dense<5.000000e-01> : !f
    %r:4 = call @f(%x, %x, %k, %y) : (!f, !f, !i, !f) -> (!f, !f, !i, !f)
    %q:4 = call @f(%h, %r#1, %r#2, %h) : (!f, !f, !i, !f) -> (!f, !f, !i, !f)
    %o:4 = call @f(%q#3, %h, %k, %x) : (!f, !f, !i, !f) -> (!f, !f, !i, !f)
    %p:4 = call @f(%h, %h, %k, %x) : (!f, !f, !i, !f) -> (!f, !f, !i, !f)
    %z = stablehlo.multiply %o#0, %p#0 : !f
    return %z, %q#0, %r#1, %q#2 : !f, !f, !f, !i
  }""",
    X,
    Y,
    np.int32(3),
)

text(
    "call_in_loop_in_call",
    f"""func.func private @cell(%a: !f, %w: !f) -> !f attributes {{no_inline}} {{
    %m = stablehlo.multiply %a, %w : !f
    %s = stablehlo.tanh %m : !f
    return %s : !f
  }}
  func.func private @chain(%x: !f, %w: !f) -> (!f, !f) attributes {{no_inline}} {{
    %zero = stablehlo.constant dense<0> : !i
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : !i, !f {counting_loop(3)}
      %s = func.call @cell(%a, %w) : (!f, !f) -> !f
      %t = func.call @cell(%s, %s) : (!f, !f) -> !f
      %u = stablehlo.add %s, %t : !f
      stablehlo.return %n, %u : !i, !f
    }}
    %z = call @cell(%w, %x) : (!f, !f) -> !f
    return %r#1, %z : !f, !f
  }}
  func.func @main(%x: !f, %w: !f) -> (!f, !f) {{
    %r:2 = call @chain(%x, %w) : (!f, !f) -> (!f, !f)
    %q:2 = call @chain(%r#1, %r#0) : (!f, !f) -> (!f, !f)
    %y = stablehlo.multiply %q#0, %r#0 : !f
    return %y, %q#1 : !f, !f
  }}""",
    X,
    1.4,
)

text(  # a + c + a c by two functions, called in a reducer, where calls must be inlined, and elsewhere
    "call_in_reduce",
    """func.func private @g(%a: !f, %c: !f) -> !f attributes {no_inline} {
    %s = stablehlo.multiply %a, %c : !f
    return %s : !f
  }
  func.func private @f(%a: !f, %c: !f) -> !f attributes {no_inline} {
    %h = stablehlo.constant dense<5.000000e-01> : !f
    %b = stablehlo.multiply %h, %a : !f
    %s = call @g(%b, %c) : (!f, !f) -> !f
    %t = call @g(%c, %b) : (!f, !f) -> !f
    %u = stablehlo.add %s, %t : !f
    %v = stablehlo.add %a, %c : !f
    %w = stablehlo.add %u, %v : !f
    return %w : !f
  }
  func.func @main(%x: !v, %y: !f) -> (!f, !f) {
    %r = stablehlo.reduce(%x init: %y) across dimensions = [0] : (!v, !f) -> !f
      reducer(%a: !f, %c: !f) {
        %s = func.call @f(%a, %c) : (!f, !f) -> !f
        stablehlo.return %s : !f
      }
    %q = call @f(%r, %y) : (!f, !f) -> !f
    return %r, %q : !f, !f
  }""",
    W,
    Y,
)
