"""Tests reduced inputs that the fuzzer found. Each once caused a traceback, a crash, or an error without a location."""

import re
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from byte_mutations import with_contents
from harness.sources import source_of

import tiduc
import tiduc.models.from_jax
from tiduc.dialect.errors import CompileError, ParseError, RequestError, TiducError, Unsupported
from tiduc.dialect.mlir.emit import emit
from tiduc.explain import explain
from tiduc.runtime.process import Limits

WINDOW_OF_IDS = """func.func @main(%x: tensor<7x4xf64>, %i: tensor<?xi32>) -> tensor<?x4xf64> {
  %y = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}
    : (tensor<7x4xf64>, tensor<?xi32>) -> tensor<?x4xf64>
  return %y : tensor<?x4xf64>
}"""
BRANCH = """func.func @main(%x: tensor<f64>, %i: tensor<i32>) -> tensor<f64> {
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.sine %x : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }, {
    stablehlo.return %x : tensor<f64>
  }) : (tensor<i32>) -> tensor<f64>
  return %0 : tensor<f64>
}"""
SCATTER = """func.func @main(%x: tensor<4xf64>, %i: tensor<2x1xi32>, %u: tensor<2xf64>) -> tensor<4xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    stablehlo.return %b : tensor<f64>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
    : (tensor<4xf64>, tensor<2x1xi32>, tensor<2xf64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}"""


def function(type_: str) -> str:
    return f"""func.func @main(%x: {type_}) -> {type_} {{
  %0 = stablehlo.multiply %x, %x : {type_}
  return %0 : {type_}
}}"""


def test_a_graph_without_a_region_is_an_error_of_the_file() -> None:
    text = 'module {\n  %0 = "tidu.graph"() : () -> tensor<4xf64>\n}\n'
    with pytest.raises(ParseError, match="one region") as raised:
        tiduc.load(text)
    assert raised.value.location == "-:2:8"


def test_a_batch_that_takes_a_loop_is_refused_with_a_place(tmp_path: Path) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(WINDOW_OF_IDS)
    with pytest.raises(Unsupported) as raised:
        _ = tiduc.load(file).jvp(batch=2).text
    assert raised.value.location.startswith(f"{file}:2:")


def test_a_batch_of_zeros_of_unknown_size_is_refused_by_name() -> None:
    text = (
        "func.func @main(%x: tensor<f64>, %y: tensor<?xf64>) -> tensor<?xf64> {\nreturn %y : tensor<?xf64>\n}"
    )
    with pytest.raises(RequestError, match="result0.tangent of type .* cannot be batched"):
        tiduc.load(text).jvp([0], batch=2)


@pytest.mark.parametrize("size", [2**32, 2**63 - 1])
def test_a_jacobian_of_too_many_directions_is_refused(size: int) -> None:
    program = tiduc.load(function(f"tensor<{size}xf32>"))
    with pytest.raises(RequestError, match="basis vectors are more than"):
        program.jacobian(sparsity=None, mode="forward")


@pytest.mark.parametrize("last", ["tidu-lower", "tidu-structure"])
def test_passes_on_flat_graphs_refuse_one_that_refers_to_another(last: str) -> None:
    module = tiduc.parse(BRANCH)
    with pytest.raises(RequestError, match="run tidu-materialize-merge first") as raised:
        tiduc.run_pipeline(module, f"tidu-import,tidu-linearize,{last}")
    assert raised.value.location


def test_the_pass_for_iree_may_meet_graphs() -> None:
    module = tiduc.parse(SCATTER)
    tiduc.run_pipeline(module, "tidu-import,tidu-legalize-for-iree")
    assert module.operation.verify()


SLICE_OF_SCALAR = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = "stablehlo.dynamic_slice"(%x) <{slice_sizes = array<i64>}> : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}"""


def test_a_slice_of_a_scalar_can_be_read_again() -> None:
    """A slice of a scalar is printed in the generic form, because MLIR cannot parse its own short form of it."""
    module = tiduc.parse(SLICE_OF_SCALAR)
    with pytest.raises(ParseError):
        tiduc.parse(str(module))
    assert str(tiduc.parse(emit(module))) == str(module)
    assert tiduc.load(tiduc.load(SLICE_OF_SCALAR).vjp().text).outputs


def test_a_module_of_two_programs_is_structured() -> None:
    module = tiduc.parse(f"{BRANCH}\n{BRANCH.replace('@main', '@other')}")
    tiduc.run_pipeline(module, "tidu-import,tidu-structure")
    assert str(module).count("@tidu.case") == 2
    assert str(module).count('"private"') == 4  # four private functions, for the costs of the branches


SHARDED = (
    """sdy.mesh @mesh = <["d"=4]>
func.func @main(%x: tensor<8xf64> {sdy.sharding = #sdy.sharding<@mesh, SPLIT>}) -> tensor<8xf64> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, SPLIT>] out_shardings=[<@mesh, SPLIT>] AXES (%p: PART) {
    %1 = stablehlo.sine %p : PART
    sdy.return %1 : PART
  } : (tensor<8xf64>) -> tensor<8xf64>
  return %0 : tensor<8xf64>
}
""".replace("SPLIT", '[{"d"}]')
    .replace("AXES", 'manual_axes={"d"}')
    .replace("PART", "tensor<2xf64>")
)


def test_a_vjp_of_a_manual_computation_cannot_be_split() -> None:
    with pytest.raises(Unsupported, match="computes an output and a cotangent at once") as raised:
        tiduc.split(tiduc.load(SHARDED))
    assert raised.value.location == "-:4:10"


def test_a_type_that_stablehlo_lacks_is_an_error_of_the_file() -> None:
    with pytest.raises(ParseError, match="tensor<i17>") as raised:
        tiduc.load("func.func @main(%x: tensor<i17>) -> tensor<i17> {\n  return %x : tensor<i17>\n}")
    assert raised.value.location == "-:2:3"


def test_arrays_that_no_memory_holds_are_refused_for_iree() -> None:
    text = f"""func.func @main(%x: tensor<{2**62}x3xf64>) -> tensor<{2**62}x3xf64> {{
  %0 = "stablehlo.sort"(%x) <{{dimension = 1 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %p = stablehlo.compare GT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }}) : (tensor<{2**62}x3xf64>) -> tensor<{2**62}x3xf64>
  return %0 : tensor<{2**62}x3xf64>
}}"""
    program = tiduc.load(text)
    with pytest.raises(Unsupported, match="no machine has the memory") as raised:
        source_of(program)
    assert raised.value.location == "-:1:1"
    with pytest.raises(Unsupported, match="more than MLIR allows"):
        program.jvp()


def test_a_reduction_of_more_elements_than_mlir_allows_has_a_place() -> None:
    size = 2**63 - 1
    text = f"""func.func @main(%x: tensor<7x{size}xf64>) -> tensor<f64> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<7x{size}xf64>, tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}}"""
    with pytest.raises(Unsupported, match="more than MLIR allows") as raised:
        source_of(tiduc.load(text))
    assert raised.value.location == "-:3:24"


def test_the_reference_interpreter_runs_within_limits() -> None:
    text = """func.func @main(%x: tensor<i64>) -> tensor<i64> {
  %0 = stablehlo.while(%i = %x) : tensor<i64>
    cond {
      %one = stablehlo.constant dense<0> : tensor<i64>
      %go = stablehlo.compare NE, %i, %one : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %next = stablehlo.negate %i : tensor<i64>
      stablehlo.return %next : tensor<i64>
    }
  return %0 : tensor<i64>
}"""
    run = tiduc.load(text).compile(engine="reference", limits=Limits(seconds=1))
    with pytest.raises(CompileError, match="1 s"):
        run(np.int64(1))


def test_a_compiled_module_with_names_not_utf8_is_damaged() -> None:
    vmfb = tiduc.load(function("tensor<2xf32>")).compile(cached=False).vmfb
    with ZipFile(BytesIO(vmfb)) as archive:
        contents = archive.read("module.fb")
    damaged = with_contents(vmfb, "module.fb", contents.replace(b"iree.abi.declaration", b"\xff" * 20))
    assert damaged != vmfb
    with pytest.raises(TiducError, match="not a compiled module, or a damaged one"):
        tiduc.runtime.load(damaged)


def test_a_damaged_export_of_jax_is_an_error_of_the_file() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax.export")
    data = jax.export.export(jax.jit(jax.numpy.sin))(np.ones(3, np.float32)).serialize()
    at = data.index(b"vhlo") + 8
    with pytest.raises(ParseError):
        tiduc.models.from_jax.from_jax_export(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_a_manual_computation_without_an_end_has_a_place() -> None:
    with pytest.raises(ParseError, match="the end of an sdy.manual_computation") as raised:
        tiduc.load(SHARDED.replace("  } :", ""))
    assert raised.value.location == "-:3:3"


def test_flat_graphs_are_written_with_the_functions_of_their_composites() -> None:
    program = tiduc.load("""func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.composite "tidu.stop_gradient" %x {decomposition = @same} : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
func.func private @same(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}""")
    assert 'composite "tidu.stop_gradient"' in str(tiduc.parse(emit(program.jvp().flat)))


def test_a_name_that_is_not_utf8() -> None:
    named = 'func.func @main(%x: tensor<2xf64> {tidu.a = 1 : i64, "tidu.\\F3" = 2 : i64}) -> tensor<2xf64> {'
    with pytest.raises(ParseError, match="not UTF-8"):
        _ = tiduc.load(f"{named}\n  return %x : tensor<2xf64>\n}}").text


def test_a_file_of_shardy_with_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "f.mlir"
    body = 'sdy.mesh @m = <["x"=2]>\n' + function("tensor<2xf64>").replace("{\n", '{\n  // "\xf3"\n', 1)
    file.write_bytes(body.encode("latin-1"))
    assert "multiply" in tiduc.load(file).text


@pytest.mark.parametrize("element", ["i4", "i32"])
@pytest.mark.parametrize("engine", ["reference", "xla", "iree"])
def test_a_constant_shape(element: str, engine: str) -> None:
    shaped = f"""func.func @main(%x: tensor<f64>) -> tensor<?x?xf64> {{
  %n = stablehlo.constant dense<[1, 2]> : tensor<2x{element}>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [] : (tensor<f64>, tensor<2x{element}>) -> tensor<?x?xf64>
  return %y : tensor<?x?xf64>
}}"""
    program = tiduc.load(shaped)
    (y,) = program.compile(engine=engine)(np.array(3.0))
    np.testing.assert_array_equal(np.asarray(y), [[3.0, 3.0]])
    _, dy = program.jvp().compile(engine=engine)(np.array(3.0), np.array(2.0))
    np.testing.assert_array_equal(np.asarray(dy), [[2.0, 2.0]])


@pytest.mark.parametrize("mask", ["tidu.active_outputs", "tidu.active"])
@pytest.mark.parametrize("element", ["ui1", "i8"])
def test_an_active_mask_of_other_elements(mask: str, element: str) -> None:
    text = str(tiduc.load(function("tensor<2xf64>")).jvp().graphs)
    assert f"{mask} = array<i1: true" in text
    flag = "true" if element == "ui1" else "1"
    other = text.replace(f"{mask} = array<i1: true", f"{mask} = array<{element}: {flag}", 1)
    with pytest.raises(ParseError, match=r"array<i1>|expected"):
        tiduc.load(other.replace("1, false>", "1, 0>", 1))


def test_explain_follows_tuples() -> None:
    text = """func.func @main(%x: tensor<f64>, %i: tensor<i32>) -> tensor<f64> {
  %0 = stablehlo.tuple %x, %i : tuple<tensor<f64>, tensor<i32>>
  %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<f64>, tensor<i32>>) -> tensor<f64>
  return %1 : tensor<f64>
}"""
    assert explain(tiduc.parse(text), tiduc.load(text), None).inputs[0].active


@pytest.mark.parametrize("name", ["polygamma", "next_after", "zeta"])
@pytest.mark.parametrize("element", ["complex<f32>", "i32"])
def test_broadcasting_ops_of_real_numbers(name: str, element: str) -> None:
    type_ = f"tensor<4x{element}>"
    text = f"""func.func @main(%x: {type_}) -> {type_} {{
  %0 = chlo.broadcast_{name} %x, %x : ({type_}, {type_}) -> {type_}
  return %0 : {type_}
}}"""
    with pytest.raises(TiducError, match=f"broadcast_{name}") as raised:
        tiduc.load(text)
    assert raised.value.location == "-:2:8"


def test_a_word_of_the_dialect_in_place_of_a_value() -> None:
    with pytest.raises(ParseError, match=r"tidu\.name is neither") as raised:
        tiduc.load(function("tensor<2xf64>").replace("return %0", "return tidu.name"))
    assert raised.value.location == "-:3:10"


def test_a_name_that_is_a_location() -> None:
    named = 'func.func @main(%x: tensor<2xf64> {tidu.name = loc("a":1:2)}) -> tensor<2xf64> {'
    with pytest.raises(ParseError):
        tiduc.load(f"{named}\n  return %x : tensor<2xf64>\n}}")


def test_a_location_name_that_is_not_utf8() -> None:
    text = 'func.func @main(%x: tensor<2xf64> loc("\\F3")) -> tensor<2xf64> {\n  return %x : tensor<2xf64>\n}'
    with pytest.raises(ParseError, match="not UTF-8"):
        tiduc.load(text)


def test_a_graph_with_tangent_outputs_alone() -> None:
    text = str(tiduc.load(function("tensor<2xf64>")).jvp().graphs)
    with pytest.raises(ParseError, match=r"has tidu.output_of, but lacks tidu.input_of"):
        tiduc.load(text.replace("tidu.input_of", "tidu.other"))


def test_symbols_that_are_not_strings() -> None:
    text = str(tiduc.load(function("tensor<2xf64>")).jvp().graphs)
    with pytest.raises(ParseError):
        tiduc.load(text.replace('sym_name = "L0"', 'sym_name = loc("a":1:2)'))
    with pytest.raises(TiducError):
        tiduc.load(
            function("tensor<2xf64>").replace(
                "{\n", '{\n  "tidu.name"(%x) {sym_name = 1 : i64} : (tensor<2xf64>) -> ()\n', 1
            )
        )


def test_clamped_indices_take_no_more_memory_than_their_limits() -> None:
    n = 2**32
    text = f"""func.func @main(%x: tensor<{n}x4xf64>, %i: tensor<{n}xi64>) -> tensor<{n}x4xf64> {{
  %0 = "stablehlo.gather"(%x, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}}
    : (tensor<{n}x4xf64>, tensor<{n}xi64>) -> tensor<{n}x4xf64>
  return %0 : tensor<{n}x4xf64>
}}"""
    assert "clamp" in str(source_of(tiduc.load(text)).stablehlo)


def test_attribute_with_elements_of_128_bits() -> None:
    text = function("tensor<2xf64>").replace(
        "(%x: tensor<2xf64>)", "(%x: tensor<2xf64> {my.a = array<f128>})", 1
    )
    assert "array<f128>" in text
    with pytest.raises(ParseError, match="an attribute cannot be read"):
        tiduc.load(text).vjp()


def test_references_that_are_locations() -> None:
    text = str(tiduc.load(function("tensor<2xf64>")).jvp().graphs)
    for name in ("tidu.input_of", "inputs"):
        damaged = re.sub(rf"{name} = \[[^\]]*\]", f'{name} = [loc("a":1:2)]', text)
        assert damaged != text
        with pytest.raises(ParseError):
            tiduc.load(damaged)


@pytest.mark.parametrize("n", [2**60, 2**63 - 1])
def test_residuals_beyond_all_memory(n: int) -> None:
    type_ = f"tensor<{n}xf64>"
    text = f"""func.func @main(%x: {type_}) -> {type_} {{
  %n = stablehlo.constant dense<3> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %k, %y = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, {type_}
    cond {{
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %c : {type_}
      stablehlo.return %j, %s : tensor<i32>, {type_}
    }}
  return %y : {type_}
}}"""
    assert "cosine" in str(tiduc.load(text).vjp())


def test_sizes_of_more_than_32_bits() -> None:
    text = """func.func @main(%x: tensor<?xf64>, %v: tensor<f64>, %low: tensor<1xi64>) -> tensor<?xf64> {
  %0 = stablehlo.constant dense<9223372036854775807> : tensor<1xi64>
  %1 = stablehlo.dynamic_pad %x, %v, %low, %0, %0
    : (tensor<?xf64>, tensor<f64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf64>
  return %1 : tensor<?xf64>
}"""
    with pytest.raises(Unsupported, match="does not fit 32 bits"):
        tiduc.load(text).vjp().vjp()


def test_reduction_of_nothing_to_a_wider_type() -> None:
    text = """func.func @main(%x: tensor<0xf32>, %init: tensor<f32> {tidu.name = "init"}) -> tensor<f64> {
  %0 = "stablehlo.reduce"(%x, %init) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.multiply %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) {dimensions = array<i64: 0>} : (tensor<0xf32>, tensor<f32>) -> tensor<f64>
  return %0 : tensor<f64>
}"""
    x, init, dinit = np.zeros(0, np.float32), np.float32(2), np.float32(3)
    y, dy = tiduc.load(text).jvp(["init"]).compile(engine="reference")(x, init, dinit)
    assert (y, dy) == (2, 3)
