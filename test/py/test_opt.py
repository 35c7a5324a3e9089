"""The textual syntax of pass pipelines, and the driver that runs them. test/lit checks the driver's output."""

from pathlib import Path

import pytest
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import context, parse
from tiduc.opt import PASSES, run_pipeline
from tiduc.opt.observe import Observe
from tiduc.opt.textual import Configured, Native, Option, Pass, parse_pipeline
from tiduc.tables import native_passes

EXP_AX = """
func.func @main(%a: tensor<f64>, %x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}"""

TABLE = {
    "tidu-p": Pass("tidu-p", "", lambda module: None),
    "tidu-q": Pass(
        "tidu-q",
        "",
        lambda module: None,
        (
            Option("text", "string", ""),
            Option("flag-one", "bool", ""),
            Option("names", "names", ""),
            Option("refs", "references", ""),
        ),
    ),
}


def parsed(text):
    with context():
        return parse_pipeline(text, TABLE)


def options(text):
    (own,) = parsed(f"tidu-q{{{text}}}")
    return own.options


def shape(text):
    return [e.text.strip() if isinstance(e, Native) else e.pass_.name for e in parsed(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("tidu-p", ["tidu-p"]),
        (" builtin.module( tidu-p , cse ) ", ["tidu-p", "cse"]),
        ("cse,canonicalize{max-iterations=3},tidu-p", ["cse,canonicalize{max-iterations=3}", "tidu-p"]),
        ("func.func(cse,canonicalize),tidu-p,cse", ["func.func(cse,canonicalize)", "tidu-p", "cse"]),
        ("tidu-p,tidu-q{text=','},tidu-p", ["tidu-p", "tidu-q", "tidu-p"]),
    ],
)
def test_split(text, expected):
    assert shape(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("text=a", {"text": "a"}),
        ("text='a b' flag-one", {"text": "a b", "flag_one": True}),
        ('text="it\'s"', {"text": "it's"}),
        ("text={a b}", {"text": "a b"}),
        ("  flag-one=false   text=x ", {"flag_one": False, "text": "x"}),
        ("text=@main", {"text": "main"}),
        ("names=x,y", {"names": ["x", "y"]}),
        ('names="x,y"', {"names": ["x", "y"]}),
        ("""names=x,"params['w1']",@"a,b" """, {"names": ["x", "params['w1']", "a,b"]}),
    ],
)
def test_options(text, expected):
    assert options(text) == expected


def test_references():
    with context():
        assert options('refs=@main::@v0,@"odd name"::@"a,b"')["refs"] == [
            ir.SymbolRefAttr.get(["main", "v0"]),
            ir.SymbolRefAttr.get(["odd name", "a,b"]),
        ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse,tidu-r", "1:5: error: unknown pass 'tidu-r'"),
        ("tidu-q{name=x}", "no option 'name' in 'tidu-q'; there are: 'text'"),
        ("tidu-q{flag-one=maybe}", "option 'flag-one' of 'tidu-q' expects true or false"),
        ("tidu-q{refs=x}", "expects a reference such as"),
        ("tidu-q{names=@a::@b}", "expects one symbol"),
        ("tidu-q(cse)", "expected '{' and options"),
        ("tidu-q{text='a}", "expected ''' before the end"),
        ("cse,tidu-p)", "')' at 11 has no opening partner"),
    ],
)
def test_refused(text, message):
    with pytest.raises(RequestError) as error:
        parsed(text)
    assert message in str(error.value)


def test_columns_of_native_errors_are_those_of_the_whole_pipeline():
    with pytest.raises(RequestError, match="pass-pipeline:1:13: error: 'nope' does not refer"):
        run_pipeline(parse(EXP_AX), "tidu-import,nope")


def test_options_reach_the_pass():
    module = parse(EXP_AX)
    run_pipeline(module, "tidu-import,tidu-linearize{wrt=x name=mine}")
    assert 'sym_name = "mine"' in str(module)


def test_an_error_in_a_pass_leaves_the_context_usable():
    module = parse(EXP_AX)
    with pytest.raises(RequestError):
        run_pipeline(module, "tidu-linear-transpose")
    run_pipeline(module, "tidu-import,tidu-linearize,tidu-linear-transpose,tidu-materialize-merge,tidu-lower")
    assert "func.func @main" in str(module)


def test_passes_are_passes_of_mlir():
    module = parse(EXP_AX)
    with context():
        manager = PassManager("builtin.module")
        manager.add(PASSES["tidu-import"].bound(), name="tidu-import")
        manager.add("cse")
        manager.add(PASSES["tidu-linearize"].bound(wrt=["x"]), name="tidu-linearize")
        manager.run(module.operation)
    assert 'sym_name = "L0"' in str(module)


def test_without_options_the_passes_make_what_vjp_makes():
    from tiduc.loading import load

    module = parse(EXP_AX)
    run_pipeline(module, "tidu-import,tidu-linearize,tidu-linear-transpose,tidu-materialize-merge,tidu-lower")
    (function,) = module.body.operations
    program = load(EXP_AX).vjp()  # the variable keeps the module alive, because its ops do not
    (expected,) = program.module.body.operations
    ours, theirs = (
        [op.operation.name for op in f.operation.regions[0].blocks[0].operations]
        for f in (function, expected)
    )
    assert ours == theirs


def test_every_pass_has_a_description():
    for name, pass_ in PASSES.items():
        assert name == pass_.name and pass_.description.endswith(".")
        assert all(option.description for option in pass_.options)


def test_own_elements_keep_their_text():
    (own,) = parsed(" tidu-q{text=a} ")
    assert isinstance(own, Configured) and own.text == "tidu-q{text=a}"


def test_listed_native_passes_are_registered() -> None:
    with context():
        for name in native_passes():
            PassManager.parse(f"any({name})")  # raises ValueError if MLIR does not know the name


def test_a_reproducer_replaces_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("notes")
    with pytest.raises(RequestError, match=f"{file}: error: the file exists and is not a reproducer"):
        run_pipeline(parse(EXP_AX), "cse", Observe(reproducer=str(file)))
    assert file.read_text() == "notes"
