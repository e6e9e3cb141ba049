"""StableHLO's golden cases, stablehlo/testdata of the repository openxla/stablehlo: modules with inputs and expected
results. Inputs are made real arguments, and the checks are done here (suite/golden.py)."""

from __future__ import annotations

import fnmatch
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stablehlo_py.conformance.cases import FOLDER
from stablehlo_py.suite import golden

EXCEPTIONS = FOLDER / "golden_exceptions.txt"

_DTYPE = re.compile(r"^(bool|bfloat16|u?int\d+|float\d+|complex\d+)$")
# In the quantized cases these words, not a dtype, end the name of the operation.
_ENDS = {"shape", "dtypes", "batch", "batchdims", "from", "singularity", "overflow", "rounding", "lhs", "qi8"}
_LONG_NAMES = ("conv_general_dilated",)


@dataclass(frozen=True)
class Job:
    """One module of one file."""

    name: str
    text: str


@dataclass(frozen=True)
class Result:
    """What became of a case. status: passed mismatch unsupported error crash timeout excepted."""

    case: str
    operation: str
    status: str
    detail: str
    seconds: float


def operation_of(name: str) -> str:
    """The operation in a case's name: the words before the first dtype (`scatter_add_float32_3_5` -> scatter_add)."""
    folder, _, stem = name.rpartition("/")
    prefix = f"{folder}/" if folder else ""
    for known in _LONG_NAMES:
        if stem.startswith(known):
            return prefix + known
    words = stem.split(".")[0].split("#")[0].split("_")
    taken = []
    for word in words:
        if _DTYPE.match(word) or not word or (folder and word in _ENDS):
            break
        taken.append(word)
    return prefix + "_".join(taken)


def find_jobs(folder: Path, pattern: str, every: int, dynamic: bool = False) -> Iterator[Job]:
    """The cases below a folder, by name: those with expected values, or the `dynamic` ones, which have none."""
    root = folder / "testdata" if (folder / "testdata").is_dir() else folder
    jobs = []
    for path in sorted(root.rglob("*.mlir")):
        relative = path.relative_to(root).as_posix()
        if relative.startswith("dynamic/") != dynamic:
            continue
        parts = golden.pieces(path.read_text())
        for number, text in enumerate(parts):
            name = relative.removesuffix(".mlir") + (f"#{number}" if len(parts) > 1 else "")
            if fnmatch.fnmatch(name, pattern):
                jobs.append(Job(name, text))
    yield from jobs[::every]


def load_exceptions(path: Path = EXCEPTIONS) -> dict[str, str]:
    """`case: reason` lines. A name with `*` stands for the cases that it matches and that are refused as unsupported.

    Raises ValueError for a line without a reason.
    """
    exceptions = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            case, separator, reason = line.partition(": ")
            if not separator or not reason.strip():
                raise ValueError(f"{path}: a line must read 'case: reason': {line}")
            exceptions[case.strip()] = reason.strip()
    return exceptions


@contextmanager
def unpacked(data: Path) -> Iterator[Path]:
    """The folder of the cases: `data`, or what is in `testdata.tar.xz` (there, or `data` itself). Raises OSError."""
    archive = data if data.is_file() else data / "testdata.tar.xz"
    if not archive.is_file():
        yield data
        return
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as tar:
        # Python 3.11.2, Debian 12's, has no filters.
        tar.extractall(scratch, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
        yield Path(scratch)


def run_case(engine: Callable[..., Any], job: Job) -> tuple[str, str]:
    """Status and detail of one case in this process. An engine with a `judge` decides itself."""
    from stablehlo_py.errors import UnsupportedError

    try:
        if hasattr(engine, "judge"):
            return engine.judge(job.text)
        case = golden.split(job.text)
        results = engine(case.module, case.arguments)
    except UnsupportedError as error:
        return "unsupported", str(error)
    except Exception as error:  # any failure of a compiler under test is a result
        return "error", f"{type(error).__name__}: {error}"
    if len(results) != len(case.checks):
        return "mismatch", f"{len(results)} results where {len(case.checks)} are expected"
    findings = [golden.compare(check, result) for check, result in zip(case.checks, results, strict=True)]
    found = [finding for finding in findings if finding]
    return ("mismatch", "; ".join(found)) if found else ("passed", "")


def of_target(target: str) -> Callable[[Job], tuple[str, str]]:
    """What a worker process does: status and detail of a case, compiled for a target."""
    import stablehlo_py

    options = stablehlo_py.Options(threads=1, cache_dir=None, isolate=False)  # this process may crash already

    def engine(module: str, arguments: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return stablehlo_py.compile(module, target=target, options=options)(*arguments)

    return lambda job: run_case(engine, job)
