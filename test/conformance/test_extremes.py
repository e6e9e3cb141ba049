"""A short run of the extremes, and what the tool makes of what it sees."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import extreme_cases

TOOL = Path(__file__).with_name("run_extremes.py")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *options], capture_output=True, text=True, timeout=600)


def test_every_integer_of_a_text_is_replaced():
    text = '%0 = "a"(%x1) {n = 2 : i64, l = array<i64: 3>, f = 1.5} : (tensor<?x4xf32>) -> tensor<4x!t>'
    program = extreme_cases.Program("p", text, ())
    texts = [case.text for case in extreme_cases.cases(program)]
    for old, new in (("n = 2", "n = -1"), ("i64: 3", "i64: -1"), ("?x4xf32", "?x-1xf32"), ("4x!t", "-1x!t")):
        assert text.replace(old, new) in texts
    assert text.replace("4x", "-1x") in texts  # a size, everywhere
    assert text.replace("4x", "?x") in texts
    assert all("1.5" in each and "%x1" in each and "f32" in each for each in texts)


def test_every_integer_argument_is_tried():
    program = extreme_cases.Program("p", "", (np.array([5, 6, 7], np.int8), np.ones(2, np.float32)))
    tried = {case.what: case.inputs[0].tolist() for case in extreme_cases.cases(program)}
    assert tried["argument 0 is -128"] == [-128, -128, -128]
    assert tried["argument 0[2] is 127"] == [5, 6, 127]
    assert len(tried) == 3 * len((-128, -1, 0, 1, 127))


def test_arguments_of_calls_at_their_extremes_are_refused_or_right():
    """Of the programs whose sizes a call brings along."""
    done = run("--filter", "dynamic *: argument*", "--every", "19")
    assert done.returncode == 0, done.stdout + done.stderr


def test_integers_of_texts_at_their_extremes_are_refused_or_right():
    """Of the ops that read and write places; the campaign is for all."""
    done = run("--filter", "indexing*: integer*", "--every", "67")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_campaign_goes_on_where_it_was(tmp_path):
    journal, name = tmp_path / "journal.jsonl", "dynamic cube: integer 0 (0) is -1"
    journal.write_text(json.dumps({"name": name, "status": "crash", "detail": "as it was"}) + "\n")
    known = run("--filter", name, "--journal", str(journal))
    assert (known.returncode, known.stdout.splitlines()[0]) == (1, f"crash: {name}: as it was")
    assert run("--filter", name, "--journal", str(journal), "--again", "crash").returncode == 0
    assert json.loads(journal.read_text())["status"] == "refused"
