"""Where passes are found: by name, without importing those that nobody asks for.

The pass `my-pass` is the class with ``name = "my-pass"`` in ``passes/my_pass.py``. Listing the folder gives all
names; a module is imported when its pass is used. `load_pass_file` adds passes from a user's own file (``shlo-opt
--load-pass FILE.py``).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType

from stablehlo_py.boundary import is_expected
from stablehlo_py.errors import InternalError, OptionError
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.suggest import near_miss

_PACKAGE = "stablehlo_py.passes"
# Passes that live with their own rule tables instead of in passes/.
_ELSEWHERE = {
    "legalize-quantized": "stablehlo_py.legalize.quantized",
    "legalize-to-hlo": "stablehlo_py.legalize",
}
_loaded: dict[str, type[Pass]] = {}
_files: list[Path] = []


@cache
def _modules() -> dict[str, str]:
    """Pass name -> module that defines it."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.submodule_search_locations is None:
        raise InternalError(f"package {_PACKAGE} is not installed", remedy="reinstall stablehlo-py")
    names: dict[str, str] = {}
    for folder in package.submodule_search_locations:
        for file in sorted(Path(folder).glob("[!_]*.py")):
            name = file.stem.replace("_", "-")
            # A file without its own name in it is an analysis that passes share. Reading is cheaper than importing.
            if f'"{name}"' in file.read_text(encoding="utf-8"):
                names[name] = f"{_PACKAGE}.{file.stem}"
    return names | _ELSEWHERE


def is_pass(name: str) -> bool:
    """True for the name of one of our passes (a name of MLIR's own passes is not one). Imports nothing."""
    return name in _loaded or name in _modules()


def list_passes() -> tuple[str, ...]:
    """Names of all passes, in alphabetical order: those that ship, and those loaded from files. Imports nothing."""
    return tuple(sorted(set(_modules()) | set(_loaded)))


def get_pass(name: str) -> type[Pass]:
    """The class of the pass `name`; its module is imported now. Raises OptionError for an unknown name."""
    if name in _loaded:
        return _loaded[name]
    if name not in _modules():
        raise OptionError(f"there is no pass '{name}'", remedy=near_miss(name, list_passes()))
    return _shipped(name)


@cache
def _shipped(name: str) -> type[Pass]:
    module = importlib.import_module(_modules()[name])
    found = _passes_of(module).get(name)
    if found is None:
        raise InternalError(
            f"module {module.__name__} defines no pass named '{name}'", remedy=f'give its Pass subclass name = "{name}"'
        )
    return found


def _passes_of(module: ModuleType, *, defined_here: bool = False) -> dict[str, type[Pass]]:
    """Pass classes among a module's names; `defined_here` leaves out those it imported."""
    return {
        member.name: member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, Pass)
        and isinstance(getattr(member, "name", None), str)
        and not (defined_here and member.__module__ != module.__name__)
    }


def register_pass(cls: type[Pass]) -> type[Pass]:
    """Make a pass of a backend's own known by its name, wherever it is defined: a decorator."""
    _loaded[cls.name] = cls
    return cls


def revision() -> int:
    """A number that grows when passes are loaded: from then on, names may mean other passes."""
    return len(_files) + len(_loaded)


def loaded_files() -> tuple[Path, ...]:
    """The files of passes that were loaded, in order."""
    return tuple(_files)


def load_pass_file(path: str | Path) -> tuple[type[Pass], ...]:
    """Import a Python file and make its `Pass` subclasses available by name; one with the name of a pass that ships
    takes its place.

    Raises OptionError when the file is missing, does not run, or defines no pass.
    """
    path = Path(path)
    if not path.is_file():
        raise OptionError(f"there is no pass file '{path}'", remedy="--load-pass takes the path of a Python file")
    name = f"_shlo_pass_file_{len(_files)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"'{path}' is not a Python file", remedy="--load-pass takes a file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if is_expected(error):
            raise
        raise OptionError(
            f"pass file '{path}' failed: {type(error).__name__}: {error}", remedy=f"run 'python {path}' to see where"
        ) from error
    found = _passes_of(module, defined_here=True)
    if not found:
        raise OptionError(
            f"pass file '{path}' defines no pass",
            remedy="define a frozen dataclass derived from stablehlo_py.passmanager.base.Pass with a `name`: "
            "docs/adding-a-pass.md shows one",
        )
    _files.append(path)
    _loaded.update(found)
    return tuple(found.values())


def describe_pass(cls: type[Pass]) -> str:
    """Help of one pass: name, first line of its docstring, and an option per line with type, default and (field
    metadata) help."""
    summary = (inspect.getdoc(cls) or "").split("\n")[0]
    lines = [f"{cls.name}: {summary}"]
    for option in fields(cls):
        kind = option.type if isinstance(option.type, str) else getattr(option.type, "__name__", str(option.type))
        meaning = option.metadata.get("help", "")
        default = ",".join(map(str, option.default)) if isinstance(option.default, tuple) else option.default
        tail = f"  {meaning}" if meaning else ""
        lines.append(f"    {option.name.replace('_', '-')}={default}  ({kind}){tail}")
    return "\n".join(lines)
