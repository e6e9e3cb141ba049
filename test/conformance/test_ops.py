"""The per-op cases: complete and well-formed, and every op with an error that names the user's line."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir

sys.path.insert(0, str(Path(__file__).parent))  # worker processes import the modules from there, too
import conformance_page
import run
import run_ops

from stablehlo_py.conformance import cases, excuses, runner

SECTIONS = cases.sections()
OPS = sorted({op for section in SECTIONS.values() for op in section.ops})


def test_every_op_of_the_wheel_is_there():
    assert set(OPS) == run_ops.ops_of_the_wheel()


def test_every_op_and_class_of_the_specification_is_there():
    """In a section, or with a reason."""
    tried = {
        (op, cases.CLASS_OF[type_]) for section in SECTIONS.values() for op in section.ops for type_ in section.types
    }
    excused = excuses.excuses()
    specified = cases.specified()
    assert set(specified) <= set(OPS)
    missing = {(op, name) for op, names in specified.items() for name in names} - tried
    assert not [each for each in missing if not any(excuse.covers_class(*each) for excuse in excused)]


def test_the_page_is_not_stale():
    """docs/conformance.md has the ops, classes and reasons of today, and no cell without one. Its verdicts are made by
    run_ops.py --write, in minutes."""
    tried = {
        (op, cases.CLASS_OF[type_]) for section in SECTIONS.values() for op in section.ops for type_ in section.types
    }
    specified = {(op, name) for op, names in cases.specified().items() for name in names}
    reasons = [excuse.reason for excuse in excuses.excuses()]
    text = conformance_page.PAGE.read_text()
    rows = dict(re.findall(r"^\| `([\w.-]+)` \| (.*) \|$", text, re.MULTILINE))
    assert set(rows) >= set(OPS)
    for op in OPS:
        cells = dict(zip(cases.CLASSES, rows[op].split(" | "), strict=True))
        for name, cell in cells.items():
            filled = (op, name) in tried | specified
            assert (cell != conformance_page.NOT_IN_THE_SPECIFICATION) == filled, (op, name)
            assert not filled or re.fullmatch(r"pass|(refused|differs)( \[\d+\])+", cell), (op, name, cell)
            assert all(int(number) <= len(reasons) for number in re.findall(r"\[(\d+)\]", cell))
    assert re.findall(r"^\d+\. (.*)$", text, re.MULTILINE) == reasons
    golden = dict(re.findall(r"^- `([\w/#.-]+)`(?: on cpu)?: (.*)$", text.partition("## Every op")[0], re.MULTILINE))
    assert golden
    assert set(golden.items()) <= set(run.load_exceptions().items())


# Rows whose oracles are in this process or start fast, a sample of all: the rest is run by the command.
SAMPLE = [
    row for row in cases.rows() if row.type in cases.REPRESENTATIVES and row.oracles[0] not in ("exact", "jax", "wide")
][::41]


def test_a_sample_of_the_cases():
    findings = runner.check(SAMPLE, workers=1, timeout=120)
    excused = excuses.excuses()
    assert len({finding.row.op for finding in findings}) > 8
    assert not [f for f in findings if f.status != "ok" and not any(excuse.covers(f) for excuse in excused)]


PROMOTED = [row for row in cases.rows() if row.section.family == "promotion"]


def test_bodies_that_compute_in_a_wider_type_than_the_operands():
    """Operands of scatters and select_and_scatters were read, and written, as if they were of the wider type. All types
    and ops: run_ops.py --all-types."""
    rows = [
        row for row in PROMOTED if (row.op, row.type) in (("stablehlo.scatter", "i8"), ("stablehlo.scatter", "f16"))
    ]
    rows += [row for row in PROMOTED if (row.op, row.type) == ("stablehlo.select_and_scatter", "bf16")]
    findings = runner.check(rows, workers=1, timeout=120)
    assert len(findings) > 100
    assert not [finding for finding in findings if finding.status != "ok"]


def test_every_promotion_of_the_specification_is_tried():
    """`is_promotable`: between integers, between floats, between complex numbers, to at least as many bits."""
    for group in ("integer", "real", "complex"):
        for type_ in cases.types_of(group):
            wider = {other for other in cases.types_of(group) if cases.bits(other) >= cases.bits(type_)}
            assert wider - {"f8E8M0FNU"} <= {*cases.promotions(type_)}


def test_the_types_are_those_that_the_verifier_accepts():
    """What a section lists is accepted; what is accepted is listed in some section of the op."""
    context = make_context()
    context.allow_unregistered_dialects = True
    accepted, listed, wrong = set(), set(), []
    for section in SECTIONS.values():
        for op in section.ops if section.types != ("none",) else ():
            for type_ in cases.REPRESENTATIVES[:-1]:
                verified = cases.verifies(cases.instantiate(section, op, type_), context)
                if verified:
                    accepted.add((op, type_))
                if type_ in section.types:
                    listed.add((op, type_))
                    if not verified:
                        wrong.append((section.family, op, type_))
    assert not wrong
    unlisted = sorted((op, type_) for op, type_ in accepted - listed if type_ != cases.CLASSES["quantized"][0])
    assert unlisted == sorted(UNLISTED & set(unlisted)), "types that the verifier accepts and no section tries"


# What StableHLO's verifier accepts and its specification does not define (CHLO has none).
UNLISTED = {
    (op, type_)
    for ops, types in (
        ("chlo.bessel_i1e", "complex<f32>"),
        ("stablehlo.dynamic_iota", "i1"),
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


@pytest.mark.parametrize("op", sorted(set(OPS) - set(cases.specified()) - {"stablehlo.create_token"}))
def test_an_op_that_violates_its_constraints_is_an_error_at_its_line(op):
    """The result has a type that no form of any op gives. Ops of the specification: test_errors.py; what gives a token
    has no constraints."""
    section = next(section for section in SECTIONS.values() if op in section.ops)
    name, text = next(iter(cases.instantiate(section, op, section.types[0]).items()))
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


def _row() -> cases.Row:
    return next(row for row in cases.rows() if row.op == "stablehlo.add" and row.type == "bf16")


def test_the_page_has_a_cell_for_every_class_and_the_reasons():
    row = _row()
    excuse = excuses.Excuse("stablehlo.add", "vector", ("bf16",), "because")
    refused = excuses.Excuse("stablehlo.fft", "*", ("f32", "f64"), "not yet")
    findings = [runner.Finding(row, "scalar", "ok"), runner.Finding(row, "vector", "wrong")]
    assert conformance_page.cells(findings[:1], [excuse], {}) == {"stablehlo.add": {"half": "pass"}}
    assert conformance_page.cells(findings, [], {}) == {"stablehlo.add": {"half": "**wrong**"}}
    specified = {"stablehlo.fft": frozenset(("float", "complex"))}
    table = conformance_page.cells(findings, [excuse, refused], specified)
    assert table["stablehlo.fft"] == {"float": "refused [2]", "complex": "**not tried**"}
    golden = [
        {"engine": "shlo", "case": "abs", "status": "passed"},
        {"engine": "shlo", "case": "quantized/add#1", "status": "mismatch"},
        {"engine": "opencl", "case": "quantized/add#1", "status": "mismatch"},
        {"engine": "opencl", "case": "abs", "status": "error"},
    ]
    text = conformance_page.page(table, [excuse, refused], golden, ["bf16"])
    cells = ["differs [1]" if name == "half" else "–" for name in cases.CLASSES]
    assert f"| `stablehlo.add` | {' | '.join(cells)} |" in text
    assert "1. because" in text
    assert "| `quantized/` | `cpu` | 0 | 1 |" in text
    assert "| text | `opencl` | 0 | 1 |" in text
    assert "`abs` on opencl: **unexplained**" in text
    assert "`quantized/add#1`: **unexplained**" in text


def test_a_difference_is_measured_in_units_in_the_last_place():
    one = np.ones(3, np.float32)
    near = np.nextafter(one, np.float32(2))
    assert runner.difference_of(near, one, 1) is None
    assert "3 of 3 differ" in runner.difference_of(near, one, 0)
    assert runner.difference_of(one * np.float32(np.nan), one * np.float32(np.nan), 0) is None
    assert runner.difference_of(one * np.float32(np.inf), one, 10**9) is not None
    assert runner.difference_of(one.astype(np.int32), one.astype(np.int32) * 2, 10) is not None
    assert "int32[3]" in runner.difference_of(one.astype(np.int32), one, 0)


def test_an_exception_names_types_and_a_reason_and_never_a_crash(tmp_path):
    path = tmp_path / "exceptions.txt"
    path.write_text("# comment\nstablehlo.add/vector half complex: because\n")
    (excuse,) = excuses.excuses(path)
    row = _row()
    assert excuse.covers(runner.Finding(row, "vector", "wrong"))
    assert not excuse.covers(runner.Finding(row, "scalar", "wrong"))
    assert not excuse.covers(runner.Finding(row, "vector", "crash"))
    path.write_text("stablehlo.add half\n")
    with pytest.raises(ValueError, match="must read"):
        excuses.excuses(path)
