"""`shlo.jit`: a JAX function traced by JAX and compiled by us, one executable per input signature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from stablehlo_py.boundary import expect, is_expected, public
from stablehlo_py.errors import ArgumentError, OptionError, shown
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.targets import DEFAULT_TARGET


class Jitted:
    """A function compiled per signature (shapes, dtypes, pytree structure, static values).

    `lower(*args, **kwargs)` returns the executable for some arguments without running it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        target: str,
        options: Options | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._static_argnums = static_argnums
        self._static_argnames = frozenset(static_argnames)
        self._target = target
        self._options = options
        self._compiled: dict[object, tuple[Executable, Any]] = {}
        # The structure of the last arguments whose leaves are arrays and nothing else; the executable for them, and the
        # structure of its results.
        self._last: tuple[Any, Executable, Any] | None = None

    def __repr__(self) -> str:
        name, count = getattr(self._function, "__name__", repr(self._function)), len(self._compiled)
        return f"<shlo.jit of {name}, compiled for {count} {'signature' if count == 1 else 'signatures'}>"

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[int, Any], dict[str, Any], Any]:
        static = {number % len(args) if number < 0 else number for number in self._static_argnums if number < len(args)}
        fixed = {number: args[number] for number in sorted(static)}
        named = {name: value for name, value in kwargs.items() if name in self._static_argnames}
        dynamic = (
            tuple(value for number, value in enumerate(args) if number not in static),
            {name: value for name, value in kwargs.items() if name not in self._static_argnames},
        )
        return fixed, named, dynamic

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Executable, Any, list[Any]]:
        import jax

        fixed, named, dynamic = self._split(args, kwargs)
        leaves, structure = jax.tree_util.tree_flatten(dynamic)
        arrays = [_as_jax_would(leaf) for leaf in leaves]
        specs = tuple(
            (np.shape(array), array.dtype, _is_weak(leaf)) for array, leaf in zip(arrays, leaves, strict=True)
        )
        static = (*fixed.items(), *sorted(named.items()))
        try:
            # 1, 1.0 and True are equal, and trace to different programs.
            key = (structure, specs, tuple((name, type(value), value) for name, value in static))
            known = self._compiled.get(key)
        except Exception as error:  # also of a __hash__ or an __eq__ of the user's
            if is_expected(error):
                raise
            raise OptionError(
                f"a static argument cannot be hashed: {error}", remedy="pass hashable static values"
            ) from error
        if known is None:
            known = self._compiled[key] = self._compile(fixed, named, specs, structure)
        return (*known, arrays)

    def _compile(
        self, fixed: dict[int, Any], named: dict[str, Any], specs: Sequence[tuple[Any, Any, bool]], structure: Any
    ) -> tuple[Executable, Any]:
        import jax
        import jax.export

        from stablehlo_py.api import compile
        from stablehlo_py.custom_calls import known_custom_calls

        out_structure = None

        def flat(*leaves: Any) -> Any:
            nonlocal out_structure
            positional, keywords = jax.tree_util.tree_unflatten(structure, leaves)
            values = iter(positional)
            total = len(positional) + len(fixed)
            args = [fixed[number] if number in fixed else next(values) for number in range(total)]
            result = self._function(*args, **keywords, **named)
            out_leaves, out_structure = jax.tree_util.tree_flatten(result)
            return out_leaves

        flat.__name__ = getattr(self._function, "__name__", "function")
        structs = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in specs]
        # JAX warns of targets that may change until an artifact is loaded; this one is compiled at once.
        checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in known_custom_calls(self._target)]
        exported = jax.export.export(jax.jit(flat, keep_unused=True), disabled_checks=checks)(*structs)
        executable = compile(exported, target=self._target, options=self._options)
        assert isinstance(executable, Executable)
        return executable, out_structure

    def lower(self, *args: Any, **kwargs: Any) -> Executable:
        """The executable for these arguments' signature."""
        return self._prepare(args, kwargs)[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run; the result has the function's pytree structure with NumPy arrays as leaves."""
        import jax

        if self._static_argnums or self._static_argnames:
            executable, structure, arrays = self._prepare(args, kwargs)
            return jax.tree_util.tree_unflatten(structure, executable(*arrays))
        leaves, given = jax.tree_util.tree_flatten((args, kwargs))
        if self._last is not None and self._last[0] == given:
            _, executable, structure = self._last
            results = executable.fast_call(*leaves) if executable.fast_call is not None else None
            if results is not None:
                return jax.tree_util.tree_unflatten(structure, results)
        executable, structure, arrays = self._prepare(args, kwargs)
        if all(map(_is_plain, leaves)):
            self._last = given, executable, structure
        return jax.tree_util.tree_unflatten(structure, executable(*arrays))


def _is_plain(argument: Any) -> bool:
    """Whether it is an array whose dtype alone says what JAX makes of it: of 64 bits, it depends on jax_enable_x64."""
    if type(argument) is not np.ndarray or not argument.dtype.isnative:
        return False
    return argument.dtype.itemsize <= (8 if argument.dtype.kind == "c" else 4)


def _is_weak(leaf: Any) -> bool:
    """Python numbers, and JAX arrays made of them, take the dtype of what they meet."""
    return type(leaf) in (bool, int, float, complex) or bool(getattr(leaf, "weak_type", False))


def _as_jax_would(leaf: Any) -> Any:
    """An array with the dtype that JAX gives it: 64 bits become 32 unless jax_enable_x64 is set."""
    import jax

    try:
        array = leaf if isinstance(leaf, (np.ndarray, np.generic, jax.Array)) else np.asarray(leaf)
    except Exception as error:  # whatever a conversion that the value defines raises
        if is_expected(error):
            raise
        raise ArgumentError(f"an argument is no array: {shown(leaf)}", remedy="pass arrays and numbers") from error
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        raise ArgumentError(
            f"an argument has JAX's own dtype {array.dtype}", remedy="pass jax.random.key_data(key) and wrap it inside"
        )
    if array.dtype.char in "gG" or not (array.dtype.kind in "biufc" or hasattr(ml_dtypes, array.dtype.name)):
        remedy = "pass arrays and numbers; what else the function takes is a static argument"
        raise ArgumentError(f"an argument has dtype {array.dtype}, which JAX does not have", remedy=remedy)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    wanted = jax.dtypes.canonicalize_dtype(array.dtype)
    return array if wanted == array.dtype else array.astype(wanted)


def _listed(given: Any, kind: type, what: str, wanted: str) -> tuple[Any, ...]:
    """One value of a kind, or several, as a tuple. Raises ArgumentError."""
    if isinstance(given, kind):
        return (given,)
    expect(given, (tuple, list, set, frozenset, range), what, wanted)
    for each in given:
        expect(each, kind, f"an element of {what}", wanted)
    return tuple(given)


@public
def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    target: str = DEFAULT_TARGET,
    options: Options | None = None,
) -> Any:
    """Compile a JAX function with this compiler. Like `jax.jit`: usable as a decorator, with static arguments, keyword
    arguments and pytrees; results are NumPy arrays.

    Args:
        static_argnums, static_argnames: arguments that are compile-time values; either implies the other where the
            signature tells.
        target, options: as of `compile`.

    Raises:
        ArgumentError: there is no function, or something else than positions or names of its parameters is static.
        OptionError: a static argument is not hashable. Errors of `compile` when a signature is seen first.
    """
    if function is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames, target=target, options=options
        )
    expect(function, Callable, "what jit compiles", "a function")  # type: ignore[arg-type]
    expect(target, str, "target", "the name of a backend")
    Options.of(options)
    numbers = _listed(static_argnums, int, "static_argnums", "a position, or several")
    names = _listed(static_argnames, str, "static_argnames", "the name of a parameter, or several")
    try:
        parameters = [
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # builtins without a signature: only what was named is static
        parameters = []
    inferred_names = tuple(parameters[number] for number in numbers if -len(parameters) <= number < len(parameters))
    inferred_numbers = tuple(parameters.index(name) for name in names if name in parameters)
    return Jitted(
        function,
        tuple(dict.fromkeys(numbers + inferred_numbers)),
        tuple(dict.fromkeys(names + inferred_names)),
        target,
        options,
    )
