"""A short run of the forms, and what the changes of programs are."""

import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import form_cases
import run_forms
from form_cases import Forms, form_of
from run_ops import ops_of_the_wheel

from stablehlo_py.debug.hostile import HANG_S, HostileFuzzer
from stablehlo_py.debug.workers import Worker
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import diagnostics, ir

CONTEXT = make_context()


def parses(text: str) -> bool:
    with diagnostics(CONTEXT):
        try:
            ir.Module.parse(text, CONTEXT)
        except (ir.MLIRError, ValueError):
            return False
    return True


def test_every_op_is_a_program_and_all_are_valid() -> None:
    made = form_cases.programs()
    assert ops_of_the_wheel() <= set(made)
    for name, makers in made.items():
        for make in makers:
            assert parses(make(Random(name)).text()), name


def test_changed_programs_are_compiled_or_refused(tmp_path: Path) -> None:
    with Worker("caller", HANG_S) as worker:
        outcomes = list(HostileFuzzer(Forms(), run_forms.KIND, worker, tmp_path).run(range(120)))
    assert [each for each in outcomes if each.is_finding] == []
    counts = Counter(each.status for each in outcomes)
    assert min(counts["compiled"], counts["refused"]) > 20
    assert list(tmp_path.iterdir()) == []


def test_a_number_is_one_program() -> None:
    forms = Forms()
    texts = [forms.damaged("forms", number) for number in range(60)]
    assert texts == [forms.damaged("forms", number) for number in range(60)]
    assert sum(parses(text.decode()) for text in texts) > 15  # the others are upstream's to refuse


@pytest.mark.parametrize(
    ("element", "literals"),
    [("i8", "[1, -2]"), ("i1", "[true, false]"), ("complex<f64>", "[(1.0"), ("f16", "[1.0")],
)
def test_constants_follow_their_type(element: str, literals: str) -> None:
    assert form_cases.literals("[1.0, -2.5]", element).startswith(literals)


def test_an_element_type_changes_everywhere() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %1 = stablehlo.add %x, %0 : tensor<2xf32>
      return %1 : tensor<2xf32>
    }"""
    changed = set()
    for number in range(40):
        form = form_of(text)
        form_cases.change_element_everywhere(form, Random(number))
        if parses(form.text()):
            changed |= set(form.types.values())
    assert len(changed) > 5
