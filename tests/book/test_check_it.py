"""The page of claims to check prints what it says, when its blocks are run as a reader would."""

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "book" / "check_it.md"


def failures(text: str, names: dict[str, object]) -> str:
    """Run examples as at a prompt, and return what a report says of those that print otherwise."""
    report: list[str] = []
    examples = doctest.DocTestParser().get_doctest(text, names, PAGE.name, None, 0)
    doctest.DocTestRunner().run(examples, out=report.append)
    return "".join(report)


def test_every_block_needs_the_first_one_alone_and_prints_what_stands_below_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    blocks = [part.split("```")[0] for part in text.split("```pycon\n")[1:]]
    assert len(blocks) > 5
    assert [report for block in blocks if (report := failures(block, names))] == []


def test_a_wrong_number_is_found() -> None:
    assert "Expected:\n    3\nGot:\n    2" in failures(">>> print(1 + 1)\n3\n", {})
