"""docs/fuzzing.md: what all campaigns together have shown, written from the journal."""

from __future__ import annotations

from pathlib import Path

from stablehlo_py.debug.journal import Campaign, Summary
from stablehlo_py.errors import LoadError
from stablehlo_py.files import write_whole
from stablehlo_py.markdown import table

_HEAD = """# Random programs

`shlo-fuzz` draws StableHLO programs over all families of ops and types, compiles each with a random part of the passes
and rules left out, and compares with the reference interpreter, which NumPy helps with ops that it does not know
(`stablehlo_py/debug/numpy_ops.py`), and with JAX: every N-th program (`--jax-every N`), and those for which the
interpreter gives another answer or none. What rounding may change is worked out for every program
(`stablehlo_py/debug/rounding.py`). `shlo-fuzz --coverage 2000` prints which ops and types the generator draws.

All campaigns are in one journal, which the next one goes on from:

<!-- test: instead, because a campaign takes hours
shlo-fuzz --journal fuzz.jsonl --jax-every 25 --count 1
shlo-fuzz --journal fuzz.jsonl --summary fuzzing.md
-->
```sh
shlo-fuzz --journal test/debug/fuzz.jsonl --jax-every 25 --count 10000
shlo-fuzz --journal test/debug/fuzz.jsonl --explain SEED "fixed: ..."
shlo-fuzz --journal test/debug/fuzz.jsonl --summary docs/fuzzing.md
```

The last one writes this page, and makes the journal short. *Unsupported* programs hold something that this compiler
refuses with an error that says so; *oracle alone* are those where one oracle disagrees with both us and the other; *no
oracle* could run the rest. Findings are crashes, other errors, and differences from every oracle. A seed means another
program to another generator.

Modules that are damaged are another campaign, with a journal of its own. `--damage text` and `--damage bytecode` change
the modules of a folder of `.mlir` files at random, `--damage none` takes each as it is. They may be compiled or
refused. A process that ends or does not answer within 5 s, an internal error and any other exception are findings:

<!-- test: instead, because a campaign takes hours
printf 'func.func @main() { return }' > corpus.mlir
shlo-fuzz --damage text --corpus . --count 1
-->
```sh
shlo-fuzz --damage text --corpus FOLDER --findings OUT --journal test/debug/damaged-text.jsonl --count 10000
```

Programs that are almost right get past the reader and meet the rest of the compiler. `run_forms.py` takes a valid
program of some op, of a composite or of a call that is known by name, and changes one to three things of its generic
form: types, shapes, attributes, operands, results, regions, the op itself. What is compiled is called with random
arguments, too:

<!-- test: instead, because a campaign takes hours
python "$ROOT/test/conformance/run_forms.py" --count 1
-->
```sh
python test/conformance/run_forms.py --findings OUT --journal test/debug/forms.jsonl --count 5000
```

"""
_COUNTED = ("same", "unsupported", "oracle alone", "no oracle")
_COLUMNS = ("generator", "seeds", "date", "programs", *_COUNTED, "findings", "unexplained")


def write_page(path: Path, summary: Summary) -> None:
    """Write the page.

    Raises:
        LoadError: the journal is empty. ResourceError: the page cannot be written.
    """
    if not summary.campaigns:
        raise LoadError("the journal holds no programs", remedy="run some first: shlo-fuzz --journal FILE --count 1000")
    lines = [table(_COLUMNS, [_row(summary, campaign) for campaign in summary.campaigns])]
    lines += [f"Programs in all: {summary.programs:,}.", "", "## Findings", ""]
    for key, finding in sorted(summary.findings.items()):
        why = summary.explanations.get(key, "not explained yet")
        lines.append(f"- generator {key[0]}, seed {key[1]}: {finding['status']}: {why}")
    if not summary.findings:
        lines.append("None.")
    if summary.others:
        lines += ["", "## Not compared, or not with every oracle", ""]
        rows = [(*key, *value) for key, value in sorted(summary.others.items())]
        lines.append(table(("generator", "outcome", "reason", "programs", "seed of one"), rows).rstrip())
    write_whole(path, _HEAD + "\n".join(lines) + "\n")


def _row(summary: Summary, campaign: Campaign) -> list[object]:
    def mine(keys: list[tuple[int, int]]) -> int:
        seeds = range(campaign.first, campaign.following)
        return sum(version == campaign.version and seed in seeds for version, seed in keys)

    counts = campaign.counts
    numbers = [counts[status] for status in _COUNTED]
    cells = [campaign.version, f"{campaign.first}-{campaign.following - 1}", campaign.date, counts.total(), *numbers]
    return [*cells, mine(list(summary.findings)), mine(summary.unexplained)]
