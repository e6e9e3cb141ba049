"""What `load` says about sources that are broken, and that no source can end the process."""

import random
import re
import struct
import sys
from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py import errors
from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import LoadError, Problem, ResourceError, ShloError, VersionError
from stablehlo_py.frontend.load import load
from stablehlo_py.frontend.parse import parse_again
from stablehlo_py.frontend.source import identify
from stablehlo_py.mlir import bytecode, ir, stablehlo

TEXT = """func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  %1 = stablehlo.custom_call @somewhere(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
TWO_BAD_FUNCTIONS = """func.func @main(%a: tensor<4xf32>, %b: tensor<3xf32>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}
func.func @other(%a: tensor<4xf32>, %b: tensor<3xf32>) {
  %0 = "stablehlo.subtract"(%a, %b) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}
"""


def artifact():
    return stablehlo.serialize_portable_artifact_str(TEXT, "1.0.0")


def error_of(source, kind=LoadError, **options):
    with pytest.raises(ShloError) as caught:
        load(source, **options)
    assert type(caught.value) is kind, caught.value
    return caught.value


# --- text ------------------------------------------------------------------------------------------------------------


def test_a_damaged_name_that_only_a_pass_reads_is_a_load_error():
    text = r"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @foo(%x) {"indices_\FE" = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(LoadError, match="UTF-8"):
        shlo.compile(text, options=shlo.Options(cache_dir=None))


@pytest.mark.parametrize("isolated", [False, True])
def test_every_verifier_error_has_the_users_line(tmp_path, isolated):
    path = tmp_path / "bad.mlir"
    path.write_text(TWO_BAD_FUNCTIONS)
    error = error_of(path, isolate=isolated)
    assert error.problems == (
        Problem("requires the same shape for all operands and results", f"{path}:2:8", "stablehlo.add"),
        Problem("requires compatible types for all operands and results", f"{path}:6:8", "stablehlo.subtract"),
    )


def test_errors_at_locations_of_a_framework_name_its_file():
    line = '%0 = "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>'
    text = TWO_BAD_FUNCTIONS.replace(line, line + ' loc(callsite("model.py":12:3 at "train.py":3:1))', 1)
    assert error_of(text).problems[0].location == "model.py:12:3"


def test_syntax_errors():
    error = error_of("func.func @main() {\n  %0 = stablehlo.ad %a\n  return\n}")
    assert error.location == "<text>:2:8" and "stablehlo.ad" in error.reason + error.problems[0].reason
    assert "stablehlo." in error.remedy
    assert error_of(b"some words").location == "<bytes>:1:1"


def test_another_dialect_is_named():
    error = error_of("func.func @main() {\n  tf.Const\n  return\n}")
    assert error.location == "<text>:2:3" and "'tf'" in error.remedy


@pytest.mark.parametrize("text", ["// nothing\n", "func.func private @declared() -> tensor<f32>\n"])
def test_no_function(text):
    assert "no function with a body" in error_of(text).reason


# --- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["", " \n", b"", b"  \n"])
def test_empty(source):
    assert "empty" in error_of(source).reason


@pytest.mark.parametrize("size", [2, 4, 5, 12, 20, 40, 200])
def test_truncated(size):
    error = error_of(artifact()[:size])
    problem = error.problems[0]
    assert re.search(r"end|header|damaged", problem.reason), problem
    assert "again" in problem.remedy and problem.location == "<bytes>"


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(seed):
    data = b"\0" + random.Random(seed).randbytes(200)
    error = error_of(data)
    assert "unknown format" in error.reason and "portable artifact" in error.remedy


@pytest.mark.parametrize(
    ("data", "what"), [(b"\x1f\x8b\x08\0", "gzip"), (b"PK\x03\x04rest", "zip"), (b"\x7fELF", "native")]
)
def test_other_formats_are_named(data, what):
    assert what in error_of(data).reason


def test_a_flatbuffer_with_wild_offsets_is_no_jax_export():
    for seed in range(200):
        numbers = random.Random(seed)
        data = struct.pack("<8I", *(numbers.choice([0, 4, 8, 31, 0xFFFFFFFF, 0x7FFFFFFF]) for _ in range(8)))
        with pytest.raises(LoadError):
            identify(data, "<bytes>")


def test_a_damaged_target_of_a_call_is_a_load_error():
    assert "UTF-8" in str(error_of(artifact().replace(b"somewhere", b"some\xffhere")))


def test_bytecode_that_mlir_writes_and_does_not_read_is_a_load_error():
    with make_context() as context, pytest.raises(LoadError, match="<bytes>"):
        parse_again(identify(artifact(), "<bytes>"), artifact()[:200], context)


def test_a_module_that_stayed_vhlo_has_no_function():
    text = """vhlo.func_v1 @main() -> () {
      "vhlo.return_v1"() : () -> ()
    } {arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>, sym_visibility = #vhlo.string_v1<"">}"""
    with pytest.raises(LoadError):
        load(text)


def test_a_damaged_name_is_a_load_error():
    data = artifact()
    error = error_of(data.replace(b"main", b"ma\xffn"), isolate=True)
    assert "UTF-8" in str(error)


@pytest.mark.parametrize("isolated", [False, True])
def test_a_newer_version(isolated):
    data = artifact().replace(b"StableHLO_v1.0.0", b"StableHLO_v9.9.0")
    error = error_of(data, VersionError, isolate=isolated)
    assert "9.9.0" in error.reason and stablehlo.get_current_version() in error.reason
    assert "upgrade" in error.remedy


def test_an_older_version():
    error = error_of(artifact().replace(b"StableHLO_v1.0.0", b"StableHLO_v0.0.1"), VersionError)
    assert "0.0.1" in error.reason and stablehlo.get_minimum_version() in error.reason


# --- files -----------------------------------------------------------------------------------------------------------


def test_missing_file(tmp_path):
    path = str(tmp_path / "missing.mlir")
    error = error_of(path, ResourceError)
    assert error.location == path and "No such file" in error.reason
    assert isinstance(error, OSError)


def test_directory(tmp_path):
    assert "directory" in error_of(tmp_path, ResourceError).reason


def test_file_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot read" in error_of(tmp_path / "file" / "x", ResourceError).reason


def test_unreadable_file(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    error = error_of(tmp_path / "file", ResourceError)
    assert "Permission denied" in error.reason and "permissions" in error.remedy


def test_no_file_name():
    error_of("a\0b", ResourceError)


# --- Shardy ----------------------------------------------------------------------------------------------------------


def test_shardy_without_jaxlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxlib.mlir.dialects", None)
    text = 'module {\n  sdy.mesh @mesh = <["d"=4]>\n  func.func @main() {\n    return\n  }\n}\n'
    error = error_of(text, isolate=False)  # the child process would find jaxlib
    assert "Shardy" in error.reason and "pip install jaxlib" in error.remedy


def test_errors_of_a_module_with_shardy_have_lines(tmp_path):
    pytest.importorskip("jaxlib")
    path = tmp_path / "bad.mlir"
    path.write_text(
        'module {\n  sdy.mesh @mesh = <["d"=4]>\n  func.func @main() {\n    stablehlo.ad\n    return\n  }\n}\n'
    )
    assert error_of(path).location == f"{path}:4:5"


# --- documentation ---------------------------------------------------------------------------------------------------


def test_documentation_and_code_agree():
    page = Path(__file__).parents[2] / "docs" / "errors.md"
    rows = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\) \| `(\w+)`.*\| (\d) \|", page.read_text(), re.MULTILINE)
    documented = {(code, name, int(status)) for code, _, name, status in rows}
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ShloError)]
    assert documented == {(each.code, each.__name__, each.exit_status) for each in classes if each is not ShloError}
    headings = set(re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE))
    assert headings == {code for code, *_ in documented} == {anchor for _, anchor, *_ in rows}
    for code in headings:
        assert f"error[{code}]" in page.read_text(), f"{code} has no example"


@pytest.mark.parametrize("isolate", [True, False])
@pytest.mark.parametrize(
    "place",
    [
        "func.func @main(%a: tensor<f32> {N = 1 : i64}) -> tensor<f32> { return %a : tensor<f32> }",
        "func.func @main(%a: tensor<f32>) -> (tensor<f32> {N = 1 : i64}) { return %a : tensor<f32> }",
        "func.func @main(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.custom_call @Sharding(%a)"
        " {backend_config = {N = 1 : i64}, api_version = 4 : i32} : (tensor<f32>) -> tensor<f32>"
        " return %0 : tensor<f32> }",
        "module attributes {N = 1 : i64} { func.func @main(%a: tensor<f32>) -> tensor<f32> {"
        " return %a : tensor<f32> } }",
        "func.func @main(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.negate %a {N = 1 : i64} : tensor<f32>"
        " return %0 : tensor<f32> }",
    ],
    ids=["argument", "result", "call", "module", "op"],
)
def test_names_of_attributes_that_are_no_text(place: str, isolate: bool) -> None:
    """Over some of them MLIR's bindings end the process: it goes on."""
    with make_context():
        module = ir.Module.parse(place.replace("N =", "name.of.it ="))
        damaged = bytecode(module).replace(b"name.of.it", b"nam\xff\xfeof.it")
    assert b"\xff\xfe" in damaged
    try:
        load(damaged, isolate=isolate)
    except LoadError as error:
        assert "is not valid UTF-8" in str(error)
