"""The heap that the header of a static library states."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from harness.static_libraries import run_library

from tiduc.loading import load


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_constants_in_the_file_leave_the_heap_known(tmp_path: Path) -> None:
    """The function that finds the constants has branches; the header states the bytes of all of them together."""
    numbers = ", ".join(f"{i % 7}.5" for i in range(400))
    program = load(f"""func.func @main(%x: tensor<400xf32>) -> tensor<400xf32> {{
      %c = stablehlo.constant dense<[{numbers}]> : tensor<400xf32>
      %0 = stablehlo.add %x, %c : tensor<400xf32>
      %1 = stablehlo.tanh %0 : tensor<400xf32>
      return %1 : tensor<400xf32>
    }}""")
    x = np.linspace(-9, 0, 400, dtype=np.float32)
    (found,) = run_library(program, (x,), tmp_path)
    np.testing.assert_allclose(found, np.tanh(x + np.arange(400) % 7 + 0.5), atol=1e-5)
    assert "goto b1" in (tmp_path / "net.c").read_text()
    assert "NET_HEAP_BYTES" in (tmp_path / "net.h").read_text()
