"""Pipelines: the syntax, typed options, mixing with MLIR's passes, what is said on errors."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.dialect.census import Census
from stablehlo_py.dialect.types import op_names
from stablehlo_py.errors import InternalError, OptionError, UnsupportedError
from stablehlo_py.passes.cse import Cse
from stablehlo_py.passes.dce import Dce
from stablehlo_py.passes.gather_sparse_products import GatherSparseProducts
from stablehlo_py.passes.inline import Inline
from stablehlo_py.passes.peephole import Peephole
from stablehlo_py.passmanager import registry
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.pipeline import Known, Pipeline, parse_pass

MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Options(Pass):
    """A pass with options of every type."""

    name: ClassVar[str] = "all-options"
    flag: bool = False
    max_count: int = 3
    scale: float = 1.5
    label: str = "a"
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (1, 2)
    limit: int | None = None

    def run(self, module):
        if self.label == "raise":
            raise KeyError("lost")
        if self.label == "unsupported":
            raise UnsupportedError("not this")
        if self.label == "break":
            # A use before its definition: the verifier will tell.
            block = module.body.operations[0].regions[0].blocks[0]
            block.operations[1].operation.move_before(block.operations[0].operation)
            block.operations[0].operation.operands[0] = block.operations[1].operation.result


RUNS: list[str] = []


@dataclass(frozen=True)
class Counted(Pass):
    """A pass that says that it ran, and whether it changed something."""

    name: ClassVar[str] = "counted"
    idempotent: ClassVar[bool] = True
    about: str = ""
    changes: bool = False

    def roots(self):
        return (self.about,) if self.about else None

    def run(self, module):
        RUNS.append(self.about)
        return self.changes


@pytest.fixture(autouse=True)
def _register(monkeypatch):
    monkeypatch.setattr(registry, "_loaded", {Options.name: Options})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Options()),
        ("{flag}", Options(flag=True)),
        ("{flag=false max-count=-7}", Options(max_count=-7)),
        ("{scale=2e-3 label='two words'}", Options(scale=2e-3, label="two words")),
        ("{names=a,b.c sizes=}", Options(names=("a", "b.c"), sizes=())),
        ("{names={a,b} sizes=[4,5]}", Options(names=("a", "b"), sizes=(4, 5))),
        ("{limit=9}", Options(limit=9)),
        ("{limit=none}", Options()),
    ],
)
def test_options_have_the_types_of_their_fields(text, expected):
    assert parse_pass("all-options", text) == expected
    assert Pipeline.parse(str(Pipeline([expected]))).steps == (expected,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("all-options{max-cuont=1}", "did you mean 'max-count'"),
        ("all-options{max-count=1.5}", "is of type int, got '1.5'"),
        ("all-options{flag=perhaps}", "is of type bool"),
        ("all-options{sizes=1,x}", "is of type int, got 'x'"),
        ("all-options(cse)", "stand in braces"),
        ("cse,dce)", "column 8 closes nothing"),
        ("cse,all-options{flag", "column 16 is not closed"),
        ("all-options{label='a}", "not closed"),
        ("func.func(all-options)", "move 'all-options' out"),
        ("builtin.module(cse),builtin.module(dce)", "one builtin.module"),
        ("canonicalise", "canonicalise"),
        ("cse,dcee", "did you mean 'dce'"),
    ],
)
def test_mistakes_are_explained_before_anything_runs(parse, text, message):
    module = parse(MODULE)
    with pytest.raises(OptionError) as caught:
        Pipeline.parse(text).run(module)
    assert message in str(caught.value)
    assert str(module).count("hlo.tanh") == 2


def test_ours_upstream_and_nested_groups_mix():
    text = "builtin.module(inline{keep=a,b},func.func(canonicalize,cse),upstream(cse,symbol-dce),sccp,cse,dce)"
    pipeline = Pipeline.parse(text)
    assert pipeline.steps == (
        Inline(keep=("a", "b")),
        "func.func(canonicalize,cse)",
        "cse",
        "symbol-dce",
        "sccp",
        Cse(),
        Dce(),
    )
    assert Pipeline.parse(str(pipeline)) == pipeline


def test_steps_may_be_passes_or_text(parse):
    module = parse(MODULE)
    (Pipeline([Cse()]) + Pipeline(["canonicalize"])).run(module)
    assert "hlo.tanh" not in str(module)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([Counted("hlo.tanh"), Counted("hlo.dot"), Counted()], ["hlo.tanh", ""]),
        ([Counted(), Counted(), Counted(changes=True), Counted()], ["", "", ""]),
        ([Counted("hlo.tanh"), Counted("hlo.tanh"), "strip-debuginfo", Counted("hlo.tanh")], ["hlo.tanh"] * 2),
        # The dead ops go; the names of what there was are not collected anew for that.
        ([Counted("hlo.tanh"), Dce(), Counted("hlo.tanh"), Counted("hlo.dot")], ["hlo.tanh"] * 2),
    ],
)
def test_passes_that_would_change_nothing_do_not_run(parse, steps, expected):
    RUNS.clear()
    Pipeline(steps).run(parse(MODULE))
    assert expected == RUNS


LAYERS = """
  func.func private @layer(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %1 = stablehlo.tanh %0 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
  func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = call @layer(%x, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %1 = call @layer(%0, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }"""
QUANTIZED = """
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.uniform_quantize %x : (tensor<8xf32>) -> tensor<8x!quant.uniform<i8:f32, 0.5>>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<8x!quant.uniform<i8:f32, 0.5>>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }"""
SIZED = """
  func.func @main(%x: tensor<6xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
    %1 = stablehlo.dynamic_reshape %x, %0 : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LAYERS, {"inline"}),
        (QUANTIZED, {"legalize-quantized"}),
        (SIZED, {"infer-symbolic-shapes"}),
    ],
)
def test_what_is_known_of_a_loaded_module_is_true(monkeypatch, text, expected):
    ran = set()

    def checked(self, step):
        run(self, step)
        if self._names is not None:
            assert op_names(self._module) <= self._names, step.name
        if self._contents is not None:
            assert Census.of(self._module).contents.types <= self._contents.types, step.name

    def changed(self, step):
        ran.add(step.name)
        note(self, step)

    run, note = Known.run, Known._changed
    monkeypatch.setattr(Known, "run", checked)
    monkeypatch.setattr(Known, "_changed", changed)
    compile_program(text, options=shlo.Options(isolate=False, cache_dir=None))
    assert ran & {"inline", "infer-symbolic-shapes", "legalize-quantized"} == expected


@pytest.mark.parametrize(
    ("steps", "runs"),
    [
        ([Peephole(), Dce()], False),
        ([Peephole(), Cse(), Dce()], False),
        ([Peephole(), Counted(changes=True), Dce()], True),
        ([GatherSparseProducts(), Dce()], True),
    ],
)
def test_dead_ops_are_looked_for_where_there_may_be_some(parse, monkeypatch, steps, runs):
    ran = []
    monkeypatch.setattr(Dce, "run", lambda self, module: ran.append(self.name))
    module = parse(MODULE)
    known = Known(module)
    for step in steps:
        Pipeline([step]).run(module, known=known)
    assert bool(ran) == runs


def test_an_exception_in_a_pass_becomes_an_internal_error_with_the_pipeline(parse):
    with pytest.raises(InternalError, match=r"'all-options' failed: KeyError: 'lost'") as caught:
        Pipeline.parse("cse,all-options{label=raise},dce").run(parse(MODULE))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "builtin.module(cse,all-options{label=raise})" in str(caught.value)


def test_a_users_error_passes_through(parse):
    with pytest.raises(UnsupportedError, match="not this"):
        Pipeline.parse("all-options{label=unsupported}").run(parse(MODULE))


def test_the_collector_is_on_again_after_a_failure(parse):
    import gc

    with pytest.raises(InternalError):
        Pipeline.parse("all-options{label=raise}").run(parse(MODULE))
    assert gc.isenabled()
