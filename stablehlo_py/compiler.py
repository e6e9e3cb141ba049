"""From a source to a program: the stages, what each is made of, and the functions that run them.

`common_passes` is the table of contents of the compiler up to `optimized`; what follows, its backend says
(`Backend.pipeline`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from stablehlo_py import progress
from stablehlo_py.backends.base import Backend, get_backend
from stablehlo_py.dialect.census import Contents
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.grid import declare_grid
from stablehlo_py.dialect.scatter_windows import declare_windows
from stablehlo_py.dialect.types import is_tensor, num_elements, tensor_bytes
from stablehlo_py.errors import LoadError, OptionError
from stablehlo_py.files import writable_directory, write_whole
from stablehlo_py.frontend.jax_export import leaves_of
from stablehlo_py.frontend.load import Loaded
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.options import Options
from stablehlo_py.passmanager.instrumentation import Instrumentation
from stablehlo_py.passmanager.pipeline import Known, Pipeline, Step, step_name, without_cyclic_gc
from stablehlo_py.passmanager.registry import revision
from stablehlo_py.passmanager.rewrite import RulePass
from stablehlo_py.passmanager.suggest import near_miss
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.cache import CacheEntry, key_of
from stablehlo_py.runtime.library import Interface, Library
from stablehlo_py.runtime.program import CompiledProgram, StageContents
from stablehlo_py.runtime.stages import stage_texts
from stablehlo_py.targets import DEFAULT_TARGET

ReadAgain: TypeAlias = Callable[[ir.Context], Loaded]

COMMON_STAGES = ("stablehlo", "hlo", "optimized")

# A convolution with one tap becomes a dot after everything else: the reshapes around it would sink into the loops of
# batch normalization, and part them.
LOCAL_RULES = "peephole{disable=convolution-pointwise}"


def common_passes(stage: str, options: Options, target: str = DEFAULT_TARGET) -> list[str]:
    """The passes that lead to one of `COMMON_STAGES` from the one before it, in pipeline syntax: the same for all
    targets, but for how large the blocks of factorizations are, and which libraries take them whole."""
    libraries = f" libraries={','.join(options.libraries)}" if options.libraries else ""
    return {
        "hlo": [*(["cse{stablehlo}"] if options.opt_level > 0 else []), "legalize-quantized", "legalize-to-hlo"],
        "stablehlo": ["inline", "symbol-dce", "infer-symbolic-shapes"],
        "optimized": [
            "cse",
            LOCAL_RULES,
            "simplify-loops",
            "unroll-loops",
            "licm",
            "batch-products",
            "sink-products",
            "recompute-stacks",
            "skew-loops",
            "gather-sparse-products",
            f"block-factorizations{{target={target}{libraries}}}",
            LOCAL_RULES,
            "move-short-reductions",  # once nothing is kept any more that loops do not need
            "canonicalize-convolution",
            "cse",
            "dce",
        ]
        if options.opt_level > 0
        else [],
    }[stage]


def stage_passes(stage: str, options: Options, backend: Backend) -> Sequence[str]:
    """The passes that lead to a stage from the one before it, in pipeline syntax."""
    return common_passes(stage, options, backend.name) if stage in COMMON_STAGES else backend.pipeline(stage, options)


def module_stages(backend: Backend) -> tuple[str, ...]:
    """The stages whose text is a module, which is read back."""
    return (*COMMON_STAGES, *backend.module_stages)


def stage_pipeline(stage: str, options: Options, backend: Backend) -> Pipeline:
    """The pipeline of a stage, without the passes, and the rules of its passes, that options disable.

    Raises:
        OptionError: a disabled name is no pass and no rule, or a pass that cannot be left out.
    """
    passes = stage_passes(stage, options, backend)
    if not options.disable:
        return _pipeline(passes)
    _check_disabled(options, backend)
    steps = _pipeline([text for text in passes if pass_name(text) not in options.disable]).steps
    return Pipeline(tuple(_without(step, options.disable) for step in steps))


def toggles(opt_level: int = 1, target: str = DEFAULT_TARGET) -> dict[str, tuple[str, ...]]:
    """What `Options(disable=...)` may name: the passes in the order they first run, and the rules of each."""
    found: dict[str, dict[str, None]] = {}
    for step in _steps(Options(opt_level=opt_level), get_backend(target)):
        if _is_required(step):
            continue
        rules = [rule.name for rule in step.rules()] if isinstance(step, RulePass) else []
        already = step.disable if isinstance(step, RulePass) else ()
        found.setdefault(step_name(step), {}).update(dict.fromkeys(rule for rule in rules if rule not in already))
    return {name: tuple(rules) for name, rules in found.items()}


def switches(target: str = DEFAULT_TARGET) -> dict[str, tuple[str, ...]]:
    """What else it may name: the parts of required passes that can be left out."""
    found = {step_name(step): tuple(_switches(step)) for step in _steps(Options(), get_backend(target))}
    return {name: names for name, names in found.items() if names}


def _steps(options: Options, backend: Backend) -> tuple[Step, ...]:
    """Every step that leads to the last of the stages that are modules."""
    passes = [text for stage in module_stages(backend) for text in stage_passes(stage, options, backend)]
    return _pipeline(passes).steps


def _is_required(step: Step) -> bool:
    return not isinstance(step, str) and step.required


def _switches(step: Step) -> dict[str, str]:
    return {} if isinstance(step, str) else step.switches()


def _pipeline(passes: Sequence[str]) -> Pipeline:
    return _parsed(",".join(passes), revision()) if passes else Pipeline(())


@lru_cache(maxsize=256)
def _parsed(pipeline: str, revision_: int) -> Pipeline:
    """Parsing takes a millisecond a stage: once for all programs, as passes are immutable."""
    return Pipeline.parse(pipeline)


def pass_name(text: str) -> str:
    """The name of a pass in pipeline syntax, without its options."""
    return text.partition("{")[0]


def _rule_names(step: Step) -> dict[str, frozenset[str]]:
    """What a name may stand for in a step: a rule for itself, a table of rules for all of them."""
    if not isinstance(step, RulePass):
        return {}
    names = {rule.name: frozenset((rule.name,)) for rule in step.rules()}
    return names | {name: frozenset(rule.name for rule in table) for name, table in step.tables().items()}


def _without(step: Step, disabled: Collection[str]) -> Step:
    known = _rule_names(step)
    names = frozenset().union(*(known[name] for name in disabled if name in known))
    switched_off = {field: False for name, field in _switches(step).items() if name in disabled}
    if switched_off:
        step = replace(step, **switched_off)  # type: ignore[type-var]
    if isinstance(step, RulePass) and names:
        step = replace(step, disable=tuple(sorted(names.union(step.disable))))
    return step


@lru_cache(maxsize=4)
def _known_toggles(target: str, revision_: int) -> tuple[frozenset[str], frozenset[str]]:
    """The names of all passes and rules; those of them that are required."""
    steps = _steps(Options(opt_level=1), get_backend(target))
    known = frozenset(map(step_name, steps)).union(*({**_rule_names(step), **_switches(step)} for step in steps))
    return known, frozenset(step_name(step) for step in steps if _is_required(step))


def _check_disabled(options: Options, backend: Backend) -> None:
    known, required = _known_toggles(backend.name, revision())
    for name in options.disable:
        if name in required:
            raise OptionError(f"'{name}' cannot be disabled", remedy="nothing runs without it")
        if name not in known:
            raise OptionError(f"there is no pass or rule '{name}' to disable", remedy=near_miss(name, known))


def stages_between(start: str, stop: str, backend: Backend) -> list[str]:
    """The stages after `start` ("": a loaded module) up to `stop`; of the backend's own stages at most the last one,
    as none of them leads to another.

    Raises:
        OptionError: a stage does not exist, is text that is not read back, or `stop` comes before `start`.
    """
    modules = module_stages(backend)
    stages = (*modules, *backend.stages)
    for stage in (start, stop):
        if stage and stage not in stages:
            raise OptionError(f"there is no stage '{stage}'", remedy=f"stages: {', '.join(stages)}")
    if start in backend.stages:
        raise OptionError(
            f"the text of stage '{start}' is not read back", remedy=f"start from one of {', '.join(modules)}"
        )
    first = stages.index(start) + 1 if start else 0
    last = stages.index(stop)
    if last + 1 < first:
        raise OptionError(f"stage '{stop}' comes before '{start}'", remedy=f"stages: {', '.join(stages)}")
    own = [stop] if stop in backend.stages else []
    return [*modules[first : last + 1], *own]


@deferred()
def run_stages(
    module: ir.Module,
    start: str,
    stop: str,
    options: Options | None = None,
    *,
    instrumentation: Instrumentation | None = None,
    target: str = DEFAULT_TARGET,
) -> ir.Module | str:
    """Take a module that is at stage `start` (or not yet at any: "") to stage `stop`.

    Returns the module, or the text of one of the backend's own stages.

    Raises:
        OptionError: as `stages_between`.
    """
    options = options or Options()
    backend = get_backend(target)
    stages = stages_between(start, stop, backend)
    if not start:
        _declare(module, options)
    for stage in stages:
        if stage in backend.stages:
            return backend.lower(module, stage, options)
        stage_pipeline(stage, options, backend).run(module, instrumentation)
    return module


def _declare(module: ir.Module, options: Options) -> None:
    """Write into a module that is not yet at any stage what options say of it."""
    declare_windows(module, options.scatter_windows)
    declare_grid(module, options.num_replicas, options.num_partitions)


class Snapshots:
    """Stages of one compilation, kept for `Executable.stages`: as bytecode (0.2 us an op), or, where the module holds
    weights, as text without them (2 us an op, but no copy of the weights for every stage)."""

    def __init__(self) -> None:
        self.contents: dict[str, str | bytes] = {}
        self._heavy: bool | None = None

    def take(self, stage: str, module: ir.Module) -> None:
        """Keep the module as it is now."""
        if self._heavy is None:
            self._heavy = _constant_bytes(module) > HEAVY_CONSTANTS
        if self._heavy:
            text = module.operation.get_asm(binary=True, large_elements_limit=SHORT_CONSTANT, enable_debug_info=True)
            self.contents[stage] = bytes(text)
        else:
            self.contents[stage] = bytecode(module)


HEAVY_CONSTANTS = 1 << 20  # bytes of those that texts leave out
SHORT_CONSTANT = 64  # elements of those that they do not


def _stages_again(again: ReadAgain, backend: Backend, options: Options) -> StageContents:
    """The same, of a module that is read and taken to a stage anew when somebody asks for that."""
    stages = module_stages(backend)
    return StageContents(
        {
            stage: partial(_stage_again, before, stage, again, backend.name, options)
            for before, stage in pairwise(("", *stages))
        }
    )


@deferred()
def _stage_again(
    before: str, stage: str, again: ReadAgain, target: str, options: Options, stages: Mapping[str, str | bytes]
) -> bytes:
    with make_context() as context, ir.Location.unknown():
        module = ir.Module.parse(stages[before]) if before else again(context).module
        run_stages(module, before, stage, options, target=target)
        return bytecode(module)


def _constant_bytes(module: ir.Module) -> int:
    total = 0
    for function in module.body.operations:
        for region in function.regions:
            for block in region.blocks:
                for op in block.operations:
                    if op.operation.name.endswith(".constant") and is_tensor(op.operation.result):
                        size = int(tensor_bytes(op.operation.result))
                        short = num_elements(op.operation.result) <= SHORT_CONSTANT
                        splat = size > 1024 and 0 in constant_value(op).strides  # of which one element is stored
                        total += 0 if short or splat else size
    return total


def compile_module(
    module: ir.Module,
    backend: Backend,
    options: Options,
    again: ReadAgain | None = None,
    contents: Contents | None = None,
) -> CompiledProgram:
    """Compile a loaded, static module, of which that may be known. The module is consumed. If it can be read `again`,
    stages are not kept."""
    times: list[tuple[str, float]] = []
    snapshots = Snapshots()
    leaves = leaves_of(module)
    with module.context, ir.Location.unknown(), without_cyclic_gc():
        _run_module_stages(module, backend, options, times, None if again else snapshots, contents)
        progress.at("codegen")
        started = time.perf_counter()
        program = backend.compile(module, options)
        times.append(("codegen", time.perf_counter() - started))
    program.leaves = leaves
    kept = _stages_again(again, backend, options) if again else StageContents(snapshots.contents)
    program.stages = kept | program.stages
    listed = ", ".join(f"{stage} {1e3 * seconds:.0f}" for stage, seconds in times)
    program.report += f"\ncompile time, ms: {listed}"
    return program


@deferred()
def compile_library(module: ir.Module, backend: Backend, options: Options, interface: Interface) -> Library:
    """A loaded module, static or not, as a library. The module is consumed."""
    leaves = leaves_of(module)
    with module.context, ir.Location.unknown():
        _run_module_stages(module, backend, options, [])
        progress.at("codegen")
        library = backend.library(module, options, interface)
    library.program.leaves = leaves
    return library


def _run_module_stages(
    module: ir.Module,
    backend: Backend,
    options: Options,
    times: list[tuple[str, float]],
    snapshots: Snapshots | None = None,
    contents: Contents | None = None,
) -> None:
    """Take a loaded module to the last stage that is a module, and note how long each took, in seconds."""
    instrumentation = Instrumentation(keep_input=False, verify_each=options.verify)
    _declare(module, options)
    known = Known(module, contents)
    for stage in module_stages(backend):
        progress.at(stage)
        started = time.perf_counter()
        stage_pipeline(stage, options, backend).run(module, instrumentation, known)
        if snapshots is not None:
            snapshots.take(stage, module)
        times.append((stage, time.perf_counter() - started))


def cache_entry(content: bytes, backend: Backend, options: Options, variant: str = "") -> CacheEntry | None:
    """Where the cache keeps the program of a source with that content, None where options name no cache; `variant`
    tells programs of one source apart (entry, shapes).

    Raises:
        ResourceError: the cache's path is not that of a directory.
    """
    directory = options.cache_directory
    if directory is None:
        return None
    return CacheEntry(directory, key_of(content, backend.name, backend.describe(options), variant, options.key))


@deferred()
def compile_cached(
    module: ir.Module,
    backend: Backend,
    options: Options,
    entry: CacheEntry | None = None,
    again: ReadAgain | None = None,
    contents: Contents | None = None,
) -> CompiledProgram:
    """Compile a static module, store it in its entry of the cache, and dump its stages where options say so. `again`
    reads it anew."""
    dump = dump_directory(options)
    # What is written to a file is written with all stages.
    program = compile_module(module, backend, options, None if entry or dump else again, contents)
    if entry is not None:
        entry.write(artifact.serialize(program, entry.key))
    dump_stages(program, dump)
    return program


def load_cached(entry: CacheEntry | None, options: Options) -> CompiledProgram | None:
    """The program in an entry of the cache, or None; one that is damaged counts as absent, with a `CacheWarning`."""
    content = None if entry is None else entry.read()
    if entry is None or content is None:
        return None
    try:
        program = artifact.deserialize(content, str(entry.path), entry.key)
    except LoadError as error:
        entry.refuse(error.reason)
        return None
    dump_stages(program, dump_directory(options))
    return program


def dump_directory(options: Options) -> Path | None:
    """The directory for stage texts, made and checked before any work is done."""
    if options.dump_dir is None:
        return None
    return writable_directory(options.dump_dir, "dump")


def suffix_of(stage: str, backend: Backend) -> str:
    """How the name of a file with a stage's text ends."""
    return backend.stages.get(stage, "mlir")


def dump_stages(program: CompiledProgram, directory: Path | None) -> None:
    """Write the text of every stage, numbered in order."""
    if directory is None:
        return
    backend = get_backend(program.backend)
    for number, (name, text) in enumerate(stage_texts(program).items()):
        write_whole(directory / f"{number}-{name}.{suffix_of(name, backend)}", text)
