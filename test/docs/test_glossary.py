"""The glossary is in order, and names what the code and the pages speak of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/glossary.md"


def entries() -> list[tuple[str, str, str]]:
    """The rows of the table: term, what others call it, what it is."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", (ROOT / PAGE).read_text(), re.MULTILINE)
    return [row for row in rows if row[0] != "term"]


def test_terms_are_in_order() -> None:
    terms = [term for term, _, _ in entries()]
    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.lower)


def test_every_term_is_explained() -> None:
    assert [row for row in entries() if not row[2].endswith(".") or len(row[2]) < 30] == []


def test_every_term_is_used() -> None:
    """In the code of the product, or on another page."""
    names = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [name for name in names.stdout.split() if not name.startswith("test/") and name != PAGE]
    text = re.sub(r"[\s_-]+", " ", " ".join((ROOT / name).read_text() for name in files if (ROOT / name).is_file()))
    unused = [
        term
        for term, _, _ in entries()
        for word in term.split(", ")
        if not re.search(rf"\b{re.sub('[ -]', ' ', word)}s?\b", text, re.IGNORECASE)
    ]
    assert unused == []
