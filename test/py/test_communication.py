"""Tests the analysis of communication in sharded programs: collectives in HLO, and `tiduc explain --sharding`."""

import json
from pathlib import Path

import pytest

from tiduc.backends.xla.collectives import Collective, bytes_sent, read_collectives
from tiduc.cli import run
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.explain.communication import DEVICES, Exchange, find_exchange
from tiduc.program import Program, from_module
from tiduc.sharding import shard

MESH = {"data": 4, "model": 2}
HLO = """HloModule m

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %ag = f32[8]{0} all-gather(%x), channel_id=1, replica_groups=GROUPS, dimensions={0}
}

%cond (p: (s32[], f32[8])) -> pred[] {
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

%left (p: f32[4]) -> f32[4] {
  ROOT %l = f32[4]{0} all-reduce(%p), replica_groups={}, to_apply=%add
}

%right (p: f32[4]) -> f32[4] {
  ROOT %r = f32[400]{0} all-reduce(%p), replica_groups={}, to_apply=%add
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %w = (s32[], f32[8]{0}) while(%t), condition=%cond, body=%bodyTRIPS
  %c = f32[4]{0} conditional(%i, %a, %b), branch_computations={%left, %right}
  %rs = bf16[2,3]{1,0} reduce-scatter(%x), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}, to_apply=%add
  %cp = c64[5]{0} collective-permute(%x), source_target_pairs={{0,2},{2,4},{4,6},{6,0}}
  %aa = (f32[1,3]{1,0}, /*index=1*/f32[1,3]{1,0}) all-to-all(%x, %y), replica_groups={{0,1},{2,3},{4,5},{6,7}}
}
"""


def found(
    groups: str, trips: str = ', backend_config={"known_trip_count":{"n":"5"}}'
) -> dict[str, Collective]:
    listed = read_collectives(HLO.replace("GROUPS", groups).replace("TRIPS", trips), 8, MESH)
    assert listed.has_unknown_loops == (not trips)
    return {each.kind: each for each in listed.collectives}


@pytest.mark.parametrize(
    "groups, axes, size",
    [
        ("{{0,2,4,6},{1,3,5,7}}", ("data",), 4),
        ("[2,4]<=[4,2]T(1,0)", ("data",), 4),
        ("[4,2]<=[8]", ("model",), 2),
        ("{}", ("data", "model"), 8),
        ("[1,8]<=[8]", ("data", "model"), 8),
        ("mesh['x'=4,'y'=2] {'x'}", ("data",), 4),
        ("mesh['x'=8] {'x':(4)2}", ("model",), 2),
        ("mesh['x'=8] {'x':(1)4}", ("data",), 4),
        ("mesh['x'=2,'y'=2,'z'=2] {'x','y'}", ("data",), 4),
        ("mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y'}", ("data",), 4),
        ("mesh['x'=2,'y'=4], device_ids=(0,2,4,6,1,3,5,7) {'x'}", ("model",), 2),
        ("mesh['x'=2,'y'=4], device_ids=(of another form) {'y'}", (), 4),
        ("{{0,1,2,3},{4,5,6,7}}", (), 4),
        ("{{0,3},{1,2},{4,7},{5,6}}", (), 2),
        ("{{0,1},{2,4},{3,5},{6,7}}", (), 2),
        ("{{0,2,4,6},{1,3},{5},{7}}", (), 4),
    ],
)
def test_groups_of_devices(groups: str, axes: tuple[str, ...], size: int) -> None:
    gather = found(groups)["all-gather"]
    assert (gather.axes, gather.group, gather.count, gather.payload) == (axes, size, 5, 5 * 32)
    assert gather.sent == 160 * (size - 1) // size


def test_collectives_of_a_module() -> None:
    all_of = found("{}")
    assert all_of["all-reduce"] == Collective(
        "all-reduce", ("data", "model"), 8, 1, 1600
    )  # of the two branches of the conditional, the one that sends more
    assert all_of["reduce-scatter"] == Collective("reduce-scatter", ("data",), 4, 1, 4 * 12)
    assert all_of["collective-permute"] == Collective("collective-permute", ("data",), 4, 1, 40)
    assert all_of["all-to-all"] == Collective("all-to-all", ("model",), 2, 1, 24)
    assert found("{}", "")["all-gather"].count == 1


@pytest.mark.parametrize(
    "pairs, axes, size",
    [
        ("{0,1},{1,0}", ("model",), 2),
        ("{0,3},{3,0},{1,2},{2,1}", ("data", "model"), 8),
        ("{0,0},{1,2}", ("data", "model"), 8),
    ],
)
def test_permutations(pairs: str, axes: tuple[str, ...], size: int) -> None:
    text = HLO.replace("{0,2},{2,4},{4,6},{6,0}", pairs).replace("GROUPS", "{}").replace("TRIPS", "")
    found = {each.kind: each for each in read_collectives(text, 8, MESH).collectives}
    assert found["collective-permute"] == Collective("collective-permute", axes, size, 1, 40)
    found = {each.kind: each for each in read_collectives(text, 8, {}).collectives}
    assert found["collective-permute"] == Collective("collective-permute", (), 2, 1, 40)


def test_a_permutation_that_sends_nothing() -> None:
    text = HLO.replace("{0,2},{2,4},{4,6},{6,0}", "{0,0},{5,5}").replace("GROUPS", "{}").replace("TRIPS", "")
    assert "collective-permute" not in {each.kind for each in read_collectives(text, 8, MESH).collectives}


def test_bytes_on_a_ring() -> None:
    assert bytes_sent("all-reduce", 800, 8) == 1400 and bytes_sent("reduce-scatter", 800, 8) == 700
    assert bytes_sent("collective-permute", 800, 8) == 800 and bytes_sent("all-reduce", 800, 1) == 0


WIDTH = 1024  # each number of devices divides it


def loss(batch: int) -> Program:
    """The loss of a layer whose weight matrix has 8 rows and `WIDTH` columns."""
    return from_module(
        parse(f"""func.func @main(%w: tensor<8x{WIDTH}xf32>, %x: tensor<{batch}x8xf32>) -> tensor<f32> {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<{batch}x8xf32>, tensor<8x{WIDTH}xf32>) -> tensor<{batch}x{WIDTH}xf32>
  %1 = stablehlo.tanh %0 : tensor<{batch}x{WIDTH}xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<{batch}x{WIDTH}xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}}""")
    )


def exchange(devices: int, kind: str) -> Exchange:
    """The communication of a sharded gradient. The batch has 4 examples for each device along the axis "data"."""
    pytest.importorskip("jax")
    fully = "data" if kind == "fully sharded" else None
    weights = {"w": [None, "model"]} if kind == "tensor" else {}
    mesh = {"data": devices // 2, "model": 2} if kind == "tensor" else {"data": devices}
    sharded = shard(loss(4 * mesh["data"]), mesh, {"x": ["data"], **weights}, fully)
    return find_exchange({"gradient": sharded.grad("w")})


def test_the_gradient_of_a_layer() -> None:
    (reduced,) = exchange(8, "data").programs["gradient"].collectives
    assert reduced == Collective("all-reduce", ("data",), 8, 1, 8 * WIDTH * 4)
    gathered, reduced = sorted(exchange(8, "fully sharded").programs["gradient"].collectives)
    assert gathered == Collective("all-gather", ("data",), 8, 1, 8 * WIDTH * 4)
    assert reduced.payload == 8 * WIDTH * 4


@pytest.mark.parametrize("kind", ["data", "tensor", "fully sharded"])
def test_weak_scaling_on_paper_is_measured(kind: str) -> None:
    """The bytes that each device sends, estimated from 8 devices, equal those of programs for 64 and 1,024 devices."""
    small = exchange(8, kind)
    for devices in (64, 1024):
        large = exchange(devices, kind).programs["gradient"].collectives
        on_paper = [small.on_paper(each, devices) for each in small.programs["gradient"].collectives]
        assert [each.sent for each in large] == on_paper and on_paper[0]


def test_numbers_of_devices_that_do_not_fit() -> None:
    of_model = Collective("all-reduce", ("model",), 6, 1, 600)
    sixths = Exchange(12, {"data": 2, "model": 6}, {})
    assert sixths.on_paper(of_model, 8) is None and sixths.on_paper(of_model, 24) == 1000
    of_no_axes = Collective("all-reduce", (), 2, 1, 600)
    assert sixths.on_paper(of_no_axes, 24) is None
    assert Exchange(8, {}, {}).grown is None and Exchange(8, {}, {}).on_paper(of_model, 16) is None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax")
    (tmp_path / "f.mlir").write_text(str(loss(16)))
    (tmp_path / "sharded.mlir").write_text(str(shard(loss(16), MESH, {"x": ["data"], "w": [None, "model"]})))
    assert run(["explain", str(tmp_path / "sharded.mlir"), "--wrt", "w", "--sharding"]) == 0
    said = capsys.readouterr().out
    assert "Communication on 8 devices: data=4, model=2" in said and "if data and the batch grow" in said
    assert run(["explain", str(tmp_path / "sharded.mlir"), "--wrt", "w", "--sharding", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["communication"]
    assert data["mesh"] == MESH and data["grown"] == "data"
    (reduced,) = [each for each in data["programs"]["vjp"] if each["axes"] == ["data"]]
    assert reduced["sent"] == 2 * reduced["payload"] * 3 // 4
    assert [*reduced["on_paper"]] == [str(devices) for devices in DEVICES]
    assert run(["explain", str(tmp_path / "f.mlir"), "--sharding"]) == 1
    assert "--sharding is for a program that is split among devices" in capsys.readouterr().err


DIAGONAL = """module attributes {mhlo.num_partitions = 4 : i32} {
sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>] \
manual_axes={"data", "model"} (%a: tensor<4xf32>) {
    %1 = "stablehlo.all_reduce"(%a) ({
    ^bb0(%b: tensor<f32>, %c: tensor<f32>):
      %2 = stablehlo.add %b, %c : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) {replica_groups = dense<[[0, 3], [1, 2]]> : tensor<2x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
}"""


def test_groups_that_follow_no_axes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a collective among devices on a diagonal of the mesh, the command reports no mesh axes."""
    pytest.importorskip("jax")
    (tmp_path / "f.mlir").write_text(DIAGONAL)
    assert run(["explain", str(tmp_path / "f.mlir"), "--sharding", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["communication"]
    (reduced,) = data["programs"]["primal"]
    assert (reduced["axes"], reduced["group"], reduced["sent"]) == ([], 2, 16)
    assert set(reduced["on_paper"].values()) == {None}
    assert run(["explain", str(tmp_path / "f.mlir"), "--sharding"]) == 0
    assert "unknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    "partitions, words",
    [
        ("1000000000 : i32", "1000000000 : i32 is not a number of devices from 1 to 1,048,576"),
        ("-1 : i32", "is not a number of devices"),
        ('"many"', "is not a number of devices"),
        ("4096 : i32", "one CPU can simulate up to 2,048 devices"),
    ],
)
def test_numbers_of_devices_in_a_file(
    partitions: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.mlir"
    text = str(shard(loss(16), MESH, {}))
    assert "mhlo.num_partitions = 8 : i32" in text
    file.write_text(text.replace("mhlo.num_partitions = 8 : i32", f"mhlo.num_partitions = {partitions}"))
    assert run(["explain", str(file), "--sharding"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(str(file)) and words in said


def test_meshes_that_are_too_large() -> None:
    with pytest.raises(RequestError, match="a mesh has 1 to 1,048,576 devices, not 1,000,000,000"):
        shard(loss(16), {"data": 10**9}, {})


def test_a_program_that_is_not_sharded() -> None:
    with pytest.raises(RequestError, match="split among devices"):
        find_exchange({"primal": loss(16)})
