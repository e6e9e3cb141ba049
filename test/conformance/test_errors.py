"""Every op of the specification in a program that violates a constraint: an error that names the op and its line."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py.conformance import cases
from stablehlo_py.errors import EXIT_BAD_INPUT, EXIT_UNSUPPORTED

_HEADER = re.compile(r"^// (\w+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """An op, what its program violates, the program, what the message must say."""

    op: str
    violates: str
    text: str
    says: str

    @property
    def line(self) -> int:
        """Where the op stands."""
        return 1 + next(n for n, line in enumerate(self.text.splitlines()) if f'"{self.op}"' in line)

    def __str__(self) -> str:
        return f"{self.op} {self.violates.partition(':')[0]}"


def _cases() -> Iterator[Case]:
    for section in Path(__file__).with_name("errors.mlir").read_text().split("// -----\n"):
        header = dict(_HEADER.findall(section))
        body = section[section.index("func.func") :]
        for op in header["ops"].split():
            name = f"stablehlo.{op}"
            yield Case(name, header["violates"], body.replace("$OP", name), header["says"])


CASES = list(_cases())


def test_every_op_of_the_specification_has_a_case():
    assert {case.op for case in CASES} == set(cases.specified())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_error_names_the_op_and_its_line(case):
    with pytest.raises((shlo.LoadError, shlo.UnsupportedError)) as caught:
        shlo.compile(case.text, options=shlo.Options(cache_dir=None))
    error = caught.value
    assert error.exit_status in (EXIT_BAD_INPUT, EXIT_UNSUPPORTED)
    here = [problem for problem in error.problems if (problem.location or "").startswith(f"<text>:{case.line}:")]
    assert here, f"nothing at line {case.line}: {error}"
    assert any(case.op in str(problem) and re.search(case.says, str(problem)) for problem in here), str(error)


@pytest.mark.parametrize(
    ("op", "status"), [("stablehlo.transpose", EXIT_BAD_INPUT), ("stablehlo.remainder", EXIT_UNSUPPORTED)]
)
def test_the_exit_status_of_the_tools(op, status, tmp_path):
    case = [case for case in CASES if case.op == op][-1]
    (tmp_path / "model.mlir").write_text(case.text)
    command = [
        sys.executable,
        "-m",
        "stablehlo_py.cli.compile",
        str(tmp_path / "model.mlir"),
        "-o",
        str(tmp_path / "x"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert f"model.mlir:{case.line}:" in done.stderr
    assert op in done.stderr
