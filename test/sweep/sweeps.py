"""The sweeps that `run_all.py` runs: for each, the arguments of a sample and those of a full run.

In arguments, `{seed}` is the seed of random programs, `{journal}` a file from which an interrupted run continues, and
`{folder}` the folder in the environment variable `Sweep.folder`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_RULES = ("-m", "pytest", "-q", "-n", "2", "-p")


@dataclass(frozen=True)
class Sweep:
    """A sweep: its name, Python's arguments for a sample and for a full run, required packages, and import paths.

    A sweep with an empty `sample` belongs to full runs only. `folder` names the environment variable for a folder of
    programs that tiduc does not ship.
    """

    name: str
    sample: Sequence[str]
    full: Sequence[str]
    needs: tuple[str, ...] = ()
    folder: str = ""
    paths: tuple[str, ...] = ("py", "sweep", "fuzz")


def _sweep(name: str, sample: str, full: str, *needs: str, folder: str = "") -> Sweep:
    """A sweep named like a script in this folder or in `test/fuzz`. `full` and `sample` are its options."""
    stem, *options = name.split()
    program = f"test/{stem}.py" if "/" in stem else f"test/sweep/{stem}.py"
    return Sweep(
        name, (program, *options, *sample.split()), (program, *options, *full.split()), needs, folder
    )


def _plugin(name: str, *needs: str) -> Sweep:
    """A pytest plugin that runs over the tests of rules.

    A sample has only rules whose names begin with the letter a.
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
