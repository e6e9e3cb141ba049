"""`shlo-fuzz`: random programs, run three ways, and damaged modules, which must be refused."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stablehlo_py.cli import debugging
from stablehlo_py.cli.common import EXIT_STATUS_HELP, add_options, progress_bars, run_tool
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK, OptionError

if TYPE_CHECKING:
    from stablehlo_py.debug.fuzz import Outcome
    from stablehlo_py.debug.journal import Journal

_DESCRIPTION = """Run random StableHLO programs and compare with StableHLO's reference interpreter and with JAX.

Every seed is one program, over all families of ops and types, compiled with a random part of the passes and rules left
out. What may differ is worked out for every program by disturbing its roundings. A finding is a crash, an error that
does not say "unsupported", or a difference from every oracle that can run the program; it is reduced at once.

With --damage the programs are modules of a folder of .mlir files, changed at random, as text or as bytecode. They may
be compiled or refused with an error; a finding is a process that ends or hangs, or any other exception."""

_EPILOG = f"""examples:
  shlo-fuzz --seconds 60                          as many programs as a minute holds
  shlo-fuzz --seed 4711 --count 1 --print         this program, whole
  shlo-fuzz --journal fuzz.jsonl --count 10000    goes on where the journal ends
  shlo-fuzz --journal fuzz.jsonl --summary docs/fuzzing.md
  shlo-fuzz --journal fuzz.jsonl --explain 4711 "why this is a false positive"
  shlo-fuzz --coverage 2000                       which ops and types these programs hold
  shlo-fuzz --damage bytecode --corpus stablehlo/tests --findings out/ --journal damaged-bytecode.jsonl --count 10000

{EXIT_STATUS_HELP} (1: there are findings without an explanation, or ops that no program holds)"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `shlo-fuzz`."""
    parser = debugging.tool_parser("shlo-fuzz", _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("--seed", type=int, metavar="N", help="the first seed (default: 0, or where the journal ends)")
    add("--count", type=int, metavar="N", help="programs to run (default: 1000, without limit with --seconds)")
    add("--seconds", type=float, metavar="S", help="stop after this time")
    add("--journal", type=Path, metavar="FILE", help="record of the campaign, read and continued")
    every = "let JAX run every N-th program that the interpreter runs too; 0: only where needed (default: 1)"
    add("--jax-every", type=int, default=1, metavar="N", help=every)
    every = "let the target linalg run every N-th program too; 0: none (default: 0)"
    add("--linalg-every", type=int, default=0, metavar="N", help=every)
    add("--reduce-seconds", type=float, default=20.0, metavar="S", help="time to reduce a finding (default: 20)")
    add_options(parser, "--timeout", default=60.0)
    add_options(parser, "--load-pass", "--target", "--cpu")
    add("--print", dest="show", action="store_true", help="print every program and what became of it")
    group = parser.add_argument_group("damaged modules instead of random programs")
    damage = "text or bytecode, changed at random; none: each module of the corpus as it is"
    group.add_argument("--damage", choices=("text", "bytecode", "none"), help=damage)
    group.add_argument("--corpus", type=Path, metavar="FOLDER", help="where the modules are, as .mlir files")
    findings = "write the inputs of findings here"
    group.add_argument("--findings", type=Path, metavar="FOLDER", help=findings)
    group = parser.add_argument_group("the journal instead of programs")
    page = "write the page of the journal, and the journal as short as it can be"
    group.add_argument("--summary", type=Path, metavar="FILE.md", help=page)
    why = (
        "record why a finding is a false positive, or what became of it; GENERATOR:SEED for one of an earlier generator"
    )
    group.add_argument("--explain", nargs=2, metavar=("SEED", "TEXT"), help=why)
    group.add_argument("--coverage", type=int, metavar="N", help="print which ops and types N programs hold")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from stablehlo_py.debug.journal import Journal

    if arguments.coverage:
        return _coverage(range(arguments.seed or 0, (arguments.seed or 0) + arguments.coverage))
    if arguments.damage:
        return _damage(arguments)
    journal = Journal(arguments.journal)
    if arguments.summary or arguments.explain:
        if arguments.journal is None:
            raise OptionError("--summary and --explain are about a journal", remedy="add --journal FILE")
        return _about(arguments, journal)
    from stablehlo_py.debug.fuzz import Fuzzer
    from stablehlo_py.debug.generate import Program, generate
    from stablehlo_py.debug.workers import Workers

    def text(seed: int) -> str:
        program: Program = generate(seed)
        return f"opt_level={program.options.opt_level} cpu={program.options.cpu}\n{program.case.module}"

    with Workers(arguments.timeout) as workers:
        files = tuple(arguments.load_pass)
        target, cpu = arguments.target, arguments.cpu
        fuzzer = Fuzzer(workers, arguments.jax_every, arguments.reduce_seconds, files, target, cpu)
        fuzzer.linalg_every = arguments.linalg_every
        return campaign(arguments, fuzzer.run, journal, text)


def _damage(arguments: argparse.Namespace) -> int:
    from stablehlo_py.debug import mutations
    from stablehlo_py.debug.hostile import HANG_S, HostileFuzzer
    from stablehlo_py.debug.journal import Journal
    from stablehlo_py.debug.workers import Worker

    if arguments.corpus is None:
        raise OptionError("--damage changes modules, and none are named", remedy="add --corpus FOLDER")
    corpus = mutations.Corpus.of(arguments.corpus)
    if arguments.damage == "none":
        arguments.count = min(arguments.count or sys.maxsize, len(corpus.modules))
    with Worker("compiler", HANG_S) as worker:
        fuzzer = HostileFuzzer(corpus, arguments.damage, worker, arguments.findings)
        journal = Journal(arguments.journal, mutations.VERSION)
        return campaign(arguments, fuzzer.run, journal, lambda seed: repr(corpus.damaged(arguments.damage, seed)))


def _about(arguments: argparse.Namespace, journal: Journal) -> int:
    from stablehlo_py.debug.fuzz_page import write_page
    from stablehlo_py.debug.generate import VERSION

    if arguments.explain:
        named, text = arguments.explain
        generator, _, seed = named.rpartition(":")
        if not seed.isdigit() or not (generator.isdigit() or generator == ""):
            raise OptionError(f"'{named}' is no seed", remedy="--explain SEED TEXT")
        journal.explain((int(generator or VERSION), int(seed)), text)
    summary = journal.read()
    if arguments.summary:
        write_page(arguments.summary, summary)
        journal.compact()
    return EXIT_MISMATCH if summary.unexplained else EXIT_OK


def _coverage(seeds: range) -> int:
    from stablehlo_py.debug.generate.coverage import NOT_DRAWN, coverage, missing, table

    found = coverage(seeds)
    print(table(found))
    for name, reason in NOT_DRAWN.items():
        print(f"not drawn: {name} ({reason})")
    if missing(found):
        print(f"in none of these programs: {', '.join(missing(found))}")
    return EXIT_MISMATCH if missing(found) else EXIT_OK


def campaign(
    arguments: argparse.Namespace,
    run: Callable[[range], Iterator[Outcome]],
    journal: Journal,
    program: Callable[[int], str],
) -> int:
    """Run seeds, show and record what becomes of them; `program` is the text of one."""
    seed = journal.read().following if arguments.seed is None else arguments.seed
    count = arguments.count if arguments.count is not None else sys.maxsize if arguments.seconds else 1000
    seeds = range(seed, seed + count)
    counts: Counter[str] = Counter()
    started = time.monotonic()
    with progress_bars() as progress:
        total = len(seeds) if len(seeds) < sys.maxsize // 2 else None
        task = progress.add_task("programs", total=total)
        try:
            for outcome in run(seeds):
                counts[outcome.status] += 1
                journal.add(outcome)
                if outcome.is_finding or arguments.show:
                    _print(outcome, program(outcome.seed) if arguments.show else "")
                progress.update(task, advance=1, description=f"seed {outcome.seed}")
                if arguments.seconds and time.monotonic() - started > arguments.seconds:
                    break
        finally:
            journal.checkpoint()
    seconds = time.monotonic() - started
    listed = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    print(f"{counts.total()} programs from seed {seeds.start}: {listed}; {1e3 * seconds / counts.total():.0f} ms each")
    return EXIT_MISMATCH if any(status in counts for status in ("crash", "error", "difference")) else EXIT_OK


def _print(outcome: Outcome, program: str) -> None:
    print(f"seed {outcome.seed}: {outcome.status}{': ' if outcome.detail else ''}{outcome.detail}")
    if program:
        print(program)
    if outcome.disable:
        print(f"disable={outcome.disable!r}")
    if outcome.reduced:
        print(outcome.reduced)


main = partial(run_tool, build_parser, _run)


if __name__ == "__main__":
    sys.exit(main())
