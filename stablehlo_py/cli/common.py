"""What the command-line tools share: how they end, how they read a module, how they write a result."""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

# Nothing here imports the MLIR wheel, which takes 0.1 s: --help does without.
from stablehlo_py.cli.version import VersionAction
from stablehlo_py.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERNAL,
    EXIT_OK,
    CacheWarning,
    OptionError,
    ResourceError,
    ShloError,
)
from stablehlo_py.files import write_whole
from stablehlo_py.frontend.isolate import the_worker
from stablehlo_py.options import CPUS, GENERATORS, GPUS, LIBRARIES, OTHER_CPUS, Options
from stablehlo_py.processes import Ended, ending_in_order
from stablehlo_py.targets import DEFAULT_TARGET

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

EXIT_STATUS_HELP = (
    "exit status: 0 success, 1 a comparison or check failed, 2 wrong usage, 3 bad input, 4 unsupported program, "
    "5 a defect of this compiler, 128 + n ended by signal n"
)
_EXIT_BY_SIGNAL = 128  # and its number, as shells say it


def run_tool(
    make_parser: Callable[[], argparse.ArgumentParser],
    tool: Callable[[argparse.Namespace], int],
    argv: Sequence[str] | None = None,
    spelled: Callable[[str], str] = str,
) -> int:
    """Parse arguments, run a tool and return its exit status; errors go to stderr, without a traceback where they are
    the user's.

    `argv` defaults to the process's arguments: then the process is the tool's own. `spelled` rewrites an argument to
    the form that the parser knows. Wrong usage ends the process with status 2 (argparse).
    """
    program = "the tool"  # until its parser says its name
    try:
        _prepare_streams()
        parser = make_parser()
        program = parser.prog
        version = "print the versions of what is installed, and the CPU that code is generated for"
        parser.add_argument("--version", action=VersionAction, nargs=0, help=version)
        arguments = parser.parse_args([spelled(word) for word in (sys.argv[1:] if argv is None else argv)])
        the_worker().may_fork = argv is None
        with ending_in_order(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = tool(arguments)
            sys.stdout.flush()
        return status
    except Ended as end:
        return _EXIT_BY_SIGNAL + end.number
    except ShloError as error:
        print(error, file=sys.stderr)
        if error.exit_status == EXIT_INTERNAL and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        return error.exit_status
    except BrokenPipeError:
        _discard_stdout()  # the reader (head, less) has seen enough
        return EXIT_OK
    except KeyboardInterrupt:
        return _EXIT_BY_SIGNAL + signal.SIGINT
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _WRITE_FAILED:
            # Files have errors of their own (files.py): what is left is stdout, and temporary files.
            reason = f"an output cannot be written: {error.strerror}"
            remedy = f"make room where standard output goes, and in {tempfile.gettempdir()}"
            print(ResourceError(reason, remedy=remedy), file=sys.stderr)
            _discard_stdout()
            return EXIT_BAD_INPUT
        from stablehlo_py.boundary import as_shlo_error

        unexpected = as_shlo_error(error, f"{program} failed")
        if unexpected.exit_status == EXIT_INTERNAL:
            traceback.print_exc()
        print(unexpected, file=sys.stderr)
        return unexpected.exit_status


_python_shows = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Ours are for the user of the tool; those of other packages look as they do elsewhere."""
    if issubclass(category, CacheWarning):
        print(f"warning: {message}", file=sys.stderr)
    else:
        _python_shows(message, category, filename, lineno, file, line)


_WRITE_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _prepare_streams() -> None:
    """Standard streams that any text can be printed to: names of files may hold bytes that are no UTF-8. One that the
    caller has closed is opened the wrong way round: its use is an error, and no other file takes its number, and gets
    what is printed."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if mode == "r" else os.O_RDONLY)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """What is still in Python's buffer goes nowhere: the error must not be raised again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Target(argparse.Action):
    """`--target avx2`, the former spelling of `--cpu avx2`, is understood until the next release."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if values not in CPUS:
            namespace.target = values
            return
        print(f"warning: --target names the backend: write --cpu {values}", file=sys.stderr)
        namespace.cpu = values


def positive(text: str) -> int:
    """The number that an option gives. Raises ArgumentTypeError for what is less than 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


_ISOLATE = "read the module in a child process first, since a damaged or hostile one can crash MLIR (default: on)"
_INPUT = ".npy: the next input; .npz: the next ones, in the file's order (default: random inputs)"
_DIM = "size of the next symbolic dimension of random inputs (default: 4)"
_SEED = (
    "seed of random inputs, which suit what the model does with them: weights are scaled, indices inside, variances "
    "positive (docs/wrong-answers.md; default: %(default)s)"
)
_TOLERANCE = (
    "largest |a-b| / max(1, max|b|) of floats (default: 1e-4, or four times the type's precision, and beyond it as far "
    "as rounding alone moves a result)"
)
_LOAD_PASS = "make the passes of a Python file available; one with the name of a pass that ships takes its place"
_LIST: dict[str, Any] = {"action": "append", "default": []}  # may be given several times
_COUNT: dict[str, Any] = {"metavar": "N", "type": int}
#: What tools share, as the arguments of `add_argument`.
_OPTIONS: dict[str, dict[str, Any]] = {
    "module": {"help": "the model's file, or - for standard input"},
    "--entry": {"help": "function to run, when there is no @main and several public functions"},
    "--target": {
        "metavar": "BACKEND",
        "default": DEFAULT_TARGET,
        "action": _Target,
        "help": f"backend: {DEFAULT_TARGET}, or the name that an installed package brings (default: %(default)s)",
    },
    "--cpu": {
        "metavar": "CPU",
        "help": f"generate code for {', '.join(CPUS[:-1])} or {CPUS[-1]}; stages and object files also for "
        f"{len(OTHER_CPUS)} others (docs/cpu-targets.md; a wrong name lists them) (default: this CPU)",
    },
    "--gpu": {
        "metavar": "GPU",
        "help": f"generate code for {', '.join(GPUS[:-1])} or {GPUS[-1]} (default: the GPU of this machine)",
    },
    "--tf32": {"action": "store_true", "help": "products of f32 on GPUs may have operands of 11 bits (TF32)"},
    "--atomic-scatter": {
        "action": "store_true",
        "help": "scatters on GPUs may combine updates in any order: sums of floats vary in their last bits",
    },
    "--device": _COUNT | {"default": 0, "help": "run on this one of the backend's devices (default: %(default)s)"},
    "--graphs": {
        "action": argparse.BooleanOptionalAction,
        "default": True,
        "help": "ask a GPU for all kernels of a call in one go (default: on)",
    },
    "--autotune": {"action": "store_true", "help": "time kernels on the GPU of this machine, and take the fastest"},
    "--plans": {
        "metavar": "FILE",
        "help": "take the kernels that FILE says: the stage `plans` of a program for a GPU",
    },
    "--libraries": {
        "metavar": "NAME,...",
        "default": "",
        "help": f"libraries of the GPU's vendor ({', '.join(LIBRARIES)}) that programs use, if found (default: none)",
    },
    "--generators": {
        "metavar": "NAME,...",
        "default": "",
        "help": f"generators ({', '.join(GENERATORS)}) whose kernels are timed or named by plans too (default: none)",
    },
    "--threads": _COUNT | {"help": "threads that a call may use (default: all CPUs)"},
    "--replicas": _COUNT
    | {"dest": "num_replicas", "help": "replicas of the grid (default: what the module says, or 1)"},
    "--partitions": _COUNT
    | {"dest": "num_partitions", "help": "partitions of the process grid (default: as replicas)"},
    "--opt-level": {"type": int, "choices": (0, 1), "default": 1, "help": "0: only what lowering needs (default: 1)"},
    "--disable": {"metavar": "NAME,...", "default": "", "help": "passes and rules that are left out"},
    "--load-pass": _LIST | {"metavar": "FILE.py", "help": _LOAD_PASS},
    "--isolate": {"action": argparse.BooleanOptionalAction, "default": True, "help": _ISOLATE},
    "--input": _LIST | {"metavar": "FILE", "help": _INPUT},
    "--seed": {"type": int, "default": 0, "help": _SEED},
    "--dim": _LIST | {"metavar": "N", "type": positive, "help": _DIM},
    "--tolerance": {"type": float, "help": _TOLERANCE},
    "--timeout": {
        "metavar": "S",
        "type": float,
        "default": 120.0,
        "help": "seconds after which an engine counts as hanging (default: %(default)g)",
    },
}
# What code is generated for.
TARGET_OPTIONS = (
    *("--target", "--cpu", "--gpu", "--tf32", "--atomic-scatter", "--libraries", "--generators", "--autotune"),
    "--plans",
)
_OF_COMPILER = (
    *("threads", "opt_level", "cpu", "gpu", "tf32", "atomic_scatter", "libraries", "generators", "autotune", "plans"),
    *("device", "graphs", "isolate", "num_replicas", "num_partitions"),
)


def add_options(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Options that several tools take, for a parser or a group, with the same `changes` for each."""
    for name in names:
        parser.add_argument(name, **(_OPTIONS[name] | changes))


def refuse_compiler_options(arguments: argparse.Namespace) -> None:
    """Of an artifact, which is compiled already. Raises OptionError: it names those options of the compiler that are
    given."""
    given = []
    for name in (*TARGET_OPTIONS, "--entry", "--threads", "--replicas", "--partitions", "--graphs"):
        option = _OPTIONS[name]
        default = option.get("default", False if option.get("action") == "store_true" else None)
        field = option.get("dest", name.removeprefix("--").replace("-", "_"))
        if getattr(arguments, field, default) != default:
            given.append(f"--no-{field}" if default is True else name)
    if given:
        reason = f"an artifact is compiled already, and {', '.join(given)} cannot change it"
        raise OptionError(reason, remedy="run the module that it was made from")


def options_of(arguments: argparse.Namespace, **others: Any) -> Options:
    """What options of `add_options` ask of the compiler. Raises OptionError."""
    given = vars(arguments)
    said = {name: given[name] for name in _OF_COMPILER if name in given}
    said["disable"] = tuple(name for name in given.get("disable", "").split(",") if name)
    return Options(**(said | others))


@contextmanager
def status_line(title: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A function that shows on stderr what is being done now: a line that moves on a terminal, nothing elsewhere.

    The line, and the thread that moves it, begin with the first text.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    with ExitStack() as stack:
        task = progress.add_task(title, total=None)
        begin = cache(lambda: stack.enter_context(progress))

        def show(text: str) -> None:
            begin()
            if progress.tasks[0].description != f"{title}: {text}":
                progress.reset(task, total=None, description=f"{title}: {text}")

        yield show


def progress_bars(console: Console | None = None) -> Progress:
    """Bars, how many are done of how many, the time: on a terminal, as long as they are entered."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = console or Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def shown_progress(quiet: bool = False) -> Iterator[None]:
    """Show what the compilation inside is at."""
    from stablehlo_py.progress import listening

    with status_line("compiling", quiet) as show, listening(show):
        yield


def read_input(path: str) -> bytes:
    """The content of a file, or of stdin for "-". Raises ResourceError."""
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ResourceError(f"cannot read '{path}': {error.strerror}", remedy="check the path") from error


def write_output(path: str, content: str | bytes) -> None:
    """Write a result to a file, whole or not at all, or to stdout for "-". Raises ResourceError."""
    data = content.encode() if isinstance(content, str) else content
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    write_whole(path, data)
