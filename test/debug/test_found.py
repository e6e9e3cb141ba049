"""Programs that random ones were reduced to, for defects that are gone: each gives what the oracles say.

The first comment of a file says what was wrong, `// disable: NAMES` the passes and rules that it needs left out,
`// unoptimized` that it is compiled at opt_level 0. Dimensions that are left open get the size 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stablehlo_py.debug.edits import Case
from stablehlo_py.debug.engines import main_of
from stablehlo_py.debug.fuzz import Fuzzer
from stablehlo_py.debug.generate import Program
from stablehlo_py.debug.generate.variants import Variant, at_sizes
from stablehlo_py.debug.settings import context
from stablehlo_py.debug.workers import Workers
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options

FILES = sorted(Path(__file__).with_name("found").glob("*.mlir"))
OPEN_SIZE = 3


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    with Workers(60) as workers:
        yield Fuzzer(workers, jax_every=1, reduce_s=0)


def arguments(module: str) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arrays = []
    with context():
        parsed = ir.Module.parse(module)
        for argument in main_of(parsed).regions[0].blocks[0].arguments:
            shape = [OPEN_SIZE if size < 0 else size for size in argument.type.shape]
            dtype = numpy_dtype(argument.type.element_type)
            low = 0 if dtype.kind in "ub" else -3
            whole = random.integers(low, 2 if dtype.kind == "b" else 4, shape)
            arrays.append(np.asarray(whole + (0.25 if dtype.kind in "fc" else 0)).astype(dtype))
    return arrays


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_right_now(file: Path, fuzzer: Fuzzer) -> None:
    text = file.read_text()
    disable = re.search(r"^// disable: (.*)$", text, re.MULTILINE)
    level = 0 if "\n// unoptimized\n" in text else 1
    options = Options(threads=1, cache_dir=None, opt_level=level, disable=tuple(disable[1].split()) if disable else ())
    inputs = arguments(text)
    if "?x" in text:
        (case,) = at_sizes(text, inputs, [OPEN_SIZE])
        program = Program(0, case, options, Variant(text))
    else:
        program = Program(0, Case(text, tuple(inputs)), options)
    outcome = fuzzer.run_one(program)
    assert outcome.status == "same", outcome
