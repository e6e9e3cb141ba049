"""From the bytes of a source to a verified StableHLO module, with every diagnostic as a Problem at the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from weakref import WeakKeyDictionary

from stablehlo_py.boundary import UNREADABLE, is_unreadable
from stablehlo_py.errors import LoadError, VersionError
from stablehlo_py.frontend.diagnostics import load_error
from stablehlo_py.frontend.nesting import check_text
from stablehlo_py.frontend.source import DAMAGED, Format, Source
from stablehlo_py.frontend.text import parse_text
from stablehlo_py.mlir import Diagnostic, MLIRError, PassManager, diagnostics, errors_of, ir, run_upstream, stablehlo

# The version of StableHLO since which hardly any op has changed its form in VHLO, and the names of those that have.
_OPS_SETTLED = (1, 10, 0)
_CHANGED_SINCE = (b"custom_call_v1",)
_RULE = b"sdy.sharding_rule"  # in nearly all artifacts that have anything of Shardy


def parse(source: Source, context: ir.Context) -> ir.Module:
    """Parse and verify `source` in `context`; Shardy's shardings become text (see `shardy`).

    Raises VersionError for a portable artifact of a version outside the supported range, LoadError for anything else
    that cannot be read, UnsupportedError for computations on shards with a sharding that is not known.
    """
    check_version(source)
    check_text(source)
    with readable_names(source):
        return _parse(source, context)


@contextmanager
def readable_names(source: Source) -> Iterator[None]:
    """Names in damaged files that are no text are errors of the source."""
    try:
        yield
    except (UnicodeError, RuntimeError) as error:
        if not is_unreadable(error):
            raise
        raise LoadError(UNREADABLE, location=source.name, remedy=DAMAGED) from error


def _parse(source: Source, context: ir.Context) -> ir.Module:
    # This copy of MLIR has no Shardy dialect, and finds so at once; jaxlib's has. And bytecode of one MLIR is not
    # always bytecode of another. Few modules need this: it is not imported for the others.
    if source.format is Format.ARTIFACT and _RULE in source.data:
        from stablehlo_py.frontend import shardy

        stripped, found = shardy.strip(source)
    else:
        try:
            return _parse_plainly(source, context)
        except LoadError as error:
            from stablehlo_py.frontend import shardy

            if b"sdy" not in source.data and (source.format is not Format.BYTECODE or not shardy.can_strip()):
                raise
            try:
                stripped, found = shardy.strip(source)
            except LoadError:
                if b"sdy" in source.data:
                    raise
                raise error from None
    module = _parse_plainly(stripped, context)
    shardy.attach(module, found)
    return module


def check_version(source: Source) -> None:
    """Raise VersionError when a portable artifact is newer or older than what this StableHLO reads."""
    if source.version is None:
        return
    version = ".".join(map(str, source.version))
    newest, oldest = _versions()
    if source.version > _numbers(newest):
        raise VersionError(
            f"the artifact is for StableHLO {version}, this compiler reads up to {newest}",
            location=source.name,
            remedy=f"upgrade stablehlo-py and torch-mlir, or write the artifact for StableHLO {newest} or older "
            "(the target version of serialize_portable_artifact)",
        )
    if source.version < _numbers(oldest):
        raise VersionError(
            f"the artifact is for StableHLO {version}, this compiler reads {oldest} and newer",
            location=source.name,
            remedy="export the model again with a current framework",
        )


@cache
def _versions() -> tuple[str, str]:
    """The newest and the oldest that this StableHLO reads."""
    return stablehlo.get_current_version(), stablehlo.get_minimum_version()


@cache
def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _parse_plainly(source: Source, context: ir.Context) -> ir.Module:
    with diagnostics(context) as collected:
        try:
            if source.format is not Format.TEXT:
                return _read_bytecode(source, context)
            return parse_text(ir, source.data.decode(), source.name, context)
        except (MLIRError, ValueError) as error:
            unexplained = Diagnostic(ir.DiagnosticSeverity.ERROR, str(error), ir.Location.unknown(context))
            raise load_error(source, errors_of(error, collected) or [unexplained]) from None


def _read_bytecode(source: Source, context: ir.Context) -> ir.Module:
    """A module in StableHLO, from a portable artifact or from plain bytecode, in either of which VHLO is upgraded. That
    is what `deserialize_portable_artifact` does, which makes all of VHLO's rewrites for each module. What becomes
    StableHLO as it is needs no upgrade, a tenth of the time."""
    if context not in _upgrades:
        with context, ir.Location.unknown():
            run_upstream(ir.Module.create(), "stablehlo-legalize-to-vhlo")  # loads VHLO
        upgrade, legalize = (
            PassManager.parse(f"builtin.module({text})", context=context)
            for text in (f"vhlo-to-version{{target={_versions()[0]}}}", "vhlo-legalize-to-stablehlo")
        )
        upgrade.enable_verifier(False)  # parsing has verified it, and what comes of it is verified
        _upgrades[context] = upgrade, legalize
    upgrade, legalize = _upgrades[context]
    module = ir.Module.parse(source.data, context)
    if _is_settled(source):
        try:
            legalize.run(module.operation)
            return module
        except MLIRError:  # an op of an older form, or what is wrong, which is found again
            module = ir.Module.parse(source.data, context)
    upgrade.run(module.operation)
    legalize.run(module.operation)
    return module


def _is_settled(source: Source) -> bool:
    """Whether all ops seem to have the form that they have now: a wrong answer costs time."""
    if source.version is not None and source.version < _OPS_SETTLED:
        return False
    return not any(name in source.data for name in _CHANGED_SINCE)


_upgrades: WeakKeyDictionary[ir.Context, tuple[PassManager, PassManager]] = WeakKeyDictionary()


def parse_again(source: Source, bytecode: bytes, context: ir.Context) -> ir.Module:
    """The module that was in `source`, from bytecode that MLIR wrote of it. MLIR writes some of what it does not read,
    as types of impossible sizes: raises LoadError."""
    with diagnostics(context) as collected:
        try:
            return ir.Module.parse(bytecode, context)
        except MLIRError as error:
            raise load_error(source, errors_of(error, collected)) from None
