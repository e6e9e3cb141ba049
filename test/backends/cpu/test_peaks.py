"""What measures the peaks of this machine (backends/cpu/peaks.py)."""

from __future__ import annotations

import ctypes
from dataclasses import asdict, fields
from json import dumps, loads

import numpy as np
import pytest

from stablehlo_py.backends.common.roofline import Rates
from stablehlo_py.backends.cpu import peaks
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.peaks import Peaks, measure_peaks
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.codegen.builder import F32


def test_every_peak_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "_SECONDS", 1e-5)
    monkeypatch.setattr(peaks, "COPIES", (64, 4096))
    measured = measure_peaks(2)
    assert measured.threads == 2 and list(measured.copies) == [64, 4096]
    assert measured.rates.bandwidth == measured.copies[4096]
    rates = [measured.rates.f64, measured.rates.f32, measured.rates.f16, measured.rates.i8, *measured.copies.values()]
    assert min(rates) > 0
    assert Peaks.of(loads(dumps(asdict(measured)))) == measured
    assert {field.name for field in fields(Rates)} >= {"f64", "f32", "f16", "i8", "bandwidth"}


def test_the_kernel_does_the_operations_that_are_counted() -> None:
    function, operations = peaks._multiply_add("f32", host_target(), F32)
    code = NativeCode([compile_units([Unit.of(function)])])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("f32"))
    memory = np.ones(4096, np.float32)
    call(memory.ctypes.data, 10)  # sums begin with what lies in memory: 1 + 10 * (1 * 1)
    sums = memory[memory != 1]
    assert (sums == 11).all() and operations == 2 * len(sums)


def test_between_copies_that_were_measured_lies_what_lies_between() -> None:
    measured = Peaks(1, Rates(bandwidth=1.0, f32=2.0), {1 << 10: 4.0, 1 << 12: 2.0})
    assert [measured.at(size).bandwidth for size in (1, 1 << 10, 1 << 11, 1 << 12, 1 << 20)] == [4, 4, 3, 2, 2]
    assert measured.at(1).f32 == 2
