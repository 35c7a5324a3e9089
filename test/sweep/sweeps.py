"""The sweeps that `run_all.py` runs, with their arguments for a sample and for a full run.

In these arguments, `{seed}` stands for the seed of random programs, `{journal}` for a file from which an interrupted
run continues, and `{folder}` for the value of the environment variable that `Sweep.folder` names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_RULES = ("-m", "pytest", "-q", "-n", "2", "-p")


@dataclass(frozen=True)
class Sweep:
    """A sweep. `sample` and `full` are the arguments of Python for a sample and for a full run.

    A sweep with an empty `sample` runs only in full runs. `needs` are the packages that the sweep imports, and `paths`
    the folders in `test` from which it imports modules. If the sweep needs programs that tiduc does not contain,
    `folder` is the name of the environment variable that has the path of their folder.
    """

    name: str
    sample: Sequence[str]
    full: Sequence[str]
    needs: tuple[str, ...] = ()
    folder: str = ""
    paths: tuple[str, ...] = ("py", "sweep", "fuzz")


def _sweep(name: str, sample: str, full: str, *needs: str, folder: str = "") -> Sweep:
    """Returns the sweep that runs the script `name` in this folder, or the script `fuzz/NAME` in `test/fuzz`.

    `sample` and `full` are the script's options for a sample and for a full run.
    """
    stem, *options = name.split()
    program = f"test/{stem}.py" if "/" in stem else f"test/sweep/{stem}.py"
    return Sweep(
        name, (program, *options, *sample.split()), (program, *options, *full.split()), needs, folder
    )


def _plugin(name: str, *needs: str) -> Sweep:
    """Returns the sweep that runs the tests of rules with a pytest plugin.

    In a sample, only the tests of rules whose names begin with the letter a run.
    """
    return Sweep(
        name,
        (*_RULES, name, "test/py/rules", "-m", "not slow", "-k", "test_a"),
        (*_RULES, name, "test/py/rules"),
        needs,
    )


SWEEPS: tuple[Sweep, ...] = (
    _sweep(  # the longest sweep starts first
        "random_networks",
        "--count 200 --first {seed}",
        "--count 1000 --first {seed} --check-memory --journal {journal}",
        "jax",
    ),
    _sweep(
        "random_networks --large",
        "--count 3 --first {seed} --check-memory",
        "--count 500 --first {seed} --check-memory --journal {journal}",
        "jax",
    ),
    _sweep("accepted", "--filter stablehlo.s", ""),
    _sweep(
        "architectures",
        "{journal} --seed {seed} --count 4",
        "{journal} --seed {seed}",
        "torch",
        "transformers",
    ),
    _sweep(
        "array_api",
        "{folder} --examples 2 --only statistical",
        "{folder}",
        "ndindex",
        "pytest_jsonreport",
        folder="ARRAY_API_TESTS",
    ),
    _plugin("batch_rules"),
    _sweep("elementwise_accuracy", "--filter ^a --points 12", "", "mpmath"),
    _sweep("faults", "add_predicates vulkan/sine dynamic/gather_unsigned", ""),
    _sweep("fuzz/__main__", "--count 60 --seed {seed}", "--count 10000 --seed {seed}"),
    _sweep(
        "fuzz/evaluate",
        "--count 40 --seed {seed} --engine iree",
        "--count 10000 --seed {seed} --engine iree --journal {journal}",
    ),
    _sweep("fuzz/guard_pages", "--filter ^slice --orders 1 --calls 20 --seed {seed}", "--seed {seed}"),
    _sweep("fuzz/memory_budgets", "--count 6 --first {seed}", "--count 300 --first {seed}"),
    _sweep("harnesses", "--sample 1 --filter ^(sin|dot|gather)_", "", "jax"),
    _sweep("jax_exports", "--only svd", "--evaluate", "jax"),
    _sweep("jax_exports --functions", "^(hypot|erfcx)$", ". --journal {journal}", "jax", "mpmath"),
    _sweep("jax_libraries", "--only linear_solve:.(LU|QR) --of gradient", "{journal}", "diffrax"),
    _sweep("jet_programs", "--random 3 --first {seed} --only loops", ""),
    _plugin("jet_rules"),
    _sweep("laplacians", "--count 12 --first {seed}", "--count 300 --first {seed}"),
    _sweep("onnx_backend", "--every 40 --jobs 2", "--jobs 2", "onnx"),
    _sweep(
        "potentials",
        "{journal} --only SchNet --dtypes f64",
        "{journal}",
        "torch",
        "jax",
        "schnetpack",
        "jax_md",
    ),
    _sweep(
        "random_loops",
        "--of vjp,arrays,calls --count 5 --first {seed} --check-memory",
        "--of program,vjp,jvp,calls,calls.vjp.memory --count 150 --first {seed} --check-memory --journal {journal}",
        "jax",
    ),
    _sweep(
        "random_products",
        "--seconds 45 --first {seed} --check-memory",
        "--seconds 1800 --first {seed} --check-memory",
        "jax",
    ),
    _sweep("seeded_errors", "--every 12", ""),
    _sweep("static_libraries", "examples/mlp_f32.mlir", "examples/mlp_f32.mlir examples/convnet_f32.mlir"),
    _sweep("stablehlo_dynamic", "{folder}", "{folder}", folder="STABLEHLO_DYNAMIC"),
    _sweep(
        "stablehlo_suite", "{folder} --sample 1", "{folder} --journal {journal}", folder="STABLEHLO_TESTS"
    ),
    # Only in full runs, because a person must judge whether a failure is a choice that StableHLO leaves to engines.
    Sweep("target_rules", (), (*_RULES, "target_rules", "test/py/rules")),
    _sweep("torch_degenerate", "{journal} --only :.torch.std", "{journal}", "torch"),
    _sweep("torch_gradients", "--only ^[a-d]", "", "torch"),
    _sweep("versions", "--list", ""),
)
