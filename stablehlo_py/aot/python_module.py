"""A Python module for a shared library, which needs NumPy and nothing of this package: the text of
runtime/native_library.py, and the model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from stablehlo_py.aot.names import Names, described
from stablehlo_py.runtime.library import Library


def python_file(library: Library, names: Names, file: str, links: Sequence[str]) -> tuple[str, str]:
    """`NAME.py`: a function `load()`."""
    del links
    loader = files("stablehlo_py").joinpath("runtime", "native_library.py").read_text()
    takes = ", ".join(
        f"{word}: {described(spec)}" for word, spec in zip(names.arguments, library.program.inputs, strict=True)
    )
    shared = file if file.endswith(".so") else f"lib{names.model}.so"
    side = (
        f", folder / {names.model + '.safetensors'!r}"
        if library.interface.constants == "file" and library.program.constants
        else ""
    )
    return f"{names.model}.py", (
        f"{loader}\n\ndef load(threads: int = 1) -> NativeLibrary:\n"
        f'    """The model, from {shared} beside this file. Takes {takes or "nothing"}."""\n'
        "    folder = Path(__file__).resolve().parent\n"
        f"    return NativeLibrary(folder / {shared!r}, {names.model!r}{side}, threads=threads)\n"
    )
