"""Functions of Python that JAX's programs call: pure_callback, io_callback, debug.callback, debug.print, and checks.

JAX's own lowering is for its own platforms: it passes such a function beside the program, for C++ to call, and runs it
on the platform "cpu", which a process with JAX_PLATFORMS=shlo does not have. Here each function becomes a target of
custom calls (stablehlo_py/handlers.py), bound as long as JAX keeps the executable. Its arrays are the platform's; those
of a GPU's platform are the processor's, where the process has a platform for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from stablehlo_py.handlers import Handler, bind_here
from stablehlo_py.pjrt.call_buffers import ExecutionContext, buffers_of
from stablehlo_py.pjrt.platforms import HOST
from stablehlo_py.pjrt.versions import internals
from stablehlo_py.runtime.callbacks import python_handler

_logger = logging.getLogger(__name__)
_jax = internals()
_Function = Callable[..., Sequence[Any]]


def register(platform: str, backend: str) -> None:
    """Let JAX lower callbacks for a platform, whose programs call the functions that are bound for a backend."""
    lower = _Lowering(platform, backend)
    rules: dict[Any, Callable[..., Any]] = {
        _jax.pure_callback_p: lower.pure_callback,
        _jax.io_callback_p: lower.io_callback,
        _jax.debug_callback_p: lower.debug_callback,
        _jax.debug_print_p: lower.debug_print,
        _jax.check_p: lower.check,
    }
    if platform == HOST:  # of a GPU such functions expect its memory
        rules[_jax.buffer_callback_p] = lower.buffer_callback
    for primitive, rule in rules.items():
        # Not cacheable: a function that JAX keeps for other modules would outlive the targets of its calls.
        _jax.register_lowering(primitive, rule, platform, cacheable=False)


def of_debug_callback(platform: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """jax.debug.callback outside of programs."""
    return _without_cpu(usual, lambda callback, **_: callback)


def of_debug_print(platform: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """jax.debug.print outside of programs."""
    return _without_cpu(usual, lambda ordered, partitioned, **how: _printer(**how))


def _without_cpu(usual: Callable[..., Any], function_of: Callable[..., _Function]) -> Callable[..., Any]:
    """A primitive without results, on the default platform in processes that have no platform "cpu"."""

    def evaluate(*operands: Any, **parameters: Any) -> Sequence[Any]:
        if "cpu" in _jax.backends():
            return usual(*operands, **parameters)
        return _returned(jax.default_backend(), function_of(**parameters), operands)

    return evaluate


def _printer(
    fmt: str, in_tree: Any, static_args: Any, np_printoptions: Any, has_placeholders: bool, logging_record: Any
) -> _Function:
    """What jax.debug.print calls, by the primitive's parameters."""
    write = partial(_jax._format_print_callback, fmt, dict(np_printoptions), has_placeholders, logging_record)
    return _jax._make_flat_callback(in_tree, write, static_args)


class _Lowering:
    """Rules of JAX's lowering: each takes its context, the operands as values of MLIR, and the primitive's
    parameters."""

    def __init__(self, platform: str, backend: str) -> None:
        self._platform, self._backend = platform, backend

    def pure_callback(self, context: Any, *operands: Any, callback: Any, sharding: Any, **_: Any) -> Sequence[Any]:
        """jax.pure_callback: it goes where nobody uses its results."""
        return self._call(context, callback, "jax.pure_callback", operands, pure=True, sharding=sharding)

    def io_callback(
        self, context: Any, *operands: Any, callback: Any, sharding: Any, ordered: bool, **_: Any
    ) -> Sequence[Any]:
        """jax.experimental.io_callback."""
        effect = _jax._OrderedIOEffect if ordered else None
        return self._call(context, callback, "jax.io_callback", operands, effect=effect, sharding=sharding)

    def debug_callback(
        self, context: Any, *operands: Any, callback: Any, effect: Any, partitioned: bool
    ) -> Sequence[Any]:
        """jax.debug.callback."""
        axes = context.module_context.axis_context
        if isinstance(axes, _jax.SPMDAxisContext) and set(axes.mesh.axis_names) - axes.manual_axes:
            # JAX's rule makes one of it whose axes are all manual.
            return _jax.debug_callback_lowering(
                context, *operands, callback=callback, effect=effect, partitioned=partitioned
            )
        order = effect if _jax.ordered_effects.contains(effect) else None
        return self._call(context, callback, "jax.debug.callback", operands, effect=order)

    def debug_print(self, context: Any, *operands: Any, ordered: bool, partitioned: bool, **how: Any) -> Sequence[Any]:
        """jax.debug.print."""
        effect = _jax.ordered_debug_effect if ordered else _jax.debug_effect
        function = _printer(**how)
        return self.debug_callback(context, *operands, callback=function, effect=effect, partitioned=partitioned)

    def check(self, context: Any, *operands: Any, err_tree: Any, debug: bool) -> Sequence[Any]:
        """jax.experimental.checkify.check, where it is to raise at run time."""
        if debug:
            return []
        if not _jax.xla_runtime_errors.value:
            raise _jax.functionalization_error
        return self._call(context, partial(_jax.python_err, err_tree), "checkify.check", operands)

    def buffer_callback(
        self,
        context: Any,
        *operands: Any,
        callback: Callable[..., object],
        in_tree: Any,
        out_tree: Any,
        has_side_effect: bool,
        input_output_aliases: Sequence[tuple[int, int]],
        **_: Any,
    ) -> Sequence[Any]:
        """jax.experimental.buffer_callback."""

        def handle(address: int) -> None:
            given, out = buffers_of(address)
            arguments, named = in_tree.unflatten(given)
            if callback(ExecutionContext(), out_tree.unflatten(out), *arguments, **named) is not None:
                raise ValueError("buffer_callback callback must not return any values.")

        aliases = dict(input_output_aliases)
        return self._bound(context, handle, "jax.buffer_callback", operands, pure=not has_side_effect, aliases=aliases)

    def _call(
        self,
        context: Any,
        function: _Function,
        what: str,
        operands: Sequence[Any],
        *,
        effect: Any = None,
        pure: bool = False,
        sharding: Any = None,
    ) -> Sequence[Any]:
        """The results of a call of `function(*arrays)`, those of the context; `effect` is what orders it."""
        expected = [(each.shape, each.dtype) for each in context.avals_out]
        called = partial(_called, self._platform, function, what, expected)
        handle = python_handler(partial(_behind_token, called) if effect else called)
        return self._bound(context, handle, what, operands, effect=effect, pure=pure, sharding=sharding)

    def _bound(
        self,
        context: Any,
        handle: Callable[[int], None],
        what: str,
        operands: Sequence[Any],
        *,
        effect: Any = None,
        pure: bool = False,
        sharding: Any = None,
        aliases: Mapping[int, int] | None = None,
    ) -> Sequence[Any]:
        """The results of a call of what takes the address of a call's structure. `aliases` are numbers of operands, and
        of the results that take their memory."""
        module, results = context.module_context, list(context.avals_out)
        handler = Handler(None, handle)
        module.add_keepalive(handler)
        module.add_host_callback(handle)  # JAX writes no program that has one to its cache
        target = bind_here(self._backend, what, handler)
        call = _jax.build_ffi_lowering_function(target, has_side_effect=not pure, operand_output_aliases=aliases or {})
        if effect:
            token = _jax.abstract_token
            in_order = context.replace(avals_in=[token, *context.avals_in], avals_out=[token, *results])
            made = call(in_order, context.tokens_in.get(effect), *operands)
        else:
            made = call(context, *operands)
        annotation = _jax._callback_op_sharding(module.axis_context, sharding, context.avals_out)
        if annotation is not None:
            _jax.set_sharding(module, made, _for_token(annotation) if effect and results else annotation)
        if not effect:
            return list(made.results)
        after, *values = made.results
        context.set_tokens_out(context.tokens_in.update_tokens(_jax.TokenSet({effect: after})))
        return values


def _for_token(annotation: Any) -> Any:
    """The shardings of results as those of a token, too, which comes first."""
    if not isinstance(annotation, _jax.SdyArrayList):
        return annotation
    first = annotation.shardings[0]
    token = _jax.SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=first.logical_device_ids)
    return _jax.SdyArrayList((token, *annotation.shardings))


def _behind_token(called: _Function, token: np.ndarray, *operands: np.ndarray) -> list[np.ndarray]:
    return [token, *called(*operands)]


def _called(
    platform: str, function: _Function, what: str, expected: Sequence[tuple[Any, Any]], *operands: np.ndarray
) -> list[np.ndarray]:
    """What a function returns, if it is of the shapes and dtypes that JAX was told."""
    try:
        values = [_jax.canonicalize_value(np.asarray(value)) for value in _returned(platform, function, operands)]
    except BaseException:
        _logger.exception("%s failed", what)  # as JAX's own platforms do
        raise
    if len(values) != len(expected):
        raise RuntimeError(f"Incorrect number of return values: {len(values)}, and {len(expected)} are expected")
    for number, (value, (shape, dtype)) in enumerate(zip(values, expected, strict=True)):
        for is_it, name, wanted in ((value.shape, "shape", shape), (value.dtype, "dtype", dtype)):
            if is_it != wanted:
                raise RuntimeError(
                    f"Incorrect output {name} for return value {number}: {is_it}, and {wanted} is expected"
                )
    return values


def _returned(platform: str, function: _Function, operands: Sequence[Any]) -> Sequence[Any]:
    """What a function returns that gets arrays of JAX, as it would outside of a program."""
    there = [name for name in ("cpu", HOST) if name in _jax.backends()] if platform != HOST else []
    device = jax.local_devices(backend=[*there, platform][0])[0]
    arguments = jax.device_put(list(operands), device)
    with (
        jax.default_device(device),
        _jax._internal_use_concrete_mesh(_jax.empty_concrete_mesh),
        _jax.use_abstract_mesh(_jax.empty_abstract_mesh),
    ):
        return function(*arguments)
