"""Self-checking modules: `check.expect_eq` and its like become comparisons of what the compiled module returns."""

from __future__ import annotations

import re

from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK
from stablehlo_py.options import Options

_CHECK = re.compile(rb"^[^/\n]*\bcheck\.(expect_|eq\b)", re.MULTILINE)


def has_checks(content: bytes) -> bool:
    """Whether a module is text that calls check.* functions, outside of comments. Bytecode and artifacts never do."""
    return bool(_CHECK.search(content)) and _is_text(content)


def _is_text(content: bytes) -> bool:
    from stablehlo_py.frontend.source import is_text

    return is_text(content)


def run_checks(name: str, content: bytes, target: str, options: Options) -> int:
    """Run every module of a file (parts between `// -----` lines) and print each check that fails. Returns the exit
    status.

    Raises:
        LoadError: a part is no self-checking module.
    """
    import stablehlo_py as shlo
    from stablehlo_py.suite import golden

    status = EXIT_OK
    parts = golden.pieces(content.decode())
    for number, text in enumerate(parts):
        case = golden.split(text, name, options.isolate)
        results = shlo.compile(case.module, target, options=options)(*case.arguments)
        findings = [golden.compare(check, result) for check, result in zip(case.checks, results, strict=True)]
        label = f"{name}#{number}" if len(parts) > 1 else name
        for check_number, finding in enumerate(findings):
            if finding:
                print(f"{label}: check {check_number} failed: {finding}")
                status = EXIT_MISMATCH
        if not any(findings):
            print(f"{label}: {len(findings)} check{'s' if len(findings) != 1 else ''} passed")
    return status
