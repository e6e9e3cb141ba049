"""What README.md, CONTRIBUTING.md, SECURITY.md and docs/ show, taken apart and run: every fenced block is a snippet.

- `python` runs, in order and in one namespace for each page. `expression  # => value` is compared.
- `sh` is commands, one a line; a tool of ours runs in this process. The folder that they run in is the page's own, and
  begins with the files of test/docs/files.
- `text` behind a snippet is what it prints, with `...` for what differs from run to run.
- `mlir` parses, as shlo-opt parses it. `c` and `cpp` are files that later snippets compile.

A comment on the line before the fence says what else is to be done, and the reader of the page does not see it:

    <!-- test: first                      Python that runs before the snippet, in the page's namespace
    <!-- test: instead, because REASON    what runs in place of the snippet, in its language
    <!-- test: instead STATUS, because    the same, with the status that the last command ends with
    <!-- test: prints                     Python that prints the text below, where no snippet of the page does
    <!-- test: raises                     Python that raises the error below
    <!-- test: exits STATUS -->           as above, of the snippet itself
    <!-- test: saves FILE -->             the snippet is a file for those that follow
    <!-- test: quotes FILE -->            its lines stand in that file of the repository
    <!-- test: not run, because REASON -->
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
LANGUAGES = ("python", "sh", "text", "mlir", "c", "cpp")

_FENCE = re.compile(
    r"(?:^ *<!-- test: (?P<verb>first|instead|prints|raises|exits|saves|quotes|not run)(?: (?P<word>[\w./-]+))?"
    r"(?:, because (?P<reason>(?:(?!-->)[^\n])*?))?(?:\n(?P<code>(?:(?!-->).)*?))? *-->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_TOOL = re.compile(r"shlo-([\w-]+)$")
_SHELL = re.compile(r"[|<>&;$*]")


@dataclass(frozen=True)
class Snippet:
    """A fenced block: where it is, its language and text, and what the comment before it says."""

    page: Path
    line: int
    language: str
    text: str
    verb: str = ""
    word: str = ""
    reason: str = ""
    code: str = ""

    @property
    def place(self) -> str:
        """Where it is, for a person."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets(page: Path) -> list[Snippet]:
    """The snippets of a page, in order."""
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        code = textwrap.dedent(match["code"] or "")
        line = text.count("\n", 0, match.start("text")) + 1
        block = textwrap.dedent(match["text"])
        said = (match[name] or "" for name in ("verb", "word", "reason"))
        found.append(Snippet(page, line, match["language"], block, *said, code))
    return found


def indented_blocks(page: Path) -> Iterator[int]:
    """Lines where code is set off by indentation, which nothing here would run."""
    before, fenced = "", False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("    ") and not before.strip():
            yield number
        before = line


Capture = Callable[[], Any]


@dataclass
class Page:
    """Runs the snippets of one page, in the folder that is current.

    Attributes:
        read_output: what was printed since it was called last, as pytest's `capfd.readouterr`.
        printed: by the snippet that ran last.
    """

    read_output: Capture
    printed: str = ""
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})

    def run(self, snippet: Snippet) -> None:
        """Run a snippet. Raises AssertionError, or what its code raises."""
        match snippet.verb:
            case "not run":
                pass
            case "prints" | "raises":
                self._expected(snippet)
            case "saves":
                Path(snippet.word).write_text(snippet.text)
            case "quotes":
                code = (ROOT / snippet.word).read_text()
                missing = [line for line in snippet.text.splitlines() if line.strip() not in code]
                assert not missing, f"{snippet.place}: {snippet.word} does not hold {missing}"
            case verb:
                if verb == "first":
                    self._python(snippet, snippet.code)
                self._run(snippet, snippet.code if verb == "instead" else snippet.text)

    def _run(self, snippet: Snippet, text: str) -> None:
        if snippet.language == "text":
            self._compare(snippet, self.printed)
        else:
            self.read_output()
            {"python": self._python, "sh": self._sh, "mlir": self._mlir}[snippet.language](snippet, text)
            self.printed = "".join(self.read_output())

    def _expected(self, snippet: Snippet) -> None:
        """The text is what the comment's code prints, or the error that it raises."""
        self.read_output()
        if snippet.verb == "prints":
            self._python(snippet, snippet.code)
            self._compare(snippet, "".join(self.read_output()))
            return
        try:
            self._python(snippet, snippet.code)
        except Exception as error:
            self._compare(snippet, str(error))
        else:
            raise AssertionError(f"{snippet.place}: nothing is raised")

    def _compare(self, snippet: Snippet, printed: str) -> None:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        wanted = f"{snippet.text.rstrip()}\n"
        same = doctest.OutputChecker().check_output(wanted, printed, flags)
        assert same, f"{snippet.place}: the page shows\n{wanted}\nand what is printed is\n{printed}"

    def _python(self, snippet: Snippet, text: str) -> None:
        """Statement by statement, as `# =>` behind one is about its value."""
        lines = text.splitlines()
        for node in ast.parse(text, snippet.place).body:
            shown = lines[(node.end_lineno or 0) - 1].partition("# => ")[2].strip()
            if shown:
                assert isinstance(node, ast.Expr), f"{snippet.place}: '# =>' is behind no expression"
                value = eval(compile(ast.Expression(node.value), snippet.place, "eval"), self.namespace)
                same = doctest.OutputChecker().check_output(f"{shown}\n", f"{value}\n", doctest.ELLIPSIS)
                assert same or shown == repr(value), f"{snippet.place}: {ast.unparse(node)} is {value}, not {shown}"
                continue
            exec(compile(ast.Module([node], []), snippet.place, "exec"), self.namespace)

    def _sh(self, snippet: Snippet, text: str) -> None:
        commands = [line for line in text.replace("\\\n", " ").splitlines() if shlex.split(line, comments=True)]
        statuses = [self._command(line) for line in commands]
        last = int(snippet.word) if snippet.verb in ("exits", "instead") and snippet.word else 0
        wanted = [0] * (len(statuses) - 1) + [last]
        assert statuses == wanted, f"{snippet.place}: exit statuses {statuses}\n{''.join(self.read_output())}"

    def _command(self, line: str) -> int:
        """The exit status of a command."""
        words = shlex.split(line, comments=True)
        tool = _TOOL.match(words[0])
        bare = shlex.split(re.sub(r"'[^']*'|\"[^\"]*\"", "", line), comments=True)
        if tool is None or any(_SHELL.search(word) for word in bare):
            environment = {**os.environ, "ROOT": str(ROOT)}
            done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True)
            print(done.stdout, done.stderr, sep="", end="")
            return done.returncode
        try:
            return importlib.import_module(f"stablehlo_py.cli.{tool[1].replace('-', '_')}").main(words[1:])
        except SystemExit as ended:
            return int(ended.code or 0)

    def _mlir(self, snippet: Snippet, text: str) -> None:
        from stablehlo_py.dialect.context import make_context
        from stablehlo_py.frontend.text import parse_text
        from stablehlo_py.mlir import ir

        parse_text(ir, text, snippet.place, make_context())
