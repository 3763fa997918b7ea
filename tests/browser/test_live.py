"""Chapters run in the browser without a network, and print their stored numbers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import notebooks
import page_checks
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import BrowserContext, JSHandle

import dpbai

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html" / "book"
CHAPTERS = [path.stem for path in notebooks.chapters()]
READY = "document.documentElement.dataset.live === 'ready'"
NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
PATIENCE = 900_000  # milliseconds: Python starts in ten seconds, or in minutes on a busy machine
RTOL = 2e-3  # other versions of SciPy end their searches elsewhere in the last printed digit
# Where many G-optimal designs are equally good, the last digit decides which one a policy pulls: in
# the browser it is another one, and some cells print what that leads to. Beta rewards are drawn by
# rejection, which last digits decide too.
LAST_DIGITS_DECIDE = {"dp_bai", "dp_od", "private_design", "beyond"}
NOT_HERE = "not-in-browser"  # the tag of a cell that starts processes or uses OpenDP
PLANE = "document.querySelector('.plane').planeOf"

COLLECT = """async (python, code) => {
  const outputs = [];
  const ok = await python.run(code, output => outputs.push(output));
  return [ok, outputs];
}"""


def text(outputs: list[Any]) -> str:
    """Return the text of outputs, without pictures."""
    parts = []
    for output in outputs:
        shown = output.get("data", {})
        if output["output_type"] == "stream":
            parts.append(output["text"])
        elif "text/html" in shown:
            parts.append(BeautifulSoup(shown["text/html"], "html.parser").get_text())
        elif "image/svg+xml" not in shown:
            parts.append(shown["text/plain"])
    return " ".join("".join(parts).split())


def close(one: str, other: str) -> bool:
    """Return whether two texts differ only in the last digits of numbers."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    numbers = [[float(part.replace(",", "")) for part in pair] for pair in pairs]
    return all(abs(x - y) <= RTOL * max(abs(x), abs(y)) for x, y in numbers)


def test_a_text_is_close_if_only_last_digits_differ() -> None:
    assert close("T = 1,200: 0.3333 of 3e-5", "T = 1,200: 0.3334 of 3.001e-05")
    assert not close("0.33", "0.34")
    assert not close("best arm 0", "best arm 1")
    assert not close("arm 0 wins", "arm 0 loses")


def visited(context: BrowserContext, chapter: str, state: str = "") -> Iterator[page_checks.Visit]:
    """Open a chapter; once its tests have run, nothing may have failed or left the machine."""
    visit = page_checks.Visit(context, HTML / f"{chapter}.html", state)
    visit.page.set_default_timeout(PATIENCE)
    yield visit
    assert visit.leaving() == []
    assert visit.errors == []
    visit.page.close()


def check_chapter(python: JSHandle, chapter: str) -> None:
    """Run the cells of a chapter, and compare what they print with what is stored."""
    python.evaluate(COLLECT, "%reset -f")
    notebook = nbformat.read(ROOT / "book" / f"{chapter}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    complete, other = True, []
    for number, cell in enumerate(cells, start=1):
        if NOT_HERE in cell.metadata.get("tags", []):
            complete = False  # later cells may print less without its results
            continue
        ok, outputs = python.evaluate(COLLECT, cell.source)
        assert ok, f"cell {number}: {outputs[-1]}"
        stored, fresh = text(cell.outputs), text(outputs)
        if complete and not close(stored, fresh):
            other.append(f"cell {number}: {stored} | {fresh}")
    assert len(other) <= (len(cells) // 3 if chapter in LAST_DIGITS_DECIDE else 0), other


# Python takes long to start and to import the libraries. Only two pages start it: one for the tests
# of a page that runs, one for those of the plane. Each of the two also runs half of the chapters.


@pytest.fixture(scope="class")
def running(context: BrowserContext) -> Iterator[page_checks.Visit]:
    for visit in visited(context, "problem"):
        visit.page.get_by_role("button", name="Run this page").click()
        visit.page.wait_for_function(READY)
        yield visit


@pytest.fixture(scope="class")
def plane(context: BrowserContext) -> Iterator[page_checks.Visit]:
    state = "arms=90,20+30,80+70,60+20,40+50,10+10,90+60,30+40,50&theta=60,35&T=100&epsilon=0.5"
    yield from visited(context, "max_det", f"#{state}")


@pytest.fixture(scope="class")
def python(plane: page_checks.Visit) -> JSHandle:
    plane.page.get_by_role("button", name="Start Python").click()
    plane.page.wait_for_function(f"{PLANE}.answer?.success")
    return plane.page.evaluate_handle(f"{PLANE}.python")


class TestPageThatRuns:
    @pytest.mark.parametrize("chapter", CHAPTERS[::2])
    def test_a_chapter_prints_its_stored_numbers(
        self, running: page_checks.Visit, chapter: str
    ) -> None:
        check_chapter(running.page.evaluate_handle("livePage.python"), chapter)

    def test_an_edit_changes_an_output_and_reset_brings_the_stored_one_back(
        self, running: page_checks.Visit
    ) -> None:
        cell = running.page.locator("article div.cell").first
        before = cell.locator(".cell_output").inner_text()
        editor = cell.get_by_role("textbox")
        editor.press("Control+End")
        editor.press_sequentially("\nprint(6 * 7)")
        editor.press("Shift+Enter")
        running.page.wait_for_function(READY)
        assert cell.locator(".cell_output").inner_text().split() == [*before.split(), "42"]
        cell.get_by_role("button", name="Reset").click()
        assert cell.locator(".cell_output").inner_text() == before
        editor.press("Control+End")
        editor.press_sequentially("\n1 / 0")
        editor.press("Shift+Enter")
        running.page.wait_for_function(READY)
        assert "ZeroDivisionError: division by zero" in cell.get_by_role("alert").inner_text()

    def test_stop_ends_an_endless_cell_and_python_starts_again(
        self, running: page_checks.Visit
    ) -> None:
        cell = running.page.locator("article div.cell").first
        cell.get_by_role("button", name="Reset").click()
        before = cell.locator(".cell_output").inner_text()
        editor = cell.get_by_role("textbox")
        editor.press("Control+a")
        editor.press_sequentially("while True: pass")
        editor.press("Shift+Enter")
        assert running.page.evaluate(READY) is False, "the page answers while Python is busy"
        running.page.get_by_role("button", name="Stop").click()
        running.page.wait_for_function(READY)
        cell.get_by_role("button", name="Reset").click()
        cell.get_by_role("button", name="Run").click()
        running.page.wait_for_function(READY)
        assert cell.locator(".cell_output").inner_text().split() == before.split()


class TestPlane:
    def test_the_pair_follows_an_arm_and_so_does_the_address(
        self, plane: page_checks.Visit
    ) -> None:
        shown = plane.page.locator(".plane")
        assert "arms 1 and 6, area 0.790" in shown.inner_text()
        shown.get_by_label("arm 6 at").press("ArrowDown")
        assert "arms 1 and 6, area 0.772" in shown.inner_text()
        assert "10,88" in unquote(plane.page.url)

    @pytest.mark.usefixtures("python")
    def test_the_success_rates_are_those_of_the_library(self, plane: page_checks.Visit) -> None:
        shown = plane.page.locator(".plane")
        arms, theta = plane.page.evaluate(f"[{PLANE}.points, {PLANE}.theta]")
        instance = dpbai.Instance(arms, theta, rewards=dpbai.Bernoulli)
        for name, policy in {
            "DP-BAI": dpbai.DPBAI(arms, budget=100, epsilon=0.5),
            "DP-Design": dpbai.DPDesign(arms, budget=100, epsilon=0.5),
        }.items():
            rate = dpbai.simulate(policy, instance, trials=1000, seed=0).success_rate
            assert f"{name}: {rate:.3f}" in shown.inner_text()

    def test_reset_brings_the_first_arms_back(self, plane: page_checks.Visit) -> None:
        shown = plane.page.locator(".plane")
        shown.get_by_label("arm 6 at").press("ArrowDown")
        assert "area 0.790" not in shown.inner_text()
        shown.get_by_role("button", name="Reset").click()
        assert "area 0.790" in shown.inner_text()

    @pytest.mark.parametrize("chapter", CHAPTERS[1::2])
    def test_a_chapter_prints_its_stored_numbers(
        self, plane: page_checks.Visit, python: JSHandle, chapter: str
    ) -> None:
        plane.page.wait_for_function(f"!{PLANE}.asking && {PLANE}.answer")  # one task at a time
        check_chapter(python, chapter)
