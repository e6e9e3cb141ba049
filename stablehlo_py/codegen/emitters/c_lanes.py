"""Loops over lanes: operations on vectors that follow each other become the body of one loop, in which a value that
nothing else reads is a variable. C compilers make vector instructions of such loops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from stablehlo_py.codegen.emitters.c_lines import Line

_ARRAY = re.compile(r"\b([a-z]\d+)\[([^\[\]]*)\]")
_NAME = re.compile(r"\b[a-z]\d+\b")

Item = tuple[Line, str]  # with its text


@dataclass
class _Group:
    """Lines for each of some lanes, which are done lane after lane."""

    lanes: int
    before: list[str] = field(default_factory=list)  # what others compute meanwhile
    items: list[Item] = field(default_factory=list)
    written: set[str] = field(default_factory=set)  # arrays
    loaded: set[str] = field(default_factory=set)  # pointers
    stored: set[str] = field(default_factory=set)

    def takes(self, line: Line, text: str, apart: frozenset[str]) -> bool:
        """Whether lane after lane gives the same as line after line."""
        if line.lanes != self.lanes:
            return False
        if any(name in self.written and index != "l" for name, index in _ARRAY.findall(text)):
            return False
        if line.access is None:
            return True
        if not line.access.is_store:
            return not self.stored
        root = line.access.root
        return all(root != other and {root, other} <= apart for other in self.loaded | self.stored)

    def passes(self, line: Line, text: str) -> bool:
        """Whether a line may be done before all of them."""
        if line.lanes or not (text.startswith("const ") or line.declares) or not line.defines:
            return False
        if line.access is not None and self.stored:
            return False
        return not any(name in self.written for name in _NAME.findall(text))

    def add(self, line: Line, text: str) -> None:
        """Take a line in."""
        self.items.append((line, text))
        if line.defines:
            self.written.add(line.defines)
        if line.access is not None:
            (self.stored if line.access.is_store else self.loaded).add(line.access.root)

    def lines(self, reads: Counter[str]) -> list[str]:
        """The loop. `reads`: how often arrays are named, but for where they are defined."""
        own = Counter(name for _, text in self.items for name, index in _ARRAY.findall(text) if index == "l")
        defined = Counter(line.defines for line, _ in self.items if line.array)
        local = {name for name in defined if own[name] - defined[name] == reads[name]}
        arrays, body = [], []
        for line, text in self.items:
            if line.array and line.defines in local:
                text = f"const {line.array} {text}"
            elif line.array:
                arrays.append(f"{line.array} {line.defines}[{line.lanes}];")
            body.append(_ARRAY.sub(lambda found: found[1] if found[1] in local else found[0], text))
        return [*self.before, *arrays, f"for (int l = 0; l < {self.lanes}; l++) {{", *body, "}"]


def in_loops(items: Sequence[Item], apart: frozenset[str]) -> list[str]:
    """Lines with loops around those of lanes. Memory behind pointers of `apart` is reached by no other."""
    reads: Counter[str] = Counter()
    for line, text in items:
        reads.update(name for name in _NAME.findall(text))
        if line.array and line.lanes:
            reads[line.defines] -= 1
    result: list[str] = []
    group: _Group | None = None
    for line, text in items:
        if group is not None and group.takes(line, text, apart):
            group.add(line, text)
            continue
        if group is not None and group.passes(line, text):
            group.before.append(text)
            continue
        if group is not None:
            result += group.lines(reads)
            group = None
        if line.lanes:
            group = _Group(line.lanes)
            group.add(line, text)
        else:
            result.append(text)
    return result + (group.lines(reads) if group is not None else [])
