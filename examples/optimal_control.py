"""Swings a pendulum up with the least effort, an optimal control problem that `scipy.optimize` solves.

    python examples/optimal_control.py                    # solves it by trust-constr, with sparse derivatives
    python examples/optimal_control.py --save kkt.mlir    # saves a program with all derivatives for an SQP method
    python examples/optimal_control.py --casadi ./kkt.so  # solves it by CasADi's interface to IPOPT

The variables z are an angle, a speed and a torque at each of 21 times. The cost is the integral of the squared torque.
The constraints are the equations of motion, which are discretized by the trapezoidal rule, and the prescribed states at
the first and the last time.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import NonlinearConstraint, minimize
from scipy.sparse import csr_array

import tiduc

Array = NDArray[np.float64]

STEPS, DURATION = 20, 5.0

PENDULUM = f"""
func.func @main(%z: tensor<{STEPS + 1}x3xf64> {{tidu.name = "z"}}) -> (
    tensor<f64> {{tidu.name = "cost"}}, tensor<{2 * STEPS + 4}xf64> {{tidu.name = "gap"}}) {{
  %angle = stablehlo.slice %z [0:{STEPS + 1}, 0:1] : (tensor<{STEPS + 1}x3xf64>) -> tensor<{STEPS + 1}x1xf64>
  %speed = stablehlo.slice %z [0:{STEPS + 1}, 1:2] : (tensor<{STEPS + 1}x3xf64>) -> tensor<{STEPS + 1}x1xf64>
  %torque = stablehlo.slice %z [0:{STEPS + 1}, 2:3] : (tensor<{STEPS + 1}x3xf64>) -> tensor<{STEPS + 1}x1xf64>
  %states = stablehlo.slice %z [0:{STEPS + 1}, 0:2] : (tensor<{STEPS + 1}x3xf64>) -> tensor<{STEPS + 1}x2xf64>

  %sine = stablehlo.sine %angle : tensor<{STEPS + 1}x1xf64>
  %force = stablehlo.subtract %torque, %sine : tensor<{STEPS + 1}x1xf64>
  %rates = stablehlo.concatenate %speed, %force, dim = 1
    : (tensor<{STEPS + 1}x1xf64>, tensor<{STEPS + 1}x1xf64>) -> tensor<{STEPS + 1}x2xf64>
  %x0 = stablehlo.slice %states [0:{STEPS}, 0:2] : (tensor<{STEPS + 1}x2xf64>) -> tensor<{STEPS}x2xf64>
  %x1 = stablehlo.slice %states [1:{STEPS + 1}, 0:2] : (tensor<{STEPS + 1}x2xf64>) -> tensor<{STEPS}x2xf64>
  %f0 = stablehlo.slice %rates [0:{STEPS}, 0:2] : (tensor<{STEPS + 1}x2xf64>) -> tensor<{STEPS}x2xf64>
  %f1 = stablehlo.slice %rates [1:{STEPS + 1}, 0:2] : (tensor<{STEPS + 1}x2xf64>) -> tensor<{STEPS}x2xf64>
  %half = stablehlo.constant dense<{DURATION / STEPS / 2}> : tensor<{STEPS}x2xf64>
  %sum = stablehlo.add %f0, %f1 : tensor<{STEPS}x2xf64>
  %moved = stablehlo.multiply %half, %sum : tensor<{STEPS}x2xf64>
  %difference = stablehlo.subtract %x1, %x0 : tensor<{STEPS}x2xf64>
  %defect = stablehlo.subtract %difference, %moved : tensor<{STEPS}x2xf64>

  %first = stablehlo.slice %states [0:1, 0:2] : (tensor<{STEPS + 1}x2xf64>) -> tensor<1x2xf64>
  %last = stablehlo.slice %states [{STEPS}:{STEPS + 1}, 0:2] : (tensor<{STEPS + 1}x2xf64>) -> tensor<1x2xf64>
  %upright = stablehlo.constant dense<[[{np.pi}, 0.0]]> : tensor<1x2xf64>
  %end = stablehlo.subtract %last, %upright : tensor<1x2xf64>
  %all = stablehlo.concatenate %defect, %first, %end, dim = 0
    : (tensor<{STEPS}x2xf64>, tensor<1x2xf64>, tensor<1x2xf64>) -> tensor<{STEPS + 2}x2xf64>
  %gap = stablehlo.reshape %all : (tensor<{STEPS + 2}x2xf64>) -> tensor<{2 * STEPS + 4}xf64>

  %squares = stablehlo.multiply %torque, %torque : tensor<{STEPS + 1}x1xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %total = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<{STEPS + 1}x1xf64>, tensor<f64>) -> tensor<f64>
  %step = stablehlo.constant dense<{DURATION / STEPS}> : tensor<f64>
  %cost = stablehlo.multiply %step, %total : tensor<f64>
  return %cost, %gap : tensor<f64>, tensor<{2 * STEPS + 4}xf64>
}}
"""


def derivatives() -> tiduc.Program:
    """The program that maps z and the multipliers to cost, gap, their Jacobians, and the Hessian of the Lagrangian.

    The program returns each Jacobian and the Hessian as a vector of the matrix's nonzeros.
    """
    problem = tiduc.load(PENDULUM)
    hessian = problem.lagrangian().hessian("z", compressed="csr")
    return problem.together(problem.jacobian("z", compressed="csr"), hessian)


class Problem:
    """Computes the functions and derivatives that `scipy.optimize` needs. One compiled program computes all of them."""

    def __init__(self) -> None:
        program = derivatives()
        self._call, self._patterns = program.compile(), program.patterns
        self._names = [port.name for port in program.outputs]

    def at(self, z: Array, of_cost: float = 0.0, of_gap: Array | None = None) -> dict[str, Any]:
        """Runs the program at z. Returns all results by name, with sparse matrices as scipy's `csr_array`s.

        `of_cost` and `of_gap` are the multipliers of the cost and of the constraints in the Lagrangian.
        """
        multipliers = np.zeros(2 * STEPS + 4) if of_gap is None else of_gap
        results = self._call(z.reshape(STEPS + 1, 3), np.array(of_cost), multipliers)
        return {name: self._matrix(name, y) for name, y in zip(self._names, results, strict=True)}

    def _matrix(self, name: str, y: Array) -> Any:
        pattern = self._patterns.get(name)
        return y if pattern is None else csr_array((y, pattern.indices, pattern.indptr), pattern.shape)


def start() -> Array:
    """The first guess for z: the angle grows linearly from 0 to pi; all speeds and torques are zero."""
    z = np.zeros((STEPS + 1, 3))
    z[:, 0] = np.linspace(0, np.pi, STEPS + 1)
    return z.ravel()


def solve(problem: Problem) -> Any:
    """Solves the problem by scipy's method `trust-constr`."""
    gap = NonlinearConstraint(
        lambda z: problem.at(z)["gap"],
        0,
        0,
        jac=lambda z: problem.at(z)["gap.jacobian.z"],
        hess=lambda z, multipliers: problem.at(z, 0.0, multipliers)["lagrangian.hessian.z.z"],
    )
    return minimize(
        lambda z: problem.at(z)["cost"],
        start(),
        method="trust-constr",
        jac=lambda z: problem.at(z)["cost.jacobian.z"].toarray().ravel(),
        hess=lambda z: problem.at(z, 1.0)["lagrangian.hessian.z.z"],
        constraints=gap,
        options={"gtol": 1e-10, "xtol": 1e-12},
    )


def solve_by_casadi(library: str) -> tuple[float, float, int]:
    """Solves the problem by IPOPT, with the functions of a shared library (`on_device/casadi.c`).

    Returns the cost, the largest gap, and the number of iterations.
    """
    import casadi

    problem, hessian = (casadi.external(name, library) for name in ("problem", "hess_lag"))
    z = casadi.MX.sym("z", 3 * (STEPS + 1))
    cost, gap = problem(z)
    options = {"hess_lag": hessian, "print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    solver = casadi.nlpsol("solver", "ipopt", {"x": z, "f": cost, "g": gap}, options)
    found = solver(x0=start(), lbg=0, ubg=0)
    return float(found["f"]), float(casadi.norm_inf(found["g"])), solver.stats()["iter_count"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", metavar="FILE", help="write the program with all derivatives")
    parser.add_argument(
        "--casadi", metavar="LIBRARY", help="solve the problem by CasADi and this shared library"
    )
    given = parser.parse_args()
    if given.save:
        derivatives().save(given.save)
        return
    if given.casadi:
        found_cost, worst, iterations = solve_by_casadi(given.casadi)
        print(f"cost {found_cost:.6f}, largest gap {worst:.0e}, {iterations} iterations")
        return
    found = solve(Problem())
    print(f"cost {found.fun:.6f}, largest gap {found.constr_violation:.0e}, {found.nit} iterations")


if __name__ == "__main__":
    main()
