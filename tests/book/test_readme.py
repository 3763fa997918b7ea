"""What the README shows is what runs."""

import contextlib
import io
import re
from pathlib import Path

import nbformat
import notebooks
import pytest

from dpbai.field import cli

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readmes_code_runs_and_prints_the_values_of_its_comments() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    promised = re.findall(r"^print.*# .*: (.+)$", code, re.MULTILINE)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert len(promised) >= 2
    assert [value for value in promised if value not in printed.getvalue().splitlines()] == []


@pytest.mark.parametrize(("chapter", "name"), notebooks.PICTURES)
def test_a_picture_of_the_readme_is_the_one_that_its_chapter_stores(
    chapter: str, name: str
) -> None:
    copy = notebooks.PICTURES[chapter, name]
    stored = nbformat.read(ROOT / f"book/{chapter}.ipynb", as_version=4)
    assert f"]({copy.relative_to(ROOT).as_posix()})" in README
    drawn = copy.read_text(encoding="utf-8")
    assert drawn == notebooks.on_white(notebooks.figure(stored, name))
    assert re.search(r"<path.*?/>", drawn)[0].endswith('z " style="fill: #ffffff"/>')


@pytest.mark.parametrize("page", ["README.md", "book/*.ipynb", "book/*.md"])
def test_commands_that_a_text_names_exist(page: str) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob(page))
    named = set(re.findall(r"`dpbai ([a-z][a-z-]*)", text))
    assert named <= set(re.findall(r"^    ([a-z][a-z-]+)\b", cli.parser().format_help(), re.M))


def test_what_the_readme_names_exists() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    for row in re.findall(r"^\| (`.*?) \|", README, re.MULTILINE):
        for place in re.findall(r"`([^`]+)`", row):
            assert (ROOT / place).exists(), place
