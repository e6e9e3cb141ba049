"""The entry function: found, named `main`, and the only public one."""

from __future__ import annotations

from stablehlo_py.dialect.calls import MAIN, is_public
from stablehlo_py.dialect.locations import describe
from stablehlo_py.errors import LoadError, OptionError, elided, shown
from stablehlo_py.mlir import ir


def select_entry(module: ir.Module, entry: str | None = None, location: str | None = None) -> None:
    """Make `entry` (else `main`, else the only public function) the module's `@main`; all others become private.

    `location` is what errors name where the module does not know its own place. Raises OptionError when `entry` does
    not exist or when there is no obvious entry, LoadError when there is no function.
    """
    functions = {name(op): op for op in module.body.operations if op.operation.name == "func.func"}
    bodies = [each for each, op in functions.items() if op.regions[0].blocks]
    if not bodies:
        raise LoadError(
            "the module holds no function with a body",
            location=describe(module.operation.location) or location,
            remedy="is this the file that you meant to load?",
        )
    try:
        chosen = _choose([each for each in bodies if is_public(functions[each])], bodies, entry)
    except OptionError as error:
        where = describe(functions[bodies[0]].location) or location
        raise OptionError(error.reason, location=where, remedy=error.remedy) from None
    with module.context, ir.Location.unknown():
        if chosen != MAIN and MAIN in functions:
            _rename(module, functions[MAIN], _unused(f"{MAIN}_0", functions))
        if chosen != MAIN:
            _rename(module, functions[chosen], MAIN)
        for each, op in functions.items():
            op.attributes["sym_visibility"] = ir.StringAttr.get("public" if each == chosen else "private")


def check_entry(entry: object) -> None:
    """Raise OptionError for what cannot be the name of a function."""
    if entry is not None and not isinstance(entry, str):
        raise OptionError(f"entry is {shown(entry)}", remedy="pass the name of a function of the module, or None")


def name(function: ir.OpView) -> str:
    """The symbol name of a function."""
    return function.attributes["sym_name"].value


def _choose(public: list[str], bodies: list[str], entry: str | None) -> str:
    if entry is not None:
        if entry not in bodies:
            raise OptionError(f"there is no function @{entry}", remedy=f"the module defines: {elided(bodies)}")
        return entry
    if MAIN in bodies:
        return MAIN
    if len(public) == 1:
        return public[0]
    raise OptionError(
        f"the module has no @main and {len(public)} public functions",
        remedy=f"choose one with entry=...: {elided(public or bodies)}",
    )


def _unused(name: str, taken: dict[str, ir.OpView]) -> str:
    while name in taken:
        name += "_"
    return name


def _rename(module: ir.Module, function: ir.OpView, new: str) -> None:
    ir.SymbolTable.replace_all_symbol_uses(name(function), new, module.operation)
    ir.SymbolTable.set_symbol_name(function, new)
