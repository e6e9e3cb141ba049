"""Plans of kernels as data: what templates that have a choice took, or are told to take. A program holds those of its
kernels as its stage `plans`, and `Options(plans=...)` names a file with such a text."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.errors import OptionError, ResourceError, shown
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.records import from_json, to_json

STAGE = "plans"


@dataclass(frozen=True)
class KernelPlan:
    """That of a kernel: the name of its fusion function; SHA-256 of what that computes, whatever its name is; the plan,
    as `Candidate.plan` says it."""

    kernel: str
    fusion: str
    plan: str


@dataclass(frozen=True)
class Plans:
    """Those of a program's kernels.

    Attributes:
        target: the name of the machine that they are for.
        device: on which candidates were timed; empty: they are what the templates chose.
    """

    target: str
    device: str
    kernels: tuple[KernelPlan, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str], target: str) -> Plans:
        """Those of a file, for a target.

        Raises:
            ResourceError: the file cannot be read.
            OptionError: it holds no plans, or those for another target.
        """
        try:
            plans = from_json(cls, json.loads(content_of(path)))
        except ValueError as error:
            raise OptionError(
                f"{shown(os.fspath(path))} holds no plans of kernels: {error}",
                remedy=f"pass the text of a program's stage '{STAGE}'",
            ) from error
        assert isinstance(plans, Plans)
        if plans.target != target:
            raise OptionError(
                f"{shown(os.fspath(path))} has plans for {shown(plans.target)}, not for {target}",
                remedy="pass those of a program for this target",
            )
        return plans

    @classmethod
    def taken(cls, module: ir.Module, kernels: Mapping[str, GpuKernel], target: str, device: str = "") -> Plans:
        """Those that the kernels of a module were made by."""
        made = ((name_of(function), function) for function in fusions(module))
        found = [KernelPlan(name, digest(function), kernels[name].plan) for name, function in made if name in kernels]
        return cls(target, device, tuple(each for each in found if each.plan))

    def of(self, function: ir.OpView) -> str | None:
        """That of a fusion function, None: they do not say."""
        wanted = digest(function) if self.kernels else ""
        return next((each.plan for each in self.kernels if each.fusion == wanted), None)

    def text(self) -> str:
        """As `read` takes it."""
        return json.dumps(to_json(self), indent=1) + "\n"


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Of a file. Raises ResourceError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = f"{shown(os.fspath(path))} cannot be read: {error.strerror}"
        raise ResourceError(reason, remedy="check the path of Options(plans=...)") from error


def name_of(function: ir.OpView) -> str:
    """Of a fusion function."""
    name = function.attributes["sym_name"].value
    assert isinstance(name, str)
    return name


def digest(function: ir.OpView) -> str:
    """SHA-256 of a fusion function's text, without its name."""
    text = function.operation.get_asm(enable_debug_info=False)
    return hashlib.sha256(text.replace(f"@{name_of(function)}(", "@(", 1).encode()).hexdigest()
