"""shlo-opt: what it prints, writes and returns, for every option."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stablehlo_py import compiler
from stablehlo_py.backends.base import get_backend
from stablehlo_py.cli import opt
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir

MODEL = """
module @jit_f {
  func.func public @main(%arg0: tensor<8x16xf32>, %arg1: tensor<16x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = call @relu(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
  func.func private @relu(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
"""  # noqa: E501
RECURSIVE = """func.func @main() {
  // expected-error@+1 {{recursion cannot be inlined}}
  call @main() : () -> ()
  return
}
"""


@pytest.fixture
def run(capfdbinary, monkeypatch, tmp_path):
    """run(*arguments, text=..., stdin=...) -> (status, stdout, stderr); `text` becomes the file input.mlir."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, text=None, stdin=None):
        if text is not None:
            Path("input.mlir").write_text(text)
            arguments = (*arguments, "input.mlir")
        if stdin is not None:
            data = stdin if isinstance(stdin, bytes) else stdin.encode()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = opt.main(list(arguments))
        out, err = capfdbinary.readouterr()
        return status, out if out.startswith(b"ML\xef") else out.decode(), err.decode()

    return run


def test_without_options_the_module_is_parsed_and_printed(run):
    status, out, err = run(text=MODEL)
    assert (status, err) == (0, "")
    assert "call @relu" in out
    assert run(stdin=out) == (0, out, "")


def test_passes_run_in_order(run):
    status, out, _ = run(
        "--pass-pipeline=builtin.module(inline,legalize-to-hlo,cse,func.func(canonicalize))", text=MODEL
    )
    assert status == 0
    assert '"hlo.dot"' in out and "stablehlo" not in out and "@relu" not in out


@pytest.mark.parametrize("stage", compiler.module_stages(get_backend("cpu")))
def test_every_stage_is_printed_and_can_be_gone_on_from(run, stage):
    status, out, err = run(f"--compile-to={stage}", text=MODEL)
    assert (status, err) == (0, "")
    last = compiler.module_stages(get_backend("cpu"))[-1]
    assert (
        run(f"--compile-from={stage}", f"--compile-to={last}", stdin=out)[1]
        == run(f"--compile-to={last}", text=MODEL)[1]
    )


@pytest.mark.parametrize("stage", get_backend("cpu").stages)
def test_stages_of_the_backend_are_texts(run, stage):
    status, out, err = run(f"--compile-to={stage}", text=MODEL)
    assert (status, err) == (0, "") and out.strip()
    status, _, err = run(f"--compile-from={stage}", "--compile-to=object", stdin=out)
    assert status == 2 and "not read back" in err


def test_stages_and_passes_are_dumped_to_numbered_files(run, tmp_path):
    assert run("--compile-to=optimized", "--dump-stages=out", text=MODEL)[0] == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names[0] == "00-input.mlir"
    assert [re.sub(r"^\d+-", "", name) for name in names if "stage" in name] == [
        "stage-stablehlo.mlir",
        "stage-hlo.mlir",
        "stage-optimized.mlir",
    ]
    assert any(name.endswith("-legalize-to-hlo.mlir") for name in names)


def test_watching_goes_to_stderr(run):
    status, out, err = run(
        "--pass-pipeline=inline,cse,dce", "--print-ir-before=cse", "--print-ir-after", "--timing", text=MODEL
    )
    assert status == 0 and "IR before" not in out
    assert re.findall(r"IR (before|after) (\S+)", err) == [
        ("after", "inline"),
        ("before", "cse"),
        ("after", "cse"),
        ("after", "dce"),
    ]
    assert re.search(r"total +[\d.]+ +100.0%", err)


def test_a_watched_pass_that_did_not_run_is_noted(run):
    assert "no pass 'csee' ran" in run("--pass-pipeline=cse", "--print-ir-after=csee", text=MODEL)[2]


def test_passes_are_listed_with_their_options(run):
    status, out, _ = run("--list-passes")
    assert status == 0
    assert "cse: Merge equal pure ops." in out
    assert re.search(r"^inline: .*\n    keep=None ", out, re.MULTILINE)


def test_output_file_and_bytecode(run, tmp_path):
    assert run("-o", "out.mlirbc", "--emit-bytecode", text=MODEL)[0] == 0
    assert (tmp_path / "out.mlirbc").read_bytes().startswith(b"ML\xefR")
    status, out, _ = run("out.mlirbc")
    assert status == 0 and "call @relu" in out
    assert run("--no-isolate", "out.mlirbc")[1] == out


def test_corrupt_bytecode_is_an_error_not_a_crash(run, tmp_path):
    assert run("-o", "out.mlirbc", "--emit-bytecode", text=MODEL)[0] == 0
    data = bytearray((tmp_path / "out.mlirbc").read_bytes())
    data[20:60] = b"\xff" * 40
    (tmp_path / "bad.mlirbc").write_bytes(data)
    status, _, err = run("bad.mlirbc")
    assert status == 3 and "error[load]" in err and "Traceback" not in err


def test_debuginfo_and_elision(run):
    text = "func.func @main() -> tensor<9xi32> {\n"
    text += '  %0 = "hlo.constant"() {value = dense<[1,2,3,4,5,6,7,8,9]> : tensor<9xi32>}'
    text += " : () -> tensor<9xi32>\n  return %0 : tensor<9xi32>\n}\n"
    _, out, _ = run("--mlir-print-debuginfo", text=text)
    assert 'loc("input.mlir":2:8)' in out
    assert "__elided__" in run("--elide=4", text=text)[1]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--pass-pipeline=csee"], 2, "did you mean 'cse'"),
        (["--pass-pipeline=inline{kep=x}"], 2, "did you mean 'keep'"),
        (["--compile-to=optimised"], 2, "there is no stage 'optimised'"),
        (["--compile-from=fused", "--compile-to=hlo"], 2, "comes before"),
        (["--compile-from=fused"], 2, "add --compile-to"),
        (["--compile-to=hlo", "--pass-pipeline=cse"], 2, "run shlo-opt twice"),
        (["--load-pass=none.py"], 2, "there is no pass file"),
        (["--emit-bytecode", "--pretty"], 2, "drop --pretty"),
        (["--dump-stages=input.mlir/x"], 3, "cannot be made"),
    ],
)
def test_mistakes_are_explained(run, arguments, status, message):
    found, out, err = run(*arguments, text=MODEL)
    assert (found, out) == (status, "")
    assert message in err and "Traceback" not in err


def test_a_missing_file_is_bad_input(run):
    status, _, err = run("none.mlir")
    assert status == 3 and "cannot read 'none.mlir'" in err


def test_unknown_arguments_are_wrong_usage(run):
    with pytest.raises(SystemExit) as caught:
        run("--no-such-option", text=MODEL)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("func.func @main() {\n  nosuch\n}\n", "input.mlir:2:3"),
        ("func.func @a() {\n  return\n}\nfunc.func @main() {\n  nosuch\n}\n", "input.mlir:5:3"),
        ('module {\n  func.func @main() {\n    "hlo.add"() : () -> ()\n    return\n  }\n}\n', "input.mlir:3:5"),
    ],
)
def test_parse_errors_name_file_line_and_column(run, text, place):
    status, _, err = run(text=text)
    assert status == 3 and place in err


def test_split_input_keeps_line_numbers(run):
    text = MODEL + "// -----\n" + "func.func @main() {\n  return\n}\n// -----\n" + RECURSIVE
    status, _, err = run("--split-input-file", "--pass-pipeline=inline", text=text)
    line = 1 + text[: text.index("call @main")].count("\n")
    assert status == 4 and f"input.mlir:{line}:3" in err
    status, out, _ = run("--split-input-file", text=text)
    assert status == 0 and out.count("// -----") == 2


def test_expected_errors_are_checked(run):
    arguments = ("--pass-pipeline=inline", "--verify-diagnostics", "--split-input-file")
    assert run(*arguments, text=MODEL + "// -----\n" + RECURSIVE)[0] == 0
    status, _, err = run(*arguments, text=MODEL + "// -----\n" + RECURSIVE.replace("recursion", "cursing"))
    assert status == 1
    assert "unexpected error: error[unsupported]: 'func.call': recursion" in err
    assert "expected error 'cursing cannot be inlined' was not reported" in err
    status, _, err = run(*arguments, text=RECURSIVE.replace("call @main", "// call @main"))
    assert status == 1 and "was not reported" in err
    for comment in ("// expected-error@x {{a}}", "// expected-warning {{a}}"):
        status, _, err = run(*arguments, text=f"{comment}\n{MODEL}")
        assert status == 2 and "cannot be read" in err


def test_a_defect_is_reported_with_status_5(run, tmp_path):
    (tmp_path / "broken.py").write_text(
        "from dataclasses import dataclass\n"
        "from stablehlo_py.passmanager.base import Pass\n"
        "@dataclass(frozen=True)\n"
        "class Broken(Pass):\n"
        "    'Fails.'\n"
        "    name = 'broken'\n"
        "    def run(self, module): raise IndexError('no such thing')\n"
    )
    status, out, err = run("--load-pass=broken.py", "--pass-pipeline=cse,broken", "--dump-stages=d", text=MODEL)
    assert (status, out) == (5, "")
    assert "pass 'broken' failed: IndexError: no such thing" in err
    assert "--load-pass broken.py --pass-pipeline=broken d/02-before-broken.mlir" in err
    assert 'broken.py", line 7' in err, "the traceback of the pass is there"


def test_pretty_shows_regions_calls_and_constants(run):
    text = """
    func.func private @f(tensor<2xf32>) -> tensor<2xf32>
    func.func @main(%x: tensor<2xf32>, %p: i1) -> (tensor<2xf32>, tensor<2xi32>) {
      %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %1:2 = "hlo.top_k"(%0) {k = 2} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi32>)
      %2 = scf.while (%i = %1#0) : (tensor<2xf32>) -> tensor<2xf32> {
        scf.condition(%p) %i : tensor<2xf32>
      } do {
      ^bb0(%i: tensor<2xf32>):
        %c = "hlo.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
        %s = "hlo.slice"(%c) {start = array<i64: 0>, limit = array<i64: 2>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<2xf32>
        scf.yield %s : tensor<2xf32>
      }
      return %2, %1#1 : tensor<2xf32>, tensor<2xi32>
    }
    """  # noqa: E501
    expected = """\
func private @f(f32[2]) -> (f32[2])
func @main(%arg0: f32[2], %arg1: i1) -> (f32[2], i32[2]) {
  %0 = call @f(%arg0) : f32[2]
  %1:2 = top_k %0 {k=2} : f32[2], i32[2]
  %2 = scf.while %1#0 { |%3: f32[2]|
    scf.condition %arg1, %3
  }, { |%4: f32[2]|
    %5 = constant {value=dense<[1.000000e+00, 2.000000e+00]>} : f32[2]
    %6 = slice %5 {limit=[2] start=[0] strides=[1]} : f32[2]
    scf.yield %6
  } : f32[2]
  return %2, %1#1
}
"""
    assert run("--pretty", text=text)[1] == expected


def test_shlo_opt_imports_neither_jax_nor_llvm():
    code = (
        "import sys; from stablehlo_py.cli import opt; opt.main(['--pass-pipeline=inline,legalize-to-hlo,cse,dce'])\n"
        "assert not {'jax', 'jaxlib', 'llvmlite', 'scipy'} & set(sys.modules), 'imported too much'"
    )
    done = subprocess.run([sys.executable, "-c", code], input=MODEL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "hlo.dot" in done.stdout


def test_a_reader_that_closes_early_is_no_error():
    program = "import sys; from stablehlo_py.cli import opt; sys.exit(opt.main())"
    big = MODEL.replace("dense<0.0> : tensor<f32>", "dense<0.0> : tensor<f32>" + "\n" * 10) * 1
    writer = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    writer.stdout.close()
    _, err = writer.communicate(big.encode())
    assert (writer.returncode, err) == (0, b"")


def test_text_of_several_functions_keeps_its_attributes():
    from stablehlo_py.frontend.text import parse_text

    with make_context() as context:
        module = parse_text(
            ir,
            '#a = loc("x")\nmodule @m attributes {hlo.arena_bytes = 8} { func.func @f() { return loc(#a) } }',
            "n",
            context,
        )
        assert module.operation.attributes["sym_name"].value == "m"
        assert isinstance(module, ir.Module) and "hlo.arena_bytes" in module.operation.attributes
        assert len(parse_text(ir, "// nothing but a comment", "n", context).body.operations) == 0
        assert len(parse_text(ir, "func.func @f() { return }", "n", context).body.operations) == 1


@pytest.mark.parametrize("head", ["", "\n", "\r\n", "// a comment\n", '#a = loc("x":7:8)\n'])
def test_places_in_text_of_several_functions_are_those_of_the_text(head):
    from stablehlo_py.frontend.text import parse_text

    text = (
        head
        + "func.func @f() { return } func.func @g(%0: i32) { return }\n  func.func @h() { return } #b = loc(unknown)"
    )
    line = 1 + head.count("\n")
    with make_context() as context:
        module = parse_text(ir, text, "name", context)
        f, g, h = module.body.operations
        inside = g.regions[0].blocks[0]
        found = [each.location for each in (f, g, inside.arguments[0], inside.operations[0], h)]
        places = [(each.filename, each.start_line, each.start_col) for each in found]
        assert places == [("name", line, column) for column in (1, 27, 40, 51)] + [("name", line + 1, 3)]
        broken = [("@g(", "!", 37), ("{ return }\n", "{ }\n", 27), ("@g(%0: i32) ", "@g() -> i32 ", 51)]
        for right, wrong, column in broken:
            with pytest.raises(ir.MLIRError) as caught:
                parse_text(ir, text.replace(right, wrong), "name", context)
            assert f'"name":{line}:{column}: ' in str(caught.value)


def test_places_that_text_of_several_functions_gives_are_kept():
    from stablehlo_py.frontend.text import parse_text

    with make_context() as context:
        text = 'func.func private @f() loc(#a)  func.func private @g() loc("-":3:4)  #a = loc("x"("y":5:6))'
        f, g = parse_text(ir, text, "name", context).body.operations
        assert [str(each.location) for each in (f, g)] == ['loc("x"("y":5:6))', 'loc("-":3:4)']
        f, g = parse_text(ir, text.replace("-", "z"), "name", context).body.operations
        assert [str(each.location) for each in (f, g)] == ['loc("x"("y":5:6))', 'loc("z":3:4)']


def test_the_former_spelling_of_the_cpu_warns_and_works(run):
    status, out, err = run("--target=avx2", "--compile-to=kernels", text=MODEL)
    assert (status, err) == (0, "warning: --target names the backend: write --cpu avx2\n")
    assert (status, out, "") == run("--target=cpu", "--cpu=avx2", "--compile-to=kernels", text=MODEL)
    assert 'target_cpu = "haswell"' in out
    status, _, err = run("--target=abacus", "--compile-to=fused", text=MODEL)
    assert status == 2 and "no backend for target 'abacus'" in err
