"""The autotuner: what it takes, keeps and says, by clocks that tests set; and that all candidates compute the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import ml_dtypes
import numpy as np
import pytest
from driver_programs import with_fake_kernels

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.gpu import autotune, trial
from stablehlo_py.backends.gpu.backend import CudaBackend, GpuBackend, OpenClBackend
from stablehlo_py.backends.gpu.kernels import candidates
from stablehlo_py.backends.gpu.target import OPENCL
from stablehlo_py.backends.gpu.trial import Bench, Machine, Trial, agree
from stablehlo_py.cli import compile as compile_tool
from stablehlo_py.cli import opt, run
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import EXIT_USAGE, AutotuneWarning, CacheWarning, OptionError, ResourceError, UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.program import CompiledProgram


def product(m: int, n: int, k: int, of: str = "f32", batch: int = 0) -> str:
    many = f"{batch}x" if batch else ""
    where = "batching_dims = [0] x [0], contracting_dims = [2] x [1]" if batch else "contracting_dims = [1] x [0]"
    a, b, result = f"tensor<{many}{m}x{k}x{of}>", f"tensor<{many}{k}x{n}x{of}>", f"tensor<{many}{m}x{n}xf32>"
    return f"""func.func @main(%a: {a}, %b: {b}) -> {result} {{
  %0 = stablehlo.dot_general %a, %b, {where} : ({a}, {b}) -> {result}
  %1 = stablehlo.tanh %0 : {result}
  return %1 : {result}
}}"""


# Kernels of the fake driver write to the first operand, as many elements as there are threads.
FEW_ROWS = product(1, 256, 8192)
OWN, SECOND, THIRD = PLANS = [f"sums of 1 x 8, {threads} threads, 8 products at once" for threads in (256, 128, 64)]
A, B = (np.random.default_rng(0).standard_normal(sizes, np.float32) / 16 for sizes in ((1, 8192), (8192, 256)))


def options(**given: object) -> shlo.Options:
    return shlo.Options(**{"cache_dir": None, "autotune": True} | given)


def plans_of(program: CompiledProgram) -> list[str]:
    return [each["plan"] for each in json.loads(program.stages["plans"])["kernels"]]


def tuned(text: str = FEW_ROWS, target: str = "opencl", **given: object) -> CompiledProgram:
    return compile_program(text, target=target, options=options(**given))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The seconds of each plan, which a test may change; what has none takes a second."""
    found: dict[str, float] = {}
    monkeypatch.setattr(Trial, "seconds", lambda self, clock: found.get(self.plan, 1.0))
    return found


@pytest.fixture
def no_trials(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, nothing is timed."""

    def refuse(*given: object) -> None:
        raise AssertionError("a kernel is timed")

    return lambda: monkeypatch.setattr(Trial, "__init__", refuse)


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(
    ("seconds", "taken"), [({THIRD: 0.5}, THIRD), ({SECOND: 0.98}, OWN), ({SECOND: 0.96}, SECOND), ({OWN: 0.1}, OWN)]
)
def test_the_fastest_is_taken_where_it_is_faster_than_noise(times, seconds, taken) -> None:
    times |= seconds
    executable = shlo.compile(FEW_ROWS, target="opencl", options=options())
    assert plans_of(executable._program) == [taken]
    np.testing.assert_allclose(executable(A, B)[0], np.tanh(A @ B), rtol=1e-5, atol=1e-6)
    assert "plans: 1, of kernels that were timed on" in executable.report()


@pytest.mark.usefixtures("real_device")
def test_by_the_clock_of_the_machine() -> None:
    program = tuned()
    assert plans_of(program)[0] in PLANS


@pytest.mark.usefixtures("real_device")
def test_times_come_from_runs_in_turns(monkeypatch) -> None:
    """The machine is slower and slower, from run to run; the third plan is faster in each turn."""
    clock, runs = count(), list[str]()

    def seconds(self: Trial, clock_: object) -> float:
        runs.append(self.plan)
        return (0.5 if self.plan == THIRD else 1.0) * (1 + 0.01 * next(clock))

    monkeypatch.setattr(Trial, "seconds", seconds)
    assert plans_of(tuned()) == [THIRD]
    turns = runs[-3 * autotune.ROUNDS :]
    assert all(set(turns[place : place + 3]) == set(PLANS) for place in range(0, len(turns), 3))


def test_without_the_option_nothing_is_timed(no_trials) -> None:
    no_trials()
    assert plans_of(tuned(autotune=False)) == [OWN]


@pytest.mark.usefixtures("real_device")
def test_a_file_of_plans_gives_the_same_program(times, no_trials, monkeypatch, tmp_path) -> None:
    times[THIRD] = 0.5
    program = tuned()
    file = tmp_path / "plans.json"
    file.write_text(program.stages["plans"])
    no_trials()
    for given in ({"autotune": True}, {"autotune": False}):
        again = tuned(plans=file, **given)
        assert again.objects == program.objects and again.stages == program.stages

    def no_device(self: GpuBackend) -> None:
        raise ResourceError("there is no device")

    monkeypatch.setattr(OpenClBackend, "opened", no_device)
    assert tuned(plans=file, autotune=False).objects == program.objects
    with pytest.raises(ResourceError, match="there is no device"):
        tuned(plans=file)


def test_other_targets_take_plans_without_a_device(tmp_path) -> None:
    program = tuned(target="cuda", autotune=False, gpu="sm_90")
    file = tmp_path / "plans.json"
    file.write_text(program.stages["plans"].replace(OWN, THIRD).replace('"device": ""', '"device": "H100"'))
    given = tuned(target="cuda", autotune=False, gpu="sm_90", plans=file)
    assert plans_of(given) == [THIRD] and given.objects[1] != program.objects[1]
    assert "timed on H100" in given.report
    with pytest.raises(OptionError, match="plans for 'sm_90', not for sm_80"):
        tuned(target="cuda", autotune=False, gpu="sm_80", plans=file)


@pytest.mark.usefixtures("real_device")
def test_a_file_of_plans_of_another_device(times, tmp_path) -> None:
    file = tmp_path / "plans.json"
    file.write_text(tuned(autotune=False).stages["plans"].replace('"device": ""', '"device": "another"'))
    with pytest.raises(OptionError, match="timed on 'another', and this device is"):
        tuned(plans=file)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda text: "{", OptionError, "holds no plans of kernels"),
        (lambda text: "\xff", OptionError, "holds no plans of kernels"),
        (lambda text: "[]", OptionError, "holds no plans of kernels: Plans is a list, not a mapping"),
        (lambda text: text.replace('"plan":', '"plans":'), OptionError, "holds no plans of kernels"),
        (lambda text: text.replace(OWN, "sums of 64"), OptionError, "kernel of 'fusion_0' has no plan 'sums of 64'"),
        (None, ResourceError, "cannot be read: No such file"),
    ],
)
def test_a_wrong_file_of_plans(tmp_path, change, error, said) -> None:
    file = tmp_path / "plans.json"
    if change is not None:
        file.write_bytes(change(tuned(autotune=False).stages["plans"]).encode("latin1"))
    with pytest.raises(error, match=said):
        tuned(autotune=False, plans=file)


@pytest.mark.usefixtures("real_device")
def test_plans_are_kept_in_the_cache(times, no_trials, tmp_path) -> None:
    times[SECOND] = 0.5
    program = tuned(cache_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2  # the plan and the program
    no_trials()
    assert tuned(cache_dir=tmp_path).objects == program.objects
    assert len(list(tmp_path.iterdir())) == 2
    other = compile_program(FEW_ROWS.replace("@main", "@other"), target="opencl", options=options(cache_dir=tmp_path))
    assert plans_of(other) == [SECOND]
    assert len(list(tmp_path.iterdir())) == 3  # another program, of the same kernel
    assert plans_of(tuned(cache_dir=tmp_path, autotune=False)) == [OWN]
    assert len(list(tmp_path.iterdir())) == 4
    file = tmp_path.parent / "plans.json"
    for plan in (SECOND, THIRD):  # the content of the file is part of the key
        file.write_text(program.stages["plans"].replace(SECOND, plan))
        assert plans_of(tuned(cache_dir=tmp_path, autotune=False, plans=file)) == [plan]


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize("content", [b"", b"{", b'{"kernel": "", "fusion": "0", "plan": "sums"}'])
def test_a_damaged_plan_in_the_cache(times, tmp_path, content) -> None:
    tuned(cache_dir=tmp_path)
    for entry in tmp_path.iterdir():
        if entry.read_bytes().startswith(b"{"):
            entry.write_bytes(content)
        else:
            entry.unlink()
    times[THIRD] = 0.5
    with pytest.warns(CacheWarning, match="holds no plan"):
        assert plans_of(tuned(cache_dir=tmp_path)) == [THIRD]
    assert plans_of(tuned(cache_dir=tmp_path)) == [THIRD]


@pytest.mark.usefixtures("real_device")
def test_time_is_limited(times, no_trials, monkeypatch, tmp_path) -> None:
    """What is not timed to the end is as its template has it, and is not kept."""
    times[SECOND] = 0.5
    monkeypatch.setattr(autotune, "perf_counter", count(0, autotune.LIMIT_S).__next__)
    assert plans_of(tuned(cache_dir=tmp_path)) == [OWN]
    assert len(list(tmp_path.iterdir())) == 1  # the program


@pytest.mark.usefixtures("real_device")
def test_a_wrong_candidate_is_reported(times, monkeypatch) -> None:
    times |= {SECOND: 0.5, THIRD: 0.1}
    results = Trial.results
    monkeypatch.setattr(
        Trial, "results", lambda self: [each + (self.plan == THIRD) for each in results(self)], raising=True
    )
    with pytest.warns(AutotuneWarning, match=f"'fusion_0' by the plan '{THIRD}' is left out: its results are not"):
        assert plans_of(tuned()) == [SECOND]


@pytest.mark.usefixtures("real_device")
def test_a_candidate_that_does_not_compile(times, monkeypatch) -> None:
    times |= {SECOND: 0.5, THIRD: 0.1}
    began = Trial.__init__

    def begin(self: Trial, bench: Bench, plan: str, repeats: int) -> None:
        if plan == THIRD:
            raise UnsupportedError("it spills")
        began(self, bench, plan, repeats)

    monkeypatch.setattr(Trial, "__init__", begin)
    assert plans_of(tuned()) == [SECOND]


@pytest.fixture
def fake_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials run on a fake driver, whose kernels compute something else."""
    made = trial.program_of
    monkeypatch.setattr(trial, "program_of", lambda *given: with_fake_kernels(made(*given)))
    monkeypatch.setattr(autotune, "agree", lambda results, wanted: True)


@pytest.mark.every(2)
@pytest.mark.usefixtures("fake_kernels")
@pytest.mark.parametrize(
    ("nth", "taken"),
    [
        (1, OWN),  # the template's own choice does not run: nothing is chosen
        (3, THIRD),  # the second candidate does not
        (4, OWN),  # the third one
    ],
)
@pytest.mark.parametrize("status", ["CL_OUT_OF_RESOURCES", "CL_DEVICE_NOT_AVAILABLE"])
@pytest.mark.parametrize("function", ["clEnqueueNDRangeKernel", "clBuildProgram"])
def test_a_device_that_fails(fake_device, times, function, status, nth, taken) -> None:
    """The program is compiled all the same; a device that was lost is opened again for the next candidate."""
    times[THIRD] = 0.5
    fake_device.fail(function, {"CL_OUT_OF_RESOURCES": -5, "CL_DEVICE_NOT_AVAILABLE": -2}[status], nth)
    with pytest.warns(AutotuneWarning, match=f"is left out: .* on opencl:0 ended with {status}"):
        plans = plans_of(tuned())
    assert plans == [taken]


@pytest.mark.usefixtures("fake_kernels")
def test_on_cuda(cuda_device, times) -> None:
    times[SECOND] = 0.5
    program = tuned(target="cuda")
    assert (program.target, plans_of(program)) == ("sm_90a", [SECOND])
    name = json.loads(program.stages["plans"])["device"]
    assert name == CudaBackend().opened().description(0).name
    assert len(cuda_device.launches()) > 3


@pytest.mark.usefixtures("real_device")
@pytest.mark.parametrize(
    ("text", "units", "tiles", "copies"),
    [
        (product(33, 65, 150), "", "", False),
        (product(33, 65, 150), "", "", True),
        (product(70, 64, 272, batch=2), "", "", True),
        (product(33, 72, 600, "bf16"), "wgmma", "128x64x64", True),
    ],
)
def test_all_candidates_compute_the_same(monkeypatch, text, units, tiles, copies) -> None:
    """Those without matrix units; of those with, which the device emulates and takes its time to compile, the ones that
    no template chooses by itself."""
    names = tuple(name for name in MATRIX_UNITS if units and name.startswith(units))
    target = replace(OPENCL, matrix_units=names, shared_bytes=96 << 10, copies=copies)
    monkeypatch.setattr(OpenClBackend, "target", lambda self, options: target)
    module = run_stages(shlo.load(text), "", "scheduled", target="opencl")
    with module.context, ir.Location.unknown():
        (function,) = fusions(module)
        plans = [candidate.plan for candidate in candidates(function, target)]
        assert len(set(plans)) == len(plans)
        tilings = {plan.rsplit(", ", 2)[0]: plan for plan in plans if tiles in plan}  # the last one of each
        assert len(tilings) == 1 if tiles else len(tilings) > 3
        machine = Machine("opencl", target, OpenClBackend().host(options()), options(), "any", "")
        bench = Bench(function, machine)
        first, *others = (Trial(bench, plan, 2).results() for plan in (plans[0], *tilings.values()))
    assert np.ptp(first[0]) > 1  # from -1 to 1
    assert all(other[0].tobytes() == first[0].tobytes() for other in others)


@pytest.mark.usefixtures("real_device")
def test_tools(times, tmp_path, capsys) -> None:
    times[THIRD] = 0.5
    model, stages, target = tmp_path / "model.mlir", tmp_path / "stages", ("--target", "opencl")
    model.write_text(FEW_ROWS)
    assert compile_tool.main([str(model), *target, "--autotune", "--dump-stages", str(stages)]) == 0
    (file,) = stages.glob("*-plans.json")
    again = tmp_path / "again.json"
    arguments = (*target, "--compile-to", "plans", "--plans", str(file), "-o", str(again))
    assert opt.main([str(model), *arguments]) == 0
    assert THIRD in file.read_text() and again.read_text() == file.read_text()
    capsys.readouterr()
    assert run.main([str(model.with_suffix(".shloexe")), "--plans", str(file)]) == EXIT_USAGE
    assert "compiled already, and --plans cannot change it" in capsys.readouterr().err


def array(*numbers: float, dtype: object = np.float32) -> list[np.ndarray]:
    return [np.array(numbers).astype(dtype)]


def test_what_agrees() -> None:
    inf, nan, bf16 = np.inf, np.nan, ml_dtypes.bfloat16
    assert agree(array(1, 1000), array(1, 1000.001))
    assert not agree(array(1, 1000), array(1, 1000.1))
    assert not agree(array(1, 1000), array(1.1, 1000))
    assert agree(array(1, 100, dtype=bf16), array(1, 101, dtype=bf16))
    assert agree(array(inf, nan, 1), array(inf, nan, 1 + 1e-7))
    assert not agree(array(inf, nan, 1), array(-inf, nan, 1 + 1e-7))
    assert not agree(array(1, 1, 1), array(1, nan, 1))
    assert not agree(array(1, nan, 1), array(1, 1, 1))
    assert agree(array(1 + 1j, dtype=np.complex64), array(1 + 1.000001j, dtype=np.complex64))
    assert not agree(array(1 + 1j, dtype=np.complex64), array(1 - 1j, dtype=np.complex64))
    many, one_off = np.zeros(1000, np.int32), np.zeros(1000, np.int32)
    one_off[:5] = 1
    assert agree([one_off], [many]) and not agree([one_off[:100]], [many[:100]])
