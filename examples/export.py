"""Exports the models of models.py from JAX: StableHLO programs, and JAX's derivatives as reference results.

Writes two files to this folder for each model, in f32 and in f64:

    NAME_TYPE.mlir  the loss as JAX lowers it; the only locations in the text are the names of arguments
    NAME_TYPE.npz   inputs and tangents; the loss, and its gradient, JVP and Hessian-vector product

The script is needed only to recreate these files: `python examples/export.py [NAME ...]`. README.md has the details.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from models import MODELS, Model

HERE = Path(__file__).resolve().parent
TYPES = {"f32": np.float32, "f64": np.float64}
MARGIN = 5e-4  # the least distance of an activation (about 1 in size) from a kink


def is_float(leaf: Any) -> bool:
    return np.issubdtype(leaf.dtype, np.floating)


def cast(tree: Any, dtype: Any) -> Any:
    """A copy of the tree with its float arrays in `dtype`."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if is_float(leaf) else leaf, tree)


def draw(model: Model) -> tuple[tuple[Any, ...], np.random.Generator]:
    """Draws arguments for which no activation is near a kink, that is, a point where the loss is not differentiable.

    Tries seeds in order. Returns the arguments, and the random generator for further numbers.
    """
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        args = model.inputs(rng)
        if model.kinks is None or jnp.min(model.kinks(*args)) > MARGIN:
            return args, rng
    raise RuntimeError("no seed keeps clear of the kinks")


def stablehlo(loss: Callable[..., Any], args: tuple[Any, ...], dtype: Any) -> str:
    """The StableHLO text to which JAX lowers `loss`. The only locations are the arguments' names."""
    with jax.enable_x64(dtype is np.float64):  # without x64, indices in programs of f32 are i32
        text = jax.jit(loss).lower(*args).as_text(debug_info=True)
    text = re.sub(r"^#loc.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r' loc\((#loc\d*|unknown|"[^"]*"\(#loc\d*\))\)', "", text)
    return text.strip() + "\n"


def references(loss: Callable[..., Any], args: tuple[Any, ...], tangents: list[Any]) -> dict[str, Any]:
    """The loss and its derivatives at `args`, all computed in f64.

    In the keys `grad.i` and `hvp.i`, i is the position of an array among the flattened arguments. `tangents` has one
    array for each float argument.
    """
    leaves, tree = jax.tree.flatten(cast(args, np.float64))
    where = [i for i, leaf in enumerate(leaves) if is_float(leaf)]

    def of_floats(*floats: Any) -> Any:
        full = dict(enumerate(leaves)) | dict(zip(where, floats, strict=True))
        return loss(*jax.tree.unflatten(tree, [full[i] for i in range(len(leaves))]))

    value_and_grad = jax.value_and_grad(of_floats, argnums=tuple(range(len(where))))
    point = tuple(leaves[i] for i in where)
    along = tuple(tangent.astype(np.float64) for tangent in tangents)
    with jax.default_matmul_precision("highest"):
        (value, grad), (jvp, hvp) = jax.jit(lambda p, t: jax.jvp(value_and_grad, p, t))(point, along)
    return (
        {"loss": value, "jvp": jvp}
        | {f"grad.{i}": g for i, g in zip(where, grad, strict=True)}
        | {f"hvp.{i}": h for i, h in zip(where, hvp, strict=True)}
    )


def export(name: str, type_name: str) -> None:
    """Writes the files NAME_TYPE.mlir and NAME_TYPE.npz of one model, in which floats have the type `type_name`."""
    model, dtype = MODELS[name], TYPES[type_name]
    args, rng = draw(model)
    args = cast(args, dtype)
    leaves = jax.tree.leaves(args)
    tangents = {
        i: rng.standard_normal(leaf.shape).astype(dtype) for i, leaf in enumerate(leaves) if is_float(leaf)
    }
    arrays = (
        {f"input.{i}": leaf for i, leaf in enumerate(leaves)}
        | {f"tangent.{i}": tangent for i, tangent in tangents.items()}
        | references(model.loss, args, list(tangents.values()))
        | {"source": f"JAX {jax.__version__}"}
    )
    stem = HERE / f"{name}_{type_name}"
    stem.with_suffix(".mlir").write_text(stablehlo(model.loss, args, dtype))
    np.savez_compressed(stem.with_suffix(".npz"), **{key: np.asarray(a) for key, a in arrays.items()})
    print(f"{stem.name}: {len(leaves)} inputs, {sum(leaf.size for leaf in leaves)} entries")


def main(names: list[str]) -> None:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    for name in names or MODELS:
        for type_name in TYPES:
            export(name, type_name)


if __name__ == "__main__":
    main(sys.argv[1:])
