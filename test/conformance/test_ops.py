"""The per-op cases: complete and well-formed, and every op with an error that names the user's line."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.mlir import ir, make_context

sys.path.insert(0, str(Path(__file__).parent))  # worker processes import the modules from there, too
import op_cases
import op_runner
import run_ops

SECTIONS = op_cases.sections()
OPS = sorted({op for section in SECTIONS.values() for op in section.ops})


def test_every_op_of_the_wheel_is_there():
    elsewhere = run_ops.elsewhere()
    assert not set(OPS) & set(elsewhere)
    assert {*OPS, *elsewhere} == run_ops.ops_of_the_wheel()


def test_the_types_are_those_that_the_verifier_accepts():
    """What a section lists is accepted; what is accepted is listed in some section of the op."""
    context = make_context()
    context.allow_unregistered_dialects = True
    accepted, listed, wrong = set(), set(), []
    for section in SECTIONS.values():
        for op in section.ops:
            for type_ in run_ops.REPRESENTATIVES:
                verified = op_cases.verifies(op_cases.instantiate(section, op, type_), context)
                if verified:
                    accepted.add((op, type_))
                if type_ in section.types:
                    listed.add((op, type_))
                    if not verified:
                        wrong.append((section.family, op, type_))
    assert not wrong
    unlisted = sorted((op, type_) for op, type_ in accepted - listed if type_ != run_ops.REPRESENTATIVES[-1])
    assert unlisted == sorted(UNLISTED & set(unlisted)), "types that the verifier accepts and no section tries"


# What StableHLO's verifier accepts and its specification does not define (CHLO has none).
UNLISTED = {
    (op, type_)
    for ops, types in (
        ("chlo.bessel_i1e", "complex<f32>"),
        ("stablehlo.batch_norm_grad stablehlo.batch_norm_inference stablehlo.batch_norm_training", "f8E4M3FN"),
        ("stablehlo.cholesky stablehlo.triangular_solve", "bf16 f8E4M3FN"),
        ("stablehlo.dynamic_iota", "i1"),
        ("stablehlo.dynamic_conv", "i1"),
        ("stablehlo.rng_bit_generator", "bf16 f32 f8E4M3FN i4 ui4"),
        ("chlo.mulhi", "i4 ui4"),
        ("chlo.constant_like", "i1 complex<f32>"),
        ("chlo.ragged_dot chlo.top_k", "i1 i4 ui4 ui8 f8E4M3FN complex<f32>"),
        ("chlo.scan", "i1"),
        ("chlo.broadcast_divide chlo.broadcast_subtract", "i1"),
        ("chlo.broadcast_power chlo.broadcast_remainder", "i1 complex<f32>"),
        ("chlo.broadcast_atan2 chlo.broadcast_next_after", "i1 i4 i32 ui4 ui8 complex<f32>"),
        ("chlo.broadcast_polygamma chlo.broadcast_zeta", "i1 i4 i32 ui4 ui8 f8E4M3FN bf16 complex<f32>"),
        (
            "chlo.broadcast_shift_left chlo.broadcast_shift_right_arithmetic chlo.broadcast_shift_right_logical",
            "i1 f8E4M3FN bf16 f32 complex<f32>",
        ),
    )
    for op in ops.split()
    for type_ in types.split()
}


@pytest.mark.parametrize("op", OPS)
def test_an_op_that_violates_its_constraints_is_an_error_at_its_line(op):
    """The result has a type that no form of any op gives."""
    section = next(section for section in SECTIONS.values() if op in section.ops)
    name, text = next(iter(op_cases.instantiate(section, op, section.types[0]).items()))
    context = make_context()
    context.allow_unregistered_dialects = True
    with context:
        printed = str(ir.Module.parse(text)).replace(f"@{name}(", "@main(")
    printed = re.sub(r" \{case\.range = \[[-\d, ]+\]\}", "", printed)
    lines = printed.splitlines()
    number = next(n for n, line in enumerate(lines) if op in line)
    # The types of an op with regions stand after them.
    last = number if "tensor<" in lines[number] and not lines[number].endswith("{") else None
    last = last or next(n for n in range(number, len(lines)) if lines[n].lstrip().startswith(("}) :", "} :")))
    lines[last] = re.sub(r"tensor<[^ ]*>(\)?)$", r"tensor<7x11x13x17xi16>\1", lines[last])
    with pytest.raises((shlo.LoadError, shlo.UnsupportedError)) as caught:
        shlo.compile("\n".join(lines) + "\n", options=shlo.Options(cache_dir=None))
    assert all(re.match(r"<text>:\d+:\d+", problem.location or "") for problem in caught.value.problems)


def test_the_document_has_a_cell_for_every_class_and_the_reasons():
    row = next(row for row in op_cases.rows() if row.op == "stablehlo.add" and row.type == "bf16")
    excuse = run_ops.Excuse("stablehlo.add", "vector", ("bf16",), "because")
    findings = [op_runner.Finding(row, "scalar", "ok"), op_runner.Finding(row, "vector", "wrong")]
    assert run_ops.cells(findings[:1], [excuse]) == {"stablehlo.add": {"half": "ok"}}
    assert run_ops.cells(findings, []) == {"stablehlo.add": {"half": "**wrong**"}}
    text = run_ops.document(run_ops.cells(findings, [excuse]), [excuse])
    cells = ["[1]" if name == "half" else "–" for name in op_cases.CLASSES]
    assert f"| `stablehlo.add` | {' | '.join(cells)} |" in text
    assert "1. because" in text


def test_a_difference_is_measured_in_units_in_the_last_place():
    one = np.ones(3, np.float32)
    near = np.nextafter(one, np.float32(2))
    assert op_runner.difference_of(near, one, 1) is None
    assert "3 of 3 differ" in op_runner.difference_of(near, one, 0)
    assert op_runner.difference_of(one * np.float32(np.nan), one * np.float32(np.nan), 0) is None
    assert op_runner.difference_of(one * np.float32(np.inf), one, 10**9) is not None
    assert op_runner.difference_of(one.astype(np.int32), one.astype(np.int32) * 2, 10) is not None
    assert "int32[3]" in op_runner.difference_of(one.astype(np.int32), one, 0)


def test_an_exception_names_types_and_a_reason_and_never_a_crash(tmp_path):
    path = tmp_path / "exceptions.txt"
    path.write_text("# comment\nstablehlo.add/vector half complex: because\n")
    (excuse,) = run_ops.excuses(path)
    row = next(row for row in op_cases.rows() if row.op == "stablehlo.add" and row.type == "bf16")
    assert excuse.covers(op_runner.Finding(row, "vector", "wrong"))
    assert not excuse.covers(op_runner.Finding(row, "scalar", "wrong"))
    assert not excuse.covers(op_runner.Finding(row, "vector", "crash"))
    path.write_text("stablehlo.add half\n")
    with pytest.raises(ValueError, match="must read"):
        run_ops.excuses(path)
