"""Pipelines: our passes and MLIR's own, in any order, in MLIR's textual syntax.

    builtin.module(inline,canonicalize{max-rounds=2},func.func(canonicalize),upstream(cse))

At the top level a name is one of our passes first and one of MLIR's (or StableHLO's) otherwise; whatever stands in a
nested group, such as `func.func(...)`, is MLIR's. `upstream(...)` says that a pass of MLIR's is meant where ours has
the same name. The anchor `builtin.module(...)` may be left out. Options of our passes are the fields of their
dataclasses, in kebab-case: `name{flag=true count=3 names=a,b}`.
"""

from __future__ import annotations

import gc
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import pairwise
from weakref import WeakKeyDictionary

from stablehlo_py.dialect.census import Contents
from stablehlo_py.dialect.types import op_names
from stablehlo_py.errors import OptionError
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import PassManager, ir
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.instrumentation import Instrumentation
from stablehlo_py.passmanager.registry import get_pass, is_pass, list_passes
from stablehlo_py.passmanager.suggest import near_miss, nearest

Step = Pass | str
_OPEN, _CLOSE = "({[<", ")}]>"
# For near misses only: what people type most. Any registered pass works.
_COMMON_UPSTREAM = (
    "canonicalize",
    "chlo-legalize-to-stablehlo",
    "loop-invariant-code-motion",
    "reconcile-unrealized-casts",
    "sccp",
    "stablehlo-canonicalize-dynamism",
    "stablehlo-refine-shapes",
    "strip-debuginfo",
)


@dataclass(frozen=True)
class Pipeline:
    """An ordered list of steps: a `Pass`, or the text of a pass of MLIR's own ("canonicalize", "func.func(cse)")."""

    steps: tuple[Step, ...]

    def __init__(self, steps: Iterable[Step]) -> None:
        object.__setattr__(self, "steps", tuple(steps))

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Read the textual syntax. Raises OptionError for syntax, an unknown option, or a value of the wrong type;
        names that are not ours are checked by MLIR when the pipeline runs, before its first pass does."""
        return Pipeline(_parse_steps(_without_anchor(text)))

    def __str__(self) -> str:
        return _text_of(self.steps)

    def __add__(self, other: Pipeline) -> Pipeline:
        return Pipeline(self.steps + other.steps)

    @cached_property
    def _grouped(self) -> tuple[Step, ...]:
        return tuple(_grouped(self.steps))

    @deferred()
    def run(
        self, module: ir.Module, instrumentation: Instrumentation | None = None, known: Known | None = None
    ) -> None:
        """Run every step on the module, in place. Hold no ops of the module across this call. `known`: what an earlier
        pipeline has left known of it.

        Without instrumentation, neighbouring passes of MLIR's run in one pass manager, and exceptions other than
        ShloError from a pass become InternalError with the pipeline. With it, each pass runs alone, between its
        hooks.
        """
        instrumentation = instrumentation or Instrumentation(keep_input=False)
        steps = self.steps if instrumentation.per_pass else self._grouped
        known = known or Known(module)
        runs = [
            partial(known.run_upstream, _manager(step, module.context))
            if isinstance(step, str)
            else partial(known.run, step)
            for step in steps
        ]
        # Types are made under a location (their verifiers report to it); ops of ours carry their own.
        with module.context, ir.Location.unknown(module.context), without_cyclic_gc():
            for number, (step, run) in enumerate(zip(steps, runs, strict=True)):
                text, done = partial(step_text, step), partial(_text_of, steps[: number + 1])
                instrumentation.around(run, step_name(step), text, done, module)


class Known:
    """What is known of a module between passes: names that its ops may have, of a loaded one types too, and which
    passes would change nothing."""

    def __init__(self, module: ir.Module, contents: Contents | None = None) -> None:
        self._module = module
        self._contents = contents
        self._names: frozenset[str] | None = None if contents is None else contents.names
        self._settled: set[Pass | str] = set()  # by their names where options do not matter

    def run(self, step: Pass) -> None:
        """Run a pass of ours, and those that it runs first, unless they have nothing to do."""
        if step in self._settled or step.name in self._settled or not self._concerns(step):
            return
        for other in step.first:
            self.run(other)
        if step.run(self._module) is not False:
            self._changed(step)
        if step.idempotent:
            self._settled.add(step)
        self._settled.update(step.settles(self._module))

    def run_upstream(self, manager: PassManager) -> None:
        """Run passes of MLIR's."""
        manager.run(self._module.operation)
        self._contents = self._names = None
        self._settled.clear()

    def _concerns(self, step: Pass) -> bool:
        roots = step.roots()
        if roots is not None:
            return not self._op_names().isdisjoint(roots)
        if self._contents is None:
            return True
        return step.concerns(replace(self._contents, names=self._op_names()))

    def _changed(self, step: Pass) -> None:
        """A pass has changed the module."""
        self._settled = {each for each in self._settled if step.only_erases and _class_of(each).stays_settled}
        makes = () if step.only_erases else step.makes
        if makes is None:
            self._contents = self._names = None
        elif self._names is not None:
            self._names = self._names.union(makes)

    def _op_names(self) -> frozenset[str]:
        if self._names is None:
            self._names = frozenset(op_names(self._module))
        return self._names


def _class_of(step: Pass | str) -> type[Pass]:
    return get_pass(step) if isinstance(step, str) else type(step)


def _text_of(steps: Sequence[Step]) -> str:
    return f"builtin.module({','.join(step_text(step) for step in steps)})"


@contextmanager
def without_cyclic_gc() -> Iterator[None]:
    """Python's cyclic collector off: it would scan the many small objects that passes and kernels make, a third of
    their time, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def step_text(step: Step) -> str:
    """A step in the textual syntax; options that have their default are left out."""
    if isinstance(step, str):
        name = step.partition("{")[0]
        return f"upstream({step})" if "(" not in step and is_pass(name) else step
    options = [
        f"{field.name.replace('_', '-')}={_option_text(getattr(step, field.name))}"
        for field in fields(step)
        if getattr(step, field.name) != field.default
    ]
    return step.name + (f"{{{' '.join(options)}}}" if options else "")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else f"'{value}'" if isinstance(value, str) and " " in value else str(value)


def step_name(step: Step) -> str:
    """The name of a step; a pass of MLIR's has its text."""
    return step if isinstance(step, str) else step.name


def _grouped(steps: Sequence[Step]) -> Iterable[Step]:
    """Neighbouring upstream steps joined into one."""
    group: list[str] = []
    for step in steps:
        if isinstance(step, str):
            group.append(step)
            continue
        if group:
            yield ",".join(group)
            group = []
        yield step
    if group:
        yield ",".join(group)


def _manager(text: str, context: ir.Context) -> PassManager:
    """Made once for a context, which may serve many programs."""
    known = _managers.setdefault(context, {})
    if text not in known:
        known[text] = _make_manager(text, context)
    return known[text]


_managers: WeakKeyDictionary[ir.Context, dict[str, PassManager]] = WeakKeyDictionary()


def _make_manager(text: str, context: ir.Context) -> PassManager:
    try:
        manager = PassManager.parse(f"builtin.module({text})", context=context)
    except ValueError as error:
        name = text.partition("{")[0]
        close = nearest(name, list_passes() + _COMMON_UPSTREAM)
        remedy = close or "'shlo-opt --list-passes' lists our passes"
        detail = str(error).split("\n")[0].partition("error: ")[2] or str(error).split("\n")[0]
        raise OptionError(f"pass '{text}': {detail}", remedy=remedy) from error
    manager.enable_verifier(False)
    return manager


# --- text ------------------------------------------------------------------------------------------------------------


def _without_anchor(text: str) -> str:
    text = text.strip()
    anchored = text.startswith("builtin.module(") and len(_outside(text)) == len("builtin.module")
    return text[len("builtin.module(") : -1] if anchored else text


def _outside(text: str) -> list[int]:
    """Indices of the letters outside brackets and quotes."""
    found, start, depth, quote = [], 0, 0, ""
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPEN:
            start, depth = start if depth else index, depth + 1
        elif letter in _CLOSE and not depth:
            raise OptionError(f"pipeline '{text}': '{letter}' at column {index + 1} closes nothing")
        elif letter in _CLOSE:
            depth -= 1
        elif not depth:
            found.append(index)
    if depth:
        raise OptionError(f"pipeline '{text}': the bracket at column {start + 1} is not closed")
    if quote:
        raise OptionError(f"pipeline '{text}': the quote {quote} is not closed")
    return found


def _split(text: str, separators: str) -> list[str]:
    """Split at separators outside brackets and quotes; empty parts are dropped."""
    ends = [index for index in _outside(text) if text[index] in separators]
    parts = [text[begin + 1 : end].strip() for begin, end in pairwise([-1, *ends, len(text)])]
    return [part for part in parts if part]


def _parse_steps(text: str) -> list[Step]:
    steps: list[Step] = []
    for element in _split(text, ","):
        name = element.partition("{")[0].partition("(")[0].strip()
        if element == f"{name}(" or element[len(name) :].startswith("("):
            inner = element[len(name) + 1 : -1]
            steps += _split(inner, ",") if name == "upstream" else [_nested(name, inner, element)]
        elif is_pass(name):
            steps.append(parse_pass(name, element[len(name) :].strip()))
        else:
            steps.append(element)
    return steps


def _nested(anchor: str, inner: str, element: str) -> str:
    if is_pass(anchor):
        raise OptionError(f"'{element}': options of a pass stand in braces", remedy=f"write {anchor}{{option=value}}")
    if anchor == "builtin.module":
        raise OptionError(f"'{element}': one builtin.module(...) around the whole pipeline is enough")
    for name in (part.partition("{")[0] for part in _split(inner, ",")):
        if is_pass(name) and name not in ("canonicalize", "cse", "inline", "symbol-dce"):
            raise OptionError(
                f"pass '{name}' runs on the module, not inside {anchor}(...)", remedy=f"move '{name}' out of the group"
            )
    return element


def parse_pass(name: str, options: str = "") -> Pass:
    """One of our passes with options in the form "{a=1 b=x,y}" (or empty). Raises OptionError."""
    cls = get_pass(name)
    types_ = typing.get_type_hints(cls) if options else {}  # evaluating annotations takes long
    known = {field.name.replace("_", "-"): field.name for field in fields(cls)}
    values: dict[str, object] = {}
    if options and not (options.startswith("{") and options.endswith("}")):
        raise OptionError(f"pass '{name}': '{options}' is not an option list", remedy=f"write {name}{{option=value}}")
    for option in _split(options[1:-1], " \t\n"):
        key, _, value = option.partition("=")
        if key not in known:
            raise OptionError(f"pass '{name}' has no option '{key}'", remedy=near_miss(key, known))
        values[known[key]] = _typed(name, key, value if "=" in option else "true", types_[known[key]])
    return cls(**values)


def _typed(pass_name: str, option: str, text: str, type_: object) -> object:
    """The value of an option, by the annotation of its field: bool, int, float, str, tuple[T, ...] and T | None."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    origin = typing.get_origin(type_)
    if origin in (types.UnionType, typing.Union):
        if text == "none":
            return None
        type_ = next(part for part in typing.get_args(type_) if part is not type(None))
        origin = typing.get_origin(type_)
    if origin is tuple:
        if text[:1] in ("{", "[") and text[-1:] in ("}", "]"):
            text = text[1:-1]
        element = typing.get_args(type_)[0]
        return tuple(_typed(pass_name, option, part, element) for part in _split(text, ","))
    if type_ is bool and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    if type_ is str:
        return text
    if type_ in (int, float):
        try:
            return type_(text)
        except ValueError:
            pass  # reported below, with the other types
    expected = getattr(type_, "__name__", str(type_))
    raise OptionError(f"pass '{pass_name}': option '{option}' is of type {expected}, got '{text}'")
