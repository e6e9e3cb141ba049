"""Words of our own do not come back: the field has terms for these."""

from __future__ import annotations

import re
import subprocess
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
LEFT_OUT = (":!CHANGELOG.md", ":!test/debug/fuzz.jsonl", ":!test/docs/test_words.py")


def test_words_of_our_own_are_replaced() -> None:
    command = ["git", "grep", "-I", "-n", "-i", "-P", "|".join(WORDS), "--", *LEFT_OUT]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1, found.stdout + found.stderr


def test_the_list_finds_what_it_is_for() -> None:
    said = "the second road, mended, the yardstick, it stands alone, made it small, a finding is none"
    assert len(re.findall("|".join(WORDS), said)) == 6
