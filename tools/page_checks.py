"""What every page of the built book must fulfil in a browser that has no network.

Each check takes an open page and returns what is wrong with it, one line per finding. The checks
concern the content, the `article` element, and not what the theme puts around it.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    ViewportSize,
    sync_playwright,
)

PHONE = {"width": 375, "height": 740}
DESKTOP = {"width": 1280, "height": 900}
PATIENCE = 180_000  # milliseconds: machines may be busy
LOCAL = re.compile(r"(file|data|blob|about):")
CONTRAST = ["color-contrast"]  # of the rules of Axe, the one that depends on the colours
FORMULAS, CODE = "mjx-container", ".highlight pre"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the operating system's Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise RuntimeError("the browser checks need Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@contextmanager
def offline(browser: Browser) -> Iterator[BrowserContext]:
    """Open a context in which no request leaves the machine."""
    context = browser.new_context(viewport=DESKTOP, offline=True)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


class Visit:
    """A page opened from the file system, with its requests and its errors."""

    def __init__(self, context: BrowserContext, path: Path, fragment: str = "") -> None:
        self.page = context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda message: self.errors.append(message.text) if message.type == "error" else None,
        )
        self.page.on(
            "requestfailed",
            lambda request: self.errors.append(f"failed to load {request.url}"),
        )
        self.page.goto(path.resolve().as_uri() + fragment, wait_until="load")
        settle(self.page)

    def leaving(self) -> list[str]:
        """Return the requests that would leave the machine."""
        return [url for url in self.requests if not LOCAL.match(url)]

    def weight(self) -> int:
        """Return the bytes of the files that the page has asked for."""
        files = {unquote(urlsplit(url).path) for url in self.requests if url.startswith("file:")}
        return sum(Path(file).stat().st_size for file in files)


SETTLED = """async () => {
  await window.MathJax?.startup?.promise;
  for (let round = 0; round < 2; round++) {
    await new Promise(requestAnimationFrame);  // events of a new size come before
    await document.fonts.ready;
    for (const change of document.getAnimations()) {
      if (change instanceof CSSTransition) change.finish();
    }
  }
}"""
PICTURES = """async () => {
  const images = [...document.querySelectorAll("article img")].filter(e => e.checkVisibility());
  for (const image of images) image.loading = "eager";
  await Promise.all(images.map(image => image.decode().catch(() => {})));
}"""


def settle(page: Page) -> None:
    """Wait until formulas are typeset, and fonts, scripts and transitions have had their effect."""
    page.evaluate(SETTLED)


def show_pictures(page: Page) -> None:
    """Load all pictures, as for a reader who scrolls to the end of the page."""
    page.evaluate(PICTURES)
    settle(page)


def resize(page: Page, size: ViewportSize) -> None:
    """Give the window a size, unless it has that size, and wait for the new layout."""
    if page.viewport_size != size:
        page.set_viewport_size(size)
        page.wait_for_function("width => innerWidth === width", arg=size["width"])
        settle(page)


DRESS = """theme => {
  const root = document.documentElement.dataset;
  const changes = root.theme !== theme;
  Object.assign(root, {theme, mode: theme});
  return changes;
}"""


def dress(page: Page, theme: str) -> None:
    """Show a page in the colours of a theme, "light" or "dark", unless it has them."""
    if page.evaluate(DRESS, theme):
        settle(page)


def untypeset_formulas(page: Page) -> list[str]:
    """Every formula is typeset, without an error inside."""
    return page.evaluate(
        """() => [...document.querySelectorAll("article .math")]
          .filter(math => !math.querySelector("mjx-container")
                          || math.querySelector("mjx-merror, [data-mjx-error]"))
          .map(math => "formula not typeset: " + math.textContent.slice(0, 60))"""
    )


def raw_tex(page: Page) -> list[str]:
    """TeX occurs in formulas and in code only."""
    return page.evaluate(
        r"""() => {
          const article = document.querySelector("article");
          const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
          const found = [];
          while (texts.nextNode()) {
            const { data, parentElement } = texts.currentNode;
            const meant = parentElement.closest("pre, code, script, style, .math, mjx-container");
            if (!meant && /\{\\|\\[a-z]+\{/.test(data)) found.push("TeX in the text: " + data);
          }
          return found;
        }"""
    )


def overflow(page: Page) -> list[str]:
    """At the width of a phone, the page does not scroll sideways."""
    resize(page, PHONE)
    return page.evaluate(
        """() => {
          const root = document.scrollingElement;
          if (root.scrollWidth <= root.clientWidth) return [];
          const wide = [...document.querySelectorAll("article *")]
            .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1);
          const names = wide.slice(0, 3).map(e => e.outerHTML.slice(0, 80));
          return [`${root.scrollWidth} pixels wide: ${names.join(" ; ")}`];
        }"""
    )


def secret_scrolling(page: Page) -> list[str]:
    """On a phone, content that scrolls sideways has a shadow at its edge and is a tab stop."""
    resize(page, PHONE)
    return page.evaluate(
        """() => [...document.querySelectorAll("article :is(pre, table, div.math, mjx-container)")]
          .filter(e => e.checkVisibility() && e.clientWidth
                       && getComputedStyle(e).overflowX !== "visible"
                       && (e.querySelector(":scope > mjx-math")?.getBoundingClientRect().width
                           ?? e.scrollWidth) > e.clientWidth + 1)
          .filter(e => e.tabIndex !== 0
                       || !getComputedStyle(e).backgroundImage.includes("gradient")
                       || [...e.querySelectorAll("td, th")].some(
                            cell => getComputedStyle(cell).backgroundColor !== "rgba(0, 0, 0, 0)"))
          .map(e => `${e.scrollWidth - e.clientWidth} pixels out of sight, and no hint: `
                    + e.textContent.trim().slice(0, 60))"""
    )


def illegible_pictures(page: Page) -> list[str]:
    """On a phone, a picture keeps more than half of its size, and a tap shows it whole."""
    resize(page, PHONE)
    return page.evaluate(
        """() => [...document.querySelectorAll("article :is(figure, .explorer) img")]
          .filter(image => image.checkVisibility() && image.width < image.naturalWidth / 1.2)
          .flatMap(image => {
            const { naturalWidth, width, alt } = image;
            const found = width < naturalWidth / 2.2
              ? [`${naturalWidth} pixels shrunk to ${width}: ${alt}`] : [];
            image.click();
            const enlarged = [...document.querySelectorAll("dialog[open] img")];
            if (enlarged.length !== 1 || enlarged[0].width !== naturalWidth) {
              found.push(`a tap does not enlarge: ${alt}`);
            }
            for (const copy of enlarged) copy.click();
            return found;
          })"""
    )


def small_handles(page: Page) -> list[str]:
    """A slider is as wide as its picture, and high enough for a finger."""
    resize(page, DESKTOP)
    return page.evaluate(
        """() => [...document.querySelectorAll("article input[type=range]")].flatMap(slider => {
          const { width, height } = slider.getBoundingClientRect();
          const shown = [...(slider.closest(".explorer")?.querySelectorAll("img") ?? [])]
            .find(image => image.checkVisibility())?.getBoundingClientRect().width ?? 0;
          return height >= 24 && width > 0.9 * shown ? []
            : [`a slider of ${width} times ${height} pixels, above a picture of ${shown}`];
        })"""
    )


def heading_order(page: Page) -> list[str]:
    """One heading of the first level comes first, and no level is skipped below it."""
    levels = page.evaluate(
        """() => [...document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)")]
          .filter(heading => heading.checkVisibility())
          .map(heading => Number(heading.tagName[1]))"""
    )
    findings = [] if levels[:1] == [1] and levels.count(1) == 1 else [f"headings: {levels}"]
    for above, below in pairwise(levels):
        if below > above + 1:
            findings.append(f"a heading of level {below} follows one of level {above}")
    return findings


def undescribed_images(page: Page) -> list[str]:
    """Every image has alternative text."""
    return page.evaluate(
        """() => [...document.querySelectorAll("article img")]
          .filter(image => !image.alt.trim())
          .map(image => "no alternative text: " + image.src.slice(-60))"""
    )


def cut_off(page: Page) -> list[str]:
    """On a desktop, no code, table or formula is wider than its column."""
    resize(page, DESKTOP)
    return page.evaluate(
        """() => [...document.querySelectorAll(
            "article :is(pre, table, div.math, mjx-container[display])")]
          .filter(e => e.checkVisibility())
          .map(e => [e, (e.querySelector(":scope > mjx-math")?.getBoundingClientRect().width
                         ?? e.scrollWidth) - e.clientWidth])
          .filter(([e, beyond]) => beyond > 1)
          .map(([e, beyond]) => `${beyond} pixels cut off: ` + e.textContent.trim().slice(0, 60))"""
    )


def misnamed_folds(page: Page) -> list[str]:
    """The accessible name of a fold or button contains its visible text."""
    return page.evaluate(
        """() => [...document.querySelectorAll("article summary, article button")]
          .filter(e => e.ariaLabel && !e.ariaLabel.includes(e.innerText.trim()))
          .map(e => `${e.innerText} is called ${e.ariaLabel}`)"""
    )


def pale_print(page: Page) -> list[str]:
    """Printed in dark mode, letters are dark, controls are left out, and tables are unfolded."""
    dress(page, "dark")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")  # as browsers do
    page.emulate_media(media="print")
    settle(page)
    findings = page.evaluate(
        """() => [...document.querySelectorAll(
            "article :is(p, td, th, pre, span.pre, figcaption, mjx-container):not(.highlight *)")]
          .filter(e => e.checkVisibility())
          .filter(e => getComputedStyle(e).color.match(/\\d+/g).slice(0, 3)
                         .reduce((sum, part) => sum + Number(part), 0) > 3 * 130)
          .map(e => "pale in print: " + e.textContent.trim().slice(0, 40))
          .concat([...document.querySelectorAll(
              "article :is(.live-bar, button, input, .sd-dropdown:not([open]))")]
            .filter(e => e.checkVisibility()).map(e => "in print: " + e.outerHTML.slice(0, 60)))"""
    )
    page.emulate_media(media="screen")
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    dress(page, "light")
    return findings


def needless_tab_stops(page: Page) -> list[str]:
    """The tab key stops at what can be used or scrolled, and nowhere else."""
    return page.evaluate(
        """() => [...document.querySelectorAll("article [tabindex='0']")]
          .filter(e => !e.matches("a, button, input, select, summary, [role=button], .scrolls, img")
                       && e.scrollWidth <= e.clientWidth + 1)
          .map(e => "a needless tab stop: " + e.outerHTML.slice(0, 80))"""
    )


def blurred_images(page: Page) -> list[str]:
    """Every picture is a vector drawing, or has two dots per CSS pixel in each direction."""
    resize(page, DESKTOP)
    return page.evaluate(
        """() => [...document.querySelectorAll("article img")]
          .filter(image => image.checkVisibility() && image.width
                           && !/svg/.test(image.src.slice(0, 40) + image.src.slice(-4))
                           && image.naturalWidth < 2 * image.width)
          .map(image => `${image.naturalWidth} dots in ${image.width}: ` + image.src.slice(-60))"""
    )


# Axe goes through all elements of a page. Most are the strokes of formulas, which are not ours, and
# the words of code: plain text stands for them while Axe runs.
SIMPLIFY = """selector => {
  for (const element of document.querySelectorAll(selector)) {
    element.kept = [...element.childNodes];
    element.replaceChildren(element.matches("pre") ? element.textContent : "formula");
  }
}"""
RESTORE = """selector => {
  for (const element of document.querySelectorAll(selector)) {
    element.replaceChildren(...element.kept);
  }
}"""
# Axe measures contrasts slowly. Letters of the same colour, size and weight on the same background
# have the same contrast, so only the first element of each such look is marked to be measured.
MARK_LOOKS = """() => {
  const seen = new Set();
  const grounds = new Map([[null, ""]]);
  const ground = element => {
    if (!grounds.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = backgroundColor + backgroundImage + opacity;
      grounds.set(element, own + ground(element.parentElement));
    }
    return grounds.get(element);
  };
  for (const element of document.querySelectorAll("article, article *")) {
    element.removeAttribute("data-look");
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const look = [color, fontSize, fontWeight, ground(element)].join();
    if (seen.has(look) || !element.checkVisibility()) continue;
    seen.add(look);
    element.dataset.look = "";
  }
}"""
AXE = """([include, options]) => axe.run({ include: [[include]] }, {
  resultTypes: ["violations"], preload: false, elementRef: false, ...options
}).then(({ violations }) => violations
  .filter(found => ["serious", "critical"].includes(found.impact))
  .map(found => `axe, ${document.documentElement.dataset.theme}, ${found.impact}: `
                + `${found.id} at ${found.nodes[0].target}`))"""


def axe_violations(page: Page) -> list[str]:
    """Axe finds nothing serious or critical in the content, and no pale letters in dark mode."""
    findings: list[str] = []

    def run(include: str, **options: object) -> None:
        findings.extend(page.evaluate(AXE, [include, options]))

    page.evaluate(Axe().axe_script)
    page.evaluate(SIMPLIFY, f"{FORMULAS}, {CODE}")
    resize(page, PHONE)
    dress(page, "light")
    run("article", rules={rule: {"enabled": False} for rule in CONTRAST})
    page.evaluate(RESTORE, CODE)
    for size, theme in ((PHONE, "light"), (DESKTOP, "dark")):
        resize(page, size)
        dress(page, theme)
        page.evaluate(MARK_LOOKS)
        run("[data-look]", runOnly=CONTRAST)
    page.evaluate(RESTORE, FORMULAS)
    return findings


def picture(explorer: Locator) -> str:
    """Return what an explorer shows: its visible images and drawings."""
    return explorer.evaluate(
        """root => [...root.querySelectorAll("img, svg")]
          .filter(image => image.checkVisibility({visibilityProperty: true})
                           && image.getBoundingClientRect().width > 0)
          .map(image => image.src || image.outerHTML).join("|")"""
    )


def dead_controls(page: Page) -> list[str]:
    """Every slider and dropdown of an explorer changes the picture, by keyboard."""
    findings = []
    for number, explorer in enumerate(page.locator("article .explorer").all()):
        explorer.scroll_into_view_if_needed()
        controls = explorer.locator("input, select").all()
        if controls and not picture(explorer):
            findings.append(f"explorer {number}: no picture")
        for control in controls:
            before = picture(explorer)
            control.focus()
            # At one end of its range a control answers to one of the two directions only.
            for key in ("ArrowUp", "ArrowDown"):
                page.keyboard.press(key)
                if picture(explorer) != before:
                    break
            else:
                name = control.get_attribute("aria-label") or control.evaluate("e => e.tagName")
                findings.append(f"explorer {number}: {name} does not change the picture")
    return findings


PageCheck = Callable[[Page], list[str]]
PAGE_CHECKS: list[PageCheck] = [
    untypeset_formulas,
    raw_tex,
    heading_order,
    undescribed_images,
    misnamed_folds,
    small_handles,
    cut_off,
    needless_tab_stops,
    blurred_images,
    dead_controls,
    pale_print,
    overflow,  # on a phone from here on: each change of the width lays out the page anew
    secret_scrolling,
    illegible_pictures,
    axe_violations,  # in the light, and then in the dark
]


class Anchors(HTMLParser):
    """The links and the identifiers of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the link and the identifiers of one element."""
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        self.names |= {value for key in ("id", "name") if (value := values.get(key))}


@lru_cache(maxsize=64)
def _names(path: Path) -> frozenset[str]:
    """Return the identifiers of a page; an index links to the same page hundreds of times."""
    return frozenset(Anchors(path.read_text(encoding="utf-8")).names)


def broken_links(path: Path) -> list[str]:
    """Every link to another page of the book leads to a page and a place that exist."""
    findings = []
    for link in Anchors(path.read_text(encoding="utf-8")).links:
        address, fragment = urldefrag(link)
        if re.match(r"[a-z]+:|//", address):
            continue
        target = path.parent / unquote(address) if address else path
        if not target.is_file():
            findings.append(f"broken link: {link}")
        elif target.suffix != ".html" or not fragment:
            continue
        elif unquote(fragment) not in _names(target.resolve()):
            findings.append(f"link to a missing place: {link}")
    return findings
