"""What measures the peaks of this machine (backends/cpu/peaks.py)."""

from __future__ import annotations

import ctypes
from dataclasses import asdict, fields
from json import dumps, loads

import numpy as np
import pytest

from stablehlo_py.backends.common.roofline import Rates
from stablehlo_py.backends.cpu import peaks
from stablehlo_py.backends.cpu.kernels.vector_unit import vector_unit
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.peaks import Cores, Peaks, measure_peaks
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.codegen.builder import F32, F64, I32, ScalarType
from stablehlo_py.codegen.types import ELEMENTS


@pytest.mark.parametrize("cpu", [None, "generic"])  # which has no fused multiply-adds on x86-64
def test_every_peak_is_measured(monkeypatch: pytest.MonkeyPatch, cpu: str | None) -> None:
    monkeypatch.setattr(peaks, "_SECONDS", 1e-5)
    monkeypatch.setattr(peaks, "COPIES", (64, 4096))
    measured = measure_peaks(2, cpu)
    assert measured.threads == 2 and list(measured.copies) == [64, 4096]
    assert measured.rates.bandwidth == measured.copies[4096]
    rates = [measured.rates.f64, measured.rates.f32, measured.rates.f16, measured.rates.i8, *measured.copies.values()]
    assert min(rates) > 0
    assert Peaks.of(loads(dumps(asdict(measured)))) == measured
    assert {field.name for field in fields(Rates)} >= {"f64", "f32", "f16", "i8", "bandwidth"}


def called(kernel: peaks.Kernel, name: str, memory: np.ndarray, count: int) -> int:
    """What a kernel leaves in memory; the operations of one time."""
    function, operations = kernel
    code = NativeCode([compile_units([Unit.of(function)])])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address(name))(memory.ctypes.data, count)
    return operations


@pytest.mark.parametrize(("name", "type_", "element"), [("f32", np.float32, F32), ("f64", np.float64, F64)])
def test_multiply_adds_are_those_that_are_counted(name: str, type_: type, element: ScalarType) -> None:
    memory = np.ones(4096, type_)
    operations = called(peaks._multiply_add(name, host_target(), element), name, memory, 10)
    sums = memory[memory != 1]
    assert (sums == 11).all(), "1 + 10 * (1 * 1)"
    assert operations == 2 * len(sums)


def test_pairs_of_products_are_those_that_are_counted() -> None:
    target = host_target()
    if target.lanes(32) not in target.pair_intrinsics:
        pytest.skip("this CPU has no instruction for pairs of products")
    memory = np.zeros(4096, np.int16)
    memory[:2048:2] = 1  # in each lane of 32 bits the number 1; as factors, 1 and 0
    operations = called(peaks._pairs(target, target.pair_intrinsics[target.lanes(32)]), "i8", memory, 3)
    sums = memory.view(np.int32)
    changed = sums[sums > 1]
    assert (changed == 8).all(), "doubled three times"
    assert operations == 4 * len(changed)


@pytest.mark.parametrize(
    ("name", "of", "sums", "one"),
    [("f16", "bf16", F32, 0x3F80_3F80), ("i8", "i8", I32, 0x0101_0101)],
    ids=["floats", "bytes"],
)
def test_groups_are_those_that_are_counted(name: str, of: str, sums: ScalarType, one: int) -> None:
    target = host_target()
    unit = vector_unit(ELEMENTS[of], ELEMENTS[of], sums, target)
    if unit is None:
        pytest.skip("this CPU has no instruction for that")
    memory = np.full(1024, one, np.int32)
    operations = called(peaks._groups(name, unit, sums), name, memory, 2)
    start = np.int32(one).view(np.float32) if name == "f16" else one
    changed = memory[: peaks._CHAINS * unit.lanes].view(np.float32 if name == "f16" else np.int32)
    np.testing.assert_allclose(changed, start + 2 * unit.group)
    assert operations == 2 * unit.group * len(changed)


@pytest.mark.parametrize(
    ("name", "group", "instruction", "one"),
    [("f16", 2, "llvm.x86.tdpbf16ps", 0x3F80_3F80), ("i8", 4, "llvm.x86.tdpbssd", 0x0101_0101)],
)
def test_tiles_are_those_that_are_counted(name: str, group: int, instruction: str, one: int) -> None:
    target = host_target()
    if not target.matrix_units:
        pytest.skip("this CPU has no tiles, or Linux does not let this process use them")
    memory = np.full(1024, one, np.int32)
    operations = called(peaks._tiles(name, target, group, instruction), name, memory, 2)
    products = 2 * 16 * group  # of an element: two times a row and a column of ones
    start = np.int32(one).view(np.float32) if name == "f16" else one
    sums = memory[:256].view(np.float32 if name == "f16" else np.int32)
    np.testing.assert_allclose(sums, start + products)
    assert operations == 4 * 256 * 16 * group * 2


def test_between_copies_that_were_measured_lies_what_lies_between() -> None:
    measured = Peaks(1, Rates(bandwidth=1.0, f32=2.0), {1 << 10: 4.0, 1 << 12: 2.0})
    assert [measured.at(size).bandwidth for size in (1, 1 << 10, 1 << 11, 1 << 12, 1 << 20)] == [4, 4, 3, 2, 2]
    assert measured.at(1).f32 == 2


@pytest.mark.parametrize(("together", "given"), [(1.2, True), (2.0, False)])
def test_threads_that_share_a_core_take_longer_together(
    monkeypatch: pytest.MonkeyPatch, together: float, given: bool
) -> None:
    cores = Cores(2)
    monkeypatch.setattr(peaks, "_together", lambda works, count: 1.0 if len(works) == 1 else together)
    monkeypatch.setattr(cores, "_are_near", lambda: True)
    assert cores.are_given() is given


@pytest.mark.parametrize(("turn", "given"), [(60e-9, True), (140e-9, True), (330e-9, False)])
def test_cores_that_share_no_cache_answer_each_other_late(
    monkeypatch: pytest.MonkeyPatch, turn: float, given: bool
) -> None:
    cores = Cores(2)
    cores._least = 65e-9
    monkeypatch.setattr(peaks, "_together", lambda works, count: turn * count if count == peaks._TURNS else 1.0)
    assert cores.are_given() is given


def test_what_no_cores_of_a_machine_do_is_asked_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = Cores(2)
    cores._least = 330e-9
    monkeypatch.setattr(peaks, "_together", lambda works, count: 340e-9 * count if count == peaks._TURNS else 1.0)
    assert cores.are_given()


def test_one_thread_is_near_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = Cores(1)
    monkeypatch.setattr(peaks, "_together", lambda works, count: 1.0)
    assert cores.are_given()


def test_whether_cores_are_given_is_measured() -> None:
    cores = Cores(2, "generic")
    assert cores.are_given() in (False, True) and cores.threads == 2
