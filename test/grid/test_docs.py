"""docs/collectives.md does what it says."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "collectives.md"


def test_the_examples_run() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert examples
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
