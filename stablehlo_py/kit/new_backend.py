"""A package with a backend, written from the template beside this file, whole or not at all."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from stablehlo_py.errors import OptionError, ResourceError, shown
from stablehlo_py.files import PARTIAL, why_no_file_name
from stablehlo_py.targets import known_targets

TEMPLATE = Path(__file__).with_name("template")
#: Files of the template, and what they are called in the package; `newname` stands for its name.
FILES = {
    "README.md": "README.md",
    "pyproject.toml": "pyproject.toml",
    "gitignore": ".gitignore",
    "ci.yml": ".github/workflows/test.yml",
    **{f"{name}.py": f"shlo_newname/{name}.py" for name in ("__init__", "backend", "device", "host", "kernels")},
    **{f"{name}.py": f"test/{name}.py" for name in ("conftest", "test_models", "test_ops")},
}
LONGEST_NAME = 40


def require_name(name: str) -> None:
    """Refuse a name that no backend can have. Raises OptionError."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or len(name) > LONGEST_NAME:
        raise OptionError(
            f"{shown(name)} is no name for a backend",
            remedy=f"take up to {LONGEST_NAME} small letters, digits and underscores, a letter first",
        )
    if name in known_targets():
        raise OptionError(f"there is a backend '{name}' already", remedy="take another name")
    if find_spec(package_of(name)) is not None:
        raise OptionError(f"there is a package '{package_of(name)}' already", remedy="take another name")


def package_of(name: str) -> str:
    """The Python package of a backend."""
    return f"shlo_{name}"


def write_backend(name: str, folder: Path) -> list[Path]:
    """Write the package of a backend into a new folder; gives its files, relative to it.

    Raises:
        OptionError: the name cannot be, or is taken.
        ResourceError: the folder is there already, or cannot be written. Nothing is left of it.
    """
    require_name(name)
    reason = why_no_file_name(folder)
    if reason is not None:
        raise ResourceError(f"{shown(str(folder))} is no folder: {reason}", remedy="pass another path")
    if os.path.lexists(folder):
        raise ResourceError(f"{shown(str(folder))} is there already", remedy="pass a folder that is not there yet")
    try:
        made = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
    except OSError as error:
        raise _cannot(folder, error) from error
    try:
        files = [_write(made, name, source, target) for source, target in FILES.items()]
        made.chmod(0o777 & ~_umask())
        made.rename(folder)
    except BaseException as error:
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, OSError):
            raise _cannot(folder, error) from error
        raise
    return [file.relative_to(made) for file in files]


def _write(folder: Path, name: str, source: str, target: str) -> Path:
    path = folder / filled(target, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(filled((TEMPLATE / source).read_text(encoding="utf-8"), name), encoding="utf-8")
    return path


def filled(text: str, name: str) -> str:
    """A text of the template for a backend of this name."""
    titled = "".join(word.capitalize() for word in name.split("_"))
    words = {"stablehlo_py.kit.template": package_of(name), "newname": name, "Newname": titled}
    return re.sub("|".join(map(re.escape, words)), lambda match: words[match[0]], text)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _cannot(folder: Path, error: OSError) -> ResourceError:
    return ResourceError(
        f"{shown(str(folder))} cannot be written: {error.strerror or error}",
        remedy="check that the folder around it exists, is writable, and has room",
    )
