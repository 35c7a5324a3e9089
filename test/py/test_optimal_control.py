"""The example problem of optimal control: scipy, an SQP method in C, and CasADi solve it with tiduc's derivatives."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiduc.backends.backend import Options
from tiduc.backends.iree.static.library import compile_library

EXAMPLES = Path(__file__).parents[2] / "examples"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("optimal_control", EXAMPLES / "optimal_control.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.more
def test_scipy_solves_the_example() -> None:
    pytest.importorskip("scipy")
    module = example()
    problem = module.Problem()
    found = module.solve(problem)
    assert found.constr_violation < 1e-9
    results = problem.at(found.x, 1.0, found.v[0])
    slope = results["cost.jacobian.z"].toarray().ravel() + results["gap.jacobian.z"].T @ found.v[0]
    assert np.max(np.abs(slope)) < 1e-7
    np.testing.assert_allclose(found.fun, 2.488471, atol=1e-6)


def build_kkt(folder: Path, example_file: str, output: str, *flags: str) -> None:
    """Compiles a C example with the static library of all derivatives of the example problem."""
    library = compile_library(example().derivatives().lower(), "kkt", Options("x86_64"))
    (folder / "kkt.o").write_bytes(library.kernels)
    (folder / "kkt.c").write_text(library.host)
    (folder / "kkt.h").write_text(library.header)
    files = (str(EXAMPLES / "on_device" / example_file), *(str(folder / name) for name in ("kkt.c", "kkt.o")))
    usual = "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{folder}"
    subprocess.run(["gcc", *usual, *flags, *files, "-lm", "-o", str(folder / output)], check=True)


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_sequential_quadratic_programming_in_c(tmp_path: Path) -> None:
    """The example in C uses a static library's derivatives and patterns, and finds the minimum that SciPy finds."""
    pytest.importorskip("scipy")
    build_kkt(tmp_path, "sqp.c", "sqp", "-fsanitize=address,undefined")
    said = subprocess.run([str(tmp_path / "sqp")], check=True, capture_output=True, text=True).stdout
    assert said.startswith("cost 2.488471, largest gap")


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_external_functions_of_casadi(tmp_path: Path) -> None:
    """CasADi loads the problem, its Jacobians and its Hessian from a shared library, and IPOPT finds the minimum."""
    pytest.importorskip("scipy")
    casadi = pytest.importorskip("casadi")
    library = str(tmp_path / "kkt.so")
    build_kkt(tmp_path, "casadi.c", library, "-shared", "-fPIC")
    names = "problem", "jac_problem", "hess_lag"
    problem, jacobians, hessian = (casadi.external(name, library) for name in names)
    z, multipliers = (
        np.random.default_rng(3).standard_normal(63),
        np.random.default_rng(4).standard_normal(44),
    )
    wanted = example().Problem().at(z, 0.7, multipliers)
    of_cost, of_gap = (x.full() for x in jacobians(z, 0, np.zeros(44)))
    np.testing.assert_allclose(problem(z)[1].full().ravel(), wanted["gap"], atol=1e-12)
    np.testing.assert_allclose(of_cost, wanted["cost.jacobian.z"].toarray().reshape(1, -1), atol=1e-12)
    np.testing.assert_allclose(of_gap, wanted["gap.jacobian.z"].toarray(), atol=1e-12)
    upper = np.triu(wanted["lagrangian.hessian.z.z"].toarray())
    np.testing.assert_allclose(hessian(z, [], 0.7, multipliers).full(), upper, atol=1e-12)
    cost, gap, _ = example().solve_by_casadi(library)
    assert abs(cost - 2.488471) < 1e-6 and gap < 1e-9
