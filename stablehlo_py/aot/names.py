"""Names of a model's tensors and dimensions as identifiers of C, C++, Rust, Go and Python, and their types in C."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stablehlo_py.backends.common.library import Signature, value_symbols
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.errors import OptionError, shown
from stablehlo_py.runtime.library import Library
from stablehlo_py.runtime.program import Spec

# Words that mean something in one of the languages, or in the functions that are written.
_RESERVED = frozenset(
    """
    alignas alignof and as asm assert async auto await bool break case catch chan char class complex const constexpr
    constants continue crate decltype def default defer del delete do double elif else enum except explicit export
    extern fallthrough false final finally float fn for friend from func global go goto if impl import in inline int
    interface is lambda let long loop map match mod module move mut mutable namespace new None nonlocal not null
    nullptr operator or package pass private protected pub public raise range ref register restrict return run select
    self Self short signed sizeof static struct super switch template this threads throw trait true True False try type
    typedef typeid typename union unsafe unsigned use using var virtual void volatile wchar_t where while with
    workspace workspace_bytes yield
    """.split()
)
# Functions of C's library, which a model of that name would take the place of.
_OF_C = frozenset(
    """
    abort abs accept acos asin atan atan2 bind calloc ceil clock close connect cos div erf erfc errno exit exp fabs
    floor fmax fmin fmod fork free gamma getenv gets j0 j1 jn index kill labs link listen log main malloc memcpy memmove
    memset open pipe pow printf putenv puts qsort raise rand random read remove rename round scanf select send signal
    sin sleep socket sqrt srand stat strlen system tan tanh time times trunc wait write y0 y1 yn
    """.split()
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def model_name(text: str) -> str:
    """The name of a model as its user gives it.

    Raises:
        OptionError: it is no identifier of C, or has a meaning in C, its library, C++, Rust, Go or Python.
    """
    if not _WORD.fullmatch(text) or text.startswith(("_", "shlo_")) or text in _RESERVED | _OF_C:
        raise OptionError(
            f"{shown(text)} cannot be the name of a model in C",
            remedy="use letters, digits and _, beginning with a letter (not with shlo_), and no word or function of C",
        )
    return text


def name_of_file(stem: str) -> str:
    """A name for a model from that of a file: `libmlp` and `mlp-small.v2` give `mlp` and `mlp_small_v2`."""
    return _identifier(stem.removeprefix("lib"), "model")


def _identifier(text: str, otherwise: str) -> str:
    word = re.sub(r"_+", "_", re.sub(r"\W", "_", text, flags=re.ASCII)).strip("_") or otherwise
    word = word if not word[0].isdigit() else f"{otherwise}_{word}"
    return f"{word}_" if word in _RESERVED else word


def _unique(words: Iterable[str], taken: set[str]) -> list[str]:
    found = []
    for word in words:
        candidate, number = word, 1
        while candidate in taken:
            number += 1
            candidate = f"{word}_{number}"
        taken.add(candidate)
        found.append(candidate)
    return found


@dataclass(frozen=True)
class Names:
    """Identifiers for what a library takes and gives.

    Attributes:
        model: its own name. dimensions: those that a call says, in order; values: those elements of arguments that
            sizes depend on. arguments, results: tensors by number.
    """

    model: str
    dimensions: tuple[str, ...]
    values: tuple[str, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]

    @classmethod
    def of(cls, library: Library) -> Names:
        """Those of a library: each is used once."""
        signature = Signature.of(library.program)
        taken: set[str] = {library.interface.name}
        arguments = _unique((_identifier(spec.name, "arg") for spec in signature.inputs), taken)
        results = _unique((_identifier(spec.name, "result") for spec in signature.outputs), taken)
        dimensions = _unique((f"{arguments[each.argument]}_dim{each.position}" for each in signature.dimensions), taken)
        values = _unique((f"{arguments[number]}_{at}" for number, at in value_symbols(library.program)), taken)
        return cls(library.interface.name, tuple(dimensions), tuple(values), tuple(arguments), tuple(results))

    @property
    def upper(self) -> str:
        """What macros begin with."""
        return self.model.upper()


def described(spec: Spec) -> str:
    """ "f32[2,3]" or, of a dynamic size, "f32[?,3]"."""
    sizes = ",".join("?" if size is None else str(size) for size in spec.shape)
    return f"{element_name(spec.dtype)}[{sizes}]"
