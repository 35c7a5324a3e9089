"""Tests reading the files of `jax.export` without JAX: their contents, the names of arguments, and damaged files."""

import collections
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import tiduc
from tiduc import cli
from tiduc.models.jax.export import read_export


class State(NamedTuple):
    weight: Any
    scale: Any


jax.export.register_namedtuple_serialization(State, serialized_name="tiduc.test.State")


def function(params: dict[str, Any], pair: Any, *, factor: Any, unused: Any) -> Any:
    state, ordered, (first, [second, _]) = params["s"], params["o"], pair
    y = first * second * state.weight * ordered["b"] * factor
    return {"loss": y.sum(), "rest": (y, [y + state.scale])}


def serialized() -> bytes:
    x = jnp.ones(3, np.float32)
    params = {"s": State(x, x), "o": collections.OrderedDict(b=x, a=x)}
    exported = jax.export.export(jax.jit(function))(params, (x, [x, None]), factor=x, unused=jnp.int32(2))
    return bytes(exported.serialize())


PATHS = [
    *("arg0['o']['b']", "arg0['o']['a']", "arg0['s'].weight", "arg0['s'].scale"),
    *("arg1[0]", "arg1[1][0]", "factor", "unused"),
]
RESULTS = ["result['loss']", "result['rest'][0]", "result['rest'][1][0]"]


def test_contents() -> None:
    data = serialized()
    export, theirs = read_export(data), jax.export.deserialize(bytearray(data))
    assert export.arguments == PATHS and export.results == RESULTS
    assert export.module == theirs.mlir_module_serialized and not export.has_effects
    assert export.kept == list(theirs.module_kept_var_idx) == [0, 2, 3, 4, 5, 6]


def test_names_and_values(tmp_path: Path) -> None:
    file = tmp_path / "f.jaxexport"
    file.write_bytes(serialized())
    program = tiduc.import_model(file)
    names = [port.name for port in program.inputs]
    assert names == ["params['o']['b']", "params['s'].weight", "params['s'].scale"] + [
        *("pair[0]", "pair[1][0]", "factor")
    ]
    assert [port.name for port in program.outputs] == RESULTS
    (_, *_, slope) = program.vjp("factor").compile(engine="reference")(
        *[np.full(3, 2, np.float32)] * 6, np.float32(1), np.zeros(3, np.float32), np.zeros(3, np.float32)
    )
    np.testing.assert_allclose(slope, 16)


def test_without_jax(tmp_path: Path) -> None:
    """A file of `jax.export` is read although JAX, jaxlib and FlatBuffers cannot be imported."""
    file = tmp_path / "f.jaxexport"
    file.write_bytes(serialized())
    code = f"""
import json, sys
for name in ("jax", "jaxlib", "flatbuffers"):
    sys.modules[name] = None
import tiduc
print(json.dumps([port.name for port in tiduc.import_model({str(file)!r}).vjp("factor").outputs]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert json.loads(done.stdout) == [*RESULTS, "factor.cotangent"], done.stderr


def test_shardings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export with shardings can be read only if jaxlib is installed, because it has Shardy ops in bytecode."""
    mesh = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("i"))
    jitted = jax.jit(lambda x: jax.lax.with_sharding_constraint(jnp.sin(x), sharding), in_shardings=sharding)
    file = tmp_path / "sharded.jaxexport"
    file.write_bytes(jax.export.export(jitted)(jnp.ones(4, np.float32)).serialize())
    program = tiduc.import_model(file)
    assert [port.name for port in program.vjp("x").outputs] == ["result0", "x.cotangent"]
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(tiduc.ParseError, match=r"sharded.jaxexport: error: .*pip install 'tiduc\[jax\]'"):
        tiduc.import_model(file)


def test_commands_take_manual_computations(tmp_path: Path) -> None:
    mesh = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("i")
    summed = jax.shard_map(
        lambda x: jax.lax.psum(x.sum(), "i"), mesh=mesh, in_specs=spec, out_specs=PartitionSpec()
    )
    file = tmp_path / "manual.jaxexport"
    file.write_bytes(jax.export.export(jax.jit(summed))(jnp.ones(4, np.float32)).serialize())
    assert cli.run(["grad", str(file), "-o", str(tmp_path / "gradient.mlir")]) == 0


def test_dynamic_shapes(tmp_path: Path) -> None:
    """The argument of an export with a dynamic shape is called arg0, because JAX stores no names for such modules."""

    def symbolic(x: Any) -> Any:
        return x + x.shape[0]

    (size,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(symbolic))(jax.ShapeDtypeStruct((size,), np.float32))
    file = tmp_path / "dynamic.jaxexport"
    file.write_bytes(exported.serialize())
    assert str(tiduc.import_model(file).signature) == "(arg0: ?xf32) -> (result0: ?xf32)"


def test_damaged_files(tmp_path: Path) -> None:
    """A file with random wrong bytes is either read, or an error that names the file is raised.

    Bytes of the MLIR module in the file are not changed.
    """
    data, chance = serialized(), random.Random(0)
    place = data.index(b"ML\xefR")
    size = len(read_export(data).module)
    outside = [*range(place), *range(place + size, len(data))]
    errors = 0
    for _ in range(4000):
        copy = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            i = chance.choice(outside)
            copy[i] = chance.choice((0, 1, 255, copy[i] ^ 1 << chance.randrange(8), chance.randrange(256)))
        if chance.random() < 0.1:
            del copy[chance.randrange(len(copy)) :]
        try:
            read_export(bytes(copy), "damaged.jaxexport")
        except tiduc.ParseError as error:
            errors += 1
            assert str(error).startswith("damaged.jaxexport: error: not a serialized export of JAX: ")
    assert errors > 1000
    for cut in (0, 3, 8, 40, place, len(data) // 2):
        (tmp_path / "cut.jaxexport").write_bytes(data[:cut])
        with pytest.raises(tiduc.ParseError, match=r"cut\.jaxexport: error: not a serialized export of JAX"):
            tiduc.import_model(tmp_path / "cut.jaxexport")


def test_damaged_modules(tmp_path: Path) -> None:
    """If the MLIR module in a file is damaged and read in a separate process, any error names the file."""
    data, chance = serialized(), random.Random(1)
    place = data.index(b"ML\xefR")
    file = tmp_path / "module.jaxexport"
    for _ in range(3):
        copy = bytearray(data)
        for _ in range(4):
            copy[place + 8 + chance.randrange(400)] = chance.randrange(256)
        file.write_bytes(copy)
        try:
            tiduc.import_model(file, isolated=True)
        except tiduc.TiducError as error:
            assert "module.jaxexport" in str(error)
