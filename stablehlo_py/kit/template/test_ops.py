"""Every op of StableHLO on newname: what it gives is what the dialect's own evaluation in NumPy gives, and what it
lacks is refused by name and line. The programs are those of `shlo-conformance`, in f32."""

from __future__ import annotations

import re

import pytest

from stablehlo_py.conformance.cases import Row, rows
from stablehlo_py.conformance.runner import check_here

# Ops that have to work, in all forms.
IMPLEMENTED = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "maximum", "exponential"),
        *("broadcast_in_dim", "transpose", "reshape", "constant"),
    )
)
ROWS: dict[str, list[Row]] = {}
for row in rows():
    if row.type == "f32":
        ROWS.setdefault(row.op, []).append(row)
REFUSAL = re.compile(r"^ *(error\[unsupported\]: )?<text>:\d+:\d+: '[\w.]+': ", re.MULTILINE)


@pytest.mark.parametrize("op", sorted(ROWS))
def test_an_op_is_right_or_refused_by_name_and_line(op: str, report: dict[str, str]) -> None:
    findings = [finding for row in ROWS[op] for finding in check_here(row, "newname")]
    wrong = [finding for finding in findings if finding.status not in ("ok", "refused")]
    assert not wrong
    refused = [finding for finding in findings if finding.status == "refused"]
    nameless = [finding.detail for finding in refused if not REFUSAL.search(finding.detail)]
    assert not nameless
    report[op] = "implemented" if not refused else "in part" if len(refused) < len(findings) else "refused"
    if op in IMPLEMENTED:
        assert not refused
    elif len(refused) == len(findings):
        pytest.skip(refused[0].detail.splitlines()[-1].strip())
