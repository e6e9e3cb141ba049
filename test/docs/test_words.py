"""Words of our own do not come back: the field has terms for these."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What was said, and what is said instead. `test/debug/fuzz.jsonl` is a record, CHANGELOG.md a history.
WORDS = {
    r"roads? (that were|not taken|was taken|to it)|general roads?|(same|other|second) road": "alternatives, path, way",
    r"\bmended\b": "fixed",
    r"yardstick": "baseline",
    r"stands? alone|standing alone": "disagrees with both",
    r"(made|makes?|making) (it|a finding|findings|a module) small": "reduced",
    r"\b(?<!\.)(finding|difference) is none\b": "false positive",
    r"no evaluation on constants": "cannot be interpreted",
}
# Names that the product had for what the field has names for (docs/glossary.md): there, and in its pages.
NAMES = {
    r"\btypical_order\b|\bTYPICAL\b|\btypical (sizes?|values?|numbers?)\b": "size hint",
    r"\bsettle_rows\b|\bmerge_siblings\b|\bmerge_followers\b|fusing.{1,20}\bPlacement\b": "multi-output fusion",
    r"\bpart_to_give_back\b|\bgiv(e|es|en|ing) back (a part|the part)\b|fusing[./]trimming": "epilogue splitting",
    r"hlo\.whole\b(?!_)": "hlo.replicated",
    r"[\"'`]tiny(_loop)?[\"'`]|\btiny[-_ ](fusions?|loops?|kernels?)\b|\bTinyLimits\b": "straight-line fusion",
    r"hlo\.fusion = .update.|`update` (fusion|kind)|\bkind `update`": "in-place update",
    r"\bclass (Probe|Position)\b": "dry run, delinearized index",
    r"\bneutral\b": "identity",
    r"`Size`|\bclass Size\b|hlo\.size\b|dialect\.size\b": "SymInt, hlo.const_size",
    r"\b[sS]ymbolize\b|\bUndecidedSize\b": "infer-symbolic-shapes, GuardError",
    r"\bopen[-_ ](sizes?|dimensions?)\b|\bsizes? (left )?open\b": "dynamic size",
    r"\bconfined?\b|\bclose_(over|region|captures)\b": "clamped, closure conversion",
}
PRODUCT = (
    "stablehlo_py",
    "passes",
    "backends",
    "docs",
    "README.md",
    "tools",
    ":!docs/glossary.md",
    ":!docs/fuzzing.md",
)
LEFT_OUT = (":!CHANGELOG.md", ":!test/debug/fuzz.jsonl", ":!test/docs/test_words.py")


def found(words: Iterable[str], *options: str, paths: Sequence[str]) -> str:
    """The lines of these paths that say one of the words."""
    command = ["git", "grep", "-I", "-n", *options, "-P", "|".join(words), "--", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_words_of_our_own_are_replaced() -> None:
    assert found(WORDS, "-i", paths=LEFT_OUT) == ""


def test_names_that_were_replaced_stay_away() -> None:
    assert found(NAMES, paths=PRODUCT) == ""


def test_the_list_finds_what_it_is_for() -> None:
    said = "the second road, mended, the yardstick, it stands alone, made it small, a finding is none"
    assert len(re.findall("|".join(WORDS), said)) == 6
    said = """typical_order settle_rows part_to_give_back hlo.whole "tiny" tiny_loop `update` fusion
    class Probe: neutral confined symbolize open_size"""
    assert len(re.findall("|".join(NAMES), said)) == 12
