"""Test programs for `jax_libraries.py`: solvers of optimistix, lineax and jaxopt."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_library_cases import RNG, SPD, A, B, Case, X


def energy(y: Any, p: Any) -> Any:
    return jnp.sum((y - p) ** 2) + 0.1 * jnp.sum(y**4) + 0.3 * y[0] * y[1]


START = np.zeros(4)


def roots() -> Iterator[Case]:
    """Yields test programs that find roots and fixed points with optimistix."""
    import optimistix as optx

    def equation(y: Any, p: Any) -> Any:
        return jnp.tanh(p["a"] @ y) / 20 + p["b"] ** 2 - y

    parameters = {"a": A, "b": B}
    for solver in (
        optx.Newton(1e-10, 1e-10),
        optx.Chord(1e-10, 1e-10),
        optx.Dogleg(1e-10, 1e-10),
        optx.LevenbergMarquardt(1e-10, 1e-10),
        optx.BestSoFarRootFinder(optx.Newton(1e-10, 1e-10)),
    ):
        name = f"optimistix root_find: {type(solver).__name__}"
        yield Case(
            name,
            lambda p, s=solver: optx.root_find(equation, s, jnp.zeros(4), p).value,
            (parameters,),
            ("optimistix",),
        )
    bisect = optx.Bisection(1e-12, 1e-12)
    yield Case(
        "optimistix root_find: Bisection",
        lambda p: (
            optx.root_find(lambda y, p: y**3 - p, bisect, 1.0, p, options={"lower": 0.0, "upper": 4.0}).value
        ),
        (2.5,),
        ("optimistix",),
    )
    for solver in (
        optx.FixedPointIteration(1e-12, 1e-12),
        optx.BestSoFarFixedPoint(optx.FixedPointIteration(1e-12, 1e-12)),
    ):
        yield Case(
            f"optimistix fixed_point: {type(solver).__name__}",
            lambda p, s=solver: optx.fixed_point(lambda y, p: equation(y, p) + y, s, jnp.zeros(4), p).value,
            (parameters,),
            ("optimistix",),
        )
    yield Case(
        "optimistix adjoints: RecursiveCheckpointAdjoint",
        lambda p: (
            optx.fixed_point(
                lambda y, p: equation(y, p) + y,
                optx.FixedPointIteration(1e-12, 1e-12),
                jnp.zeros(4),
                p,
                adjoint=optx.RecursiveCheckpointAdjoint(),
            ).value
        ),
        (parameters,),
        ("optimistix",),
    )


def minima() -> Iterator[Case]:
    """Yields test programs that solve least squares and minimization problems with optimistix."""
    import optimistix as optx

    def residuals(y: Any, p: Any) -> Any:
        x = jnp.linspace(0.0, 1.0, 6)
        return y["k"] * jnp.exp(-y["r"] * x) - p * (1 + x**2) / (1 + 2 * x)

    start = {"k": jnp.array(1.0), "r": jnp.array(0.5)}
    for solver in (
        optx.GaussNewton(1e-12, 1e-12),
        optx.LevenbergMarquardt(1e-12, 1e-12),
        optx.IndirectLevenbergMarquardt(1e-12, 1e-12),
        optx.Dogleg(1e-12, 1e-12),
    ):
        yield Case(
            f"optimistix least_squares: {type(solver).__name__}",
            lambda p, s=solver: optx.least_squares(residuals, s, start, p).value,
            (1.5,),
            ("optimistix",),
            tolerance=1e-5,
        )

    for solver in (
        optx.BFGS(1e-10, 1e-10),
        optx.LBFGS(1e-10, 1e-10),
        optx.NonlinearCG(1e-10, 1e-10),
        optx.GradientDescent(0.1, 1e-10, 1e-10),
    ):
        yield Case(
            f"optimistix minimise: {type(solver).__name__}",
            lambda p, s=solver: optx.minimise(energy, s, jnp.zeros(4), p, max_steps=2000).value,
            (B,),
            ("optimistix",),
            tolerance=1e-5,
        )


def square_systems() -> Iterator[Case]:
    """Yields test programs that solve systems with regular square matrices by lineax."""
    import lineax as lx

    triangle = np.tril(A)
    diagonals = np.array([4.0, 5.0, 6.0, 7.0])
    side = np.array([1.0, -0.5, 0.3])
    square: dict[str, tuple[Any, Callable[[Any], Any], Any]] = {
        "AutoLinearSolver": (lx.AutoLinearSolver(well_posed=True), lx.MatrixLinearOperator, A),
        "LU": (lx.LU(), lx.MatrixLinearOperator, A),
        "QR": (lx.QR(), lx.MatrixLinearOperator, A),
        "SVD": (lx.SVD(), lx.MatrixLinearOperator, A),
        "Cholesky": (lx.Cholesky(), lambda a: lx.MatrixLinearOperator(a, lx.positive_semidefinite_tag), SPD),
        "CG": (lx.CG(1e-12, 1e-12), lambda a: lx.MatrixLinearOperator(a, lx.positive_semidefinite_tag), SPD),
        "GMRES": (lx.GMRES(1e-12, 1e-12), lx.MatrixLinearOperator, A),
        "BiCGStab": (lx.BiCGStab(1e-12, 1e-12), lx.MatrixLinearOperator, A),
        "Triangular": (
            lx.Triangular(),
            lambda a: lx.MatrixLinearOperator(a, lx.lower_triangular_tag),
            triangle,
        ),
        "Diagonal": (lx.Diagonal(), lx.DiagonalLinearOperator, diagonals),
    }
    for name, (solver, operator, a) in square.items():
        yield Case(
            f"lineax linear_solve: {name}",
            lambda a, b, s=solver, o=operator: lx.linear_solve(o(a), b, s).value,
            (a, B),
            ("lineax",),
        )
    yield Case(
        "lineax linear_solve: Tridiagonal",
        lambda d, s, b: lx.linear_solve(lx.TridiagonalLinearOperator(d, s, s), b, lx.Tridiagonal()).value,
        (diagonals, side, B),
        ("lineax",),
    )


def other_systems() -> Iterator[Case]:
    """Yields test programs that solve least squares problems, and systems of other operators and batches, by lineax."""
    import lineax as lx

    wide, tall = RNG.standard_normal((3, 5)), RNG.standard_normal((5, 3))
    for name, solver, a, b in (
        ("QR, least squares", lx.QR(), tall, RNG.standard_normal(5)),
        ("QR, least norm", lx.QR(), wide, RNG.standard_normal(3)),
        ("SVD, least squares", lx.SVD(), tall, RNG.standard_normal(5)),
        ("LSMR, least squares", lx.LSMR(1e-12, 1e-12), tall, RNG.standard_normal(5)),
        ("Normal(CG), least squares", lx.Normal(lx.CG(1e-12, 1e-12)), tall, RNG.standard_normal(5)),
    ):
        yield Case(
            f"lineax linear_solve: {name}",
            lambda a, b, s=solver: lx.linear_solve(lx.MatrixLinearOperator(a), b, s).value,
            (a, b),
            ("lineax",),
        )
    yield Case(
        "lineax operators: JacobianLinearOperator",
        lambda x, b: (
            lx.linear_solve(
                lx.JacobianLinearOperator(lambda y, _: y + jnp.sin(y) * y[::-1] / 4, x),
                b,
                lx.GMRES(1e-12, 1e-12),
            ).value
        ),
        (B, B + 1),
        ("lineax",),
    )
    yield Case(
        "lineax operators: FunctionLinearOperator",
        lambda a, b: (
            lx.linear_solve(
                lx.FunctionLinearOperator(lambda v: a @ v + 2 * v, jax.ShapeDtypeStruct((4,), np.float64)), b
            ).value
        ),
        (A, B),
        ("lineax",),
    )
    yield Case(
        "lineax transformations: vmap",
        lambda a, b: jax.vmap(lambda c: lx.linear_solve(lx.MatrixLinearOperator(a), c).value)(b),
        (A, X),
        ("lineax",),
    )


def of_jaxopt() -> Iterator[Case]:
    """Yields test programs with solvers of jaxopt."""
    import jaxopt

    solvers: dict[str, Callable[..., Any]] = {
        "GradientDescent": lambda p: (
            jaxopt.GradientDescent(energy, maxiter=500, tol=1e-12).run(START, p).params
        ),
        "LBFGS": lambda p: jaxopt.LBFGS(energy, maxiter=200, tol=1e-12).run(START, p).params,
        "BFGS": lambda p: jaxopt.BFGS(energy, maxiter=200, tol=1e-12).run(START, p).params,
        "NonlinearCG": lambda p: jaxopt.NonlinearCG(energy, maxiter=300, tol=1e-12).run(START, p).params,
        "FixedPointIteration": lambda p: (
            jaxopt.FixedPointIteration(lambda y, p: jnp.tanh(y) / 3 + p**2, maxiter=200, tol=1e-13)
            .run(START, p)
            .params
        ),
        "AndersonAcceleration": lambda p: (
            jaxopt.AndersonAcceleration(lambda y, p: jnp.tanh(y) / 3 + p**2, maxiter=200, tol=1e-13)
            .run(START, p)
            .params
        ),
    }
    for name, solver in (solvers | _equations() | _constrained()).items():
        yield Case(f"jaxopt solvers: {name}", solver, (B,), ("jaxopt",), tolerance=1e-5)


def _equations() -> dict[str, Callable[..., Any]]:
    import jaxopt

    return {
        "GaussNewton": lambda p: (
            jaxopt.GaussNewton(lambda y, p: y + y**3 / 9 - p, maxiter=50, tol=1e-13).run(START, p).params
        ),
        "LevenbergMarquardt": lambda p: (
            jaxopt.LevenbergMarquardt(lambda y, p: y + y**3 / 9 - p, maxiter=100, tol=1e-13)
            .run(START, p)
            .params
        ),
        "Broyden": lambda p: (
            jaxopt.Broyden(lambda y, p: y + y**3 / 9 - p, maxiter=100, tol=1e-13).run(START, p).params
        ),
        "Bisection": lambda p: (
            jaxopt.Bisection(
                lambda y, p: y + y**3 - p[0], -3.0, 3.0, maxiter=80, tol=1e-13, check_bracket=False
            )
            .run(None, p)
            .params
        ),
    }


def _constrained() -> dict[str, Callable[..., Any]]:
    import jaxopt

    solvers: dict[str, Callable[..., Any]] = {
        "ProximalGradient": lambda p: (
            jaxopt.ProximalGradient(energy, jaxopt.prox.prox_lasso, maxiter=500, tol=1e-12)
            .run(START, 0.1, p)
            .params
        ),
        "ProjectedGradient": lambda p: (
            jaxopt.ProjectedGradient(
                energy, jaxopt.projection.projection_non_negative, maxiter=500, tol=1e-12
            )
            .run(START, None, p)
            .params
        ),
        "OptaxSolver": lambda p: (
            jaxopt.OptaxSolver(energy, __import__("optax").sgd(0.1), maxiter=300, tol=1e-12)
            .run(START, p)
            .params
        ),
        "without implicit differentiation": lambda p: (
            jaxopt.GradientDescent(
                energy, maxiter=30, tol=0.0, implicit_diff=False, unroll=True, stepsize=0.1
            )
            .run(START, p)
            .params
        ),
    }
    solvers["EqualityConstrainedQP"] = lambda p: (
        jaxopt.EqualityConstrainedQP()
        .run(params_obj=(jnp.asarray(SPD), p), params_eq=(jnp.ones((1, 4)), jnp.ones(1)))
        .params.primal
    )
    # The default tolerance of 1e-6 is too large for second derivatives.
    exact = functools.partial(jaxopt.linear_solve.solve_normal_cg, tol=1e-14)
    solvers["OSQP"] = lambda p: (
        jaxopt.OSQP(tol=1e-10, maxiter=4000, eq_qp_solve="lu", implicit_diff_solve=exact)
        .run(
            params_obj=(jnp.asarray(SPD), p),
            params_eq=(jnp.ones((1, 4)), jnp.ones(1)),
            params_ineq=(-jnp.eye(4), jnp.ones(4)),
        )
        .params.primal
    )
    return solvers


def projections() -> Iterator[Case]:
    """Yields test programs with projections of jaxopt."""
    import jaxopt

    shown: dict[str, Callable[..., Any]] = {
        "projection_simplex": jaxopt.projection.projection_simplex,
        "projection_l2_ball": lambda x: (  # weights, because the norm of the projection is constant
            jnp.arange(1.0, 1 + x.size) * jaxopt.projection.projection_l2_ball(x)
        ),
        "projection_l1_ball": jaxopt.projection.projection_l1_ball,
        "projection_box_section": lambda x: jaxopt.projection.projection_box_section(
            x, (-jnp.ones(4), jnp.ones(4), jnp.ones(4), 1.0)
        ),
        "isotonic_l2_pav": lambda x: jaxopt.isotonic.isotonic_l2_pav(x),
    }
    for name, projection in shown.items():
        # The weights differ, because the norm of a projection onto a sphere is constant: its gradient is noise.
        weighted = lambda x, projection=projection: projection(x) * np.arange(1, 5)  # noqa: E731
        yield Case(f"jaxopt projections: {name}", weighted, (B,), ("jaxopt",), tolerance=1e-6)
