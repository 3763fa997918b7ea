"""Reduce what a page loads to what it uses.

The theme's icons are a script of 1.5 MB, of which the book uses a dozen, which become a style
sheet. The frames of explorers become files that a browser loads when they are shown. Pictures get
their sizes, so that nothing moves while a page loads, and are loaded when they come near. Pages
load only the part of MathJax that typesets formulas, and only the search page loads the index of
words. Code is marked only where its colour differs from that of plain text. If PurgeCSS, esbuild
and SVGO are installed, rules that no page uses are removed from style sheets, spaces and comments
from them and from scripts, and pictures get shorter paths and names. Pages with code get the button
that runs them, if `tools/live.py` has written the files that it needs.
"""

import posixpath
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from bs4 import BeautifulSoup
from docutils import nodes
from pygments.formatters import HtmlFormatter
from pygments.token import Name, Operator, Punctuation, Text, Whitespace
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge

from offline import text_of

LIVE = Path("build/live")
DESCRIBED = 200  # characters of a page's description, unless its first sentence has more
ICONS = "icons.css"
SIDES = ("width", "height")
SCRIPT = re.compile(r'<script defer src="([^"]*)scripts/fontawesome\.js[^"]*"></script>')
PRELOAD = re.compile(r'<link rel="preload" as="script"[^>]*scripts/fontawesome\.js[^>]*>\s*')
ICON = re.compile(r'class="(?:theme-switch )?fa[srb-][^"]*?\bfa-([a-z-]+)\s*(?:fa-lg)?"')
DRAWN = re.compile(r'[,{]"?%s"?:\[(\d+),(\d+),\[[^]]*\],"[0-9a-f]+","([^"]+)"')
FONT = re.compile(r"@font-face\s*\{[^}]*Font Awesome[^}]*\}")
FRAME = re.compile(r'(<img [^>]*?)src="data:image/svg\+xml;base64,([\w+/=]+)"')
PICTURE = re.compile(r'<img (?![^>]*\bwidth=)([^>]*?)src="([^":]+\.svg)"')
SEARCH = re.compile(
    r'<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>\s*'
)
SOLVED = re.compile(r'(<a class="reference internal" href="#ex-[^"]*">) ')
PLAIN = {Name, Name.Namespace, Operator, Punctuation, Whitespace}
"""To names, punctuation and spaces both colour schemes give the colour of the block; to operators,
that of strings."""
PROGRAMS = Path("node_modules/.bin")
STYLES = (
    "styles/pydata-sphinx-theme.css",
    "styles/sphinx-book-theme.css",
    "sphinx-design.min.css",
    "mystnb.*.css",
    "basic.css",
    "proof.css",
    "pygments.css",
    "togglebutton.css",
)
USED_BY = ("*.html", "*/*.html", "*/*/*.html", "_static/*.js", "_static/scripts/*theme.js")
MINIFIED = ("*.css", "*.js", "styles/*.css")
BASE = """\
:is(.fas, .fa-solid) {
  display: inline-block;
  width: 1em;
  height: 1em;
  vertical-align: -0.125em;
  background: currentcolor;
  mask: var(--icon) center / contain no-repeat;
}
.fa-lg { font-size: 1.25em; }
@media (forced-colors: active) {
  :is(.fas, .fa-solid) { forced-color-adjust: none; background: ButtonText; }
}
"""


class PlainCode(HtmlFormatter):
    """Code without markup for tokens that look like plain text."""

    def format(self, tokens: Iterable[tuple[Any, str]], file: Any) -> None:
        """Write the HTML of code."""
        marked = ((Text if kind in PLAIN else kind, text) for kind, text in tokens)
        super().format(marked, file)


def style_of(names: set[str], script: str) -> str:
    """Return a style sheet of the icons that are named, as the theme's script draws them."""
    rules = [BASE]
    for name in sorted(names):
        found = re.search(DRAWN.pattern % re.escape(name), script)
        if found is None:
            raise ValueError(f"the theme draws no icon {name}")
        width, height, path = found.groups()
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
            f'<path d="{path}"/></svg>'
        )
        rules.append(f'.fa-{name} {{ --icon: url("data:image/svg+xml,{quote(svg)}"); }}\n')
    return "".join(rules)


@cache
def size_of(picture: Path) -> str:
    """Return the size of an SVG as the attributes of an image."""
    with picture.open(encoding="utf-8") as file:
        head = file.read(1000)
    sizes = [re.search(rf'<svg [^>]*?\b{side}="([\d.]+)(?:px)?"', head) for side in SIDES]
    return "".join(
        f'{side}="{float(size[1]):.0f}" ' for side, size in zip(SIDES, sizes, strict=True) if size
    )


def lightened(page: Path, text: str, static: Path) -> str:
    """Return the text of a page that loads less; its explorers' frames are written to files."""

    def as_file(image: re.Match[str]) -> str:
        content = b64decode(image[2])
        name = f"{sha256(content).hexdigest()[:16]}.svg"
        (static / "frames").mkdir(exist_ok=True)
        (static / "frames" / name).write_bytes(content)
        return f'{image[1]}loading="lazy" src="{up}frames/{name}"'

    def sized(image: re.Match[str]) -> str:
        picture = page.parent / image[2]
        size = size_of(picture.resolve()) if picture.is_file() else ""
        return f'<img {size}loading="lazy" {image[1]}src="{image[2]}"'

    up = f"{'../' * (len(page.relative_to(static.parent).parts) - 1)}_static/"
    text = text.replace("mathjax/tex-chtml.js", "mathjax/startup.js")  # and see _config.yml
    text = text.replace(' aria-label="Toggle hidden content"', "")  # it is named as it reads
    text = SOLVED.sub(r" \1", text)  # no line under the space before the name of an exercise
    if page.name != "search.html":
        text = SEARCH.sub("", text)
    text = SCRIPT.sub(rf'<link rel="stylesheet" href="\1{ICONS}">', PRELOAD.sub("", text))
    return PICTURE.sub(sized, FRAME.sub(as_file, text))


def lighten(app: Sphinx, error: Exception | None) -> None:
    """Go through all pages."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    icons: set[str] = set()
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        icons |= set(ICON.findall(text))
        if (light := lightened(page, text, static)) != text:
            page.write_text(light, encoding="utf-8")
    script = (static / "scripts/fontawesome.js").read_text(encoding="utf-8")
    (static / ICONS).write_text(style_of(icons, script), encoding="utf-8")
    programs = Path(app.srcdir, PROGRAMS)
    if all((programs / name).is_file() for name in ("purgecss", "esbuild", "svgo")):
        pictures = (Path(app.outdir, "_images"), static / "frames")
        with ThreadPoolExecutor() as pool:  # each waits for a program of its own
            jobs = [
                pool.submit(shorten, folder, programs / "svgo")
                for folder in pictures
                if folder.is_dir()
            ]
            purge(Path(app.outdir), programs / "purgecss")
            minify(static, programs / "esbuild")
            for job in jobs:
                job.result()
    if (live := Path(app.srcdir, LIVE)).is_dir():
        shutil.copytree(live, static / "live", dirs_exist_ok=True)


def purge(html: Path, program: Path) -> None:
    """Remove the rules of style sheets that no page and no script uses."""
    content = [str(path) for pattern in USED_BY for path in html.glob(pattern)]
    styles = [path for pattern in STYLES for path in (html / "_static").glob(pattern)]
    for style in styles:
        style.write_text(FONT.sub("", style.read_text(encoding="utf-8")), encoding="utf-8")
    for folder in {style.parent for style in styles}:  # each run reads all pages
        inside = [style for style in styles if style.parent == folder]
        command = [program, "--css", *inside, "--content", *content, "--output", folder]
        subprocess.run(command, check=True)


def minify(static: Path, program: Path) -> None:
    """Remove spaces and comments from style sheets and scripts."""
    files = [path for pattern in MINIFIED for path in static.glob(pattern)]
    where = [f"--outdir={static}", f"--outbase={static}", "--allow-overwrite"]
    subprocess.run([program, *files, *where, "--minify", "--log-level=error"], check=True)


def shorten(folder: Path, program: Path) -> None:
    """Shorten the paths and names in the pictures of a folder."""
    command = [program, "--quiet", "--config", Path(__file__).with_name("svgo.config.mjs")]
    subprocess.run([*command, "--folder", folder], check=True)


def way_to(page: str, toc: dict[str, Any], titles: Mapping[str, nodes.title]) -> str:
    """Return the part of the book, and the page, that a page belongs to, as HTML."""
    for part in toc.get("parts", ()):
        for chapter in part["chapters"]:
            inner = [section["file"] for section in chapter.get("sections", ())]
            if page == chapter["file"]:
                return f"{part['caption']} &gt;"
            if page in inner:
                above = f"{'../' * (page.count('/') - chapter['file'].count('/'))}"
                name = f"{above}{posixpath.basename(chapter['file'])}.html"
                title = escape(titles[chapter["file"]].astext())
                return f'{part["caption"]} &gt; <a href="{name}">{title}</a> &gt;'
    return ""


def description(body: str) -> str:
    """Return the first sentences of a page, of up to 200 characters, for lists of pages."""
    first = BeautifulSoup(body, "html.parser").select_one("section > p")
    text = " ".join(text_of(first).split()) if first else ""
    sentences = re.findall(r".+?[.?!](?=\s|$)", unescape(re.sub(r"<[^>]*>", "", text)))
    said = ""
    for sentence in sentences:
        if said and len(said) + len(sentence) > DESCRIBED:
            break
        said += sentence
    return said


def add_to_page(app: Sphinx, page: str, *given: Any) -> None:
    """Say above its title which part a page belongs to, describe it, and load its scripts.

    These are the button, where there are code cells, and the plane, where there is a place for it.
    """
    context: dict[str, Any] = given[-2]
    body = context.get("body", "")
    if said := description(body):
        context["metatags"] += f'<meta name="description" content="{escape(said)}">\n'
    toc = yaml.safe_load(Path(app.srcdir, "_toc.yml").read_text(encoding="utf-8"))
    if way := way_to(page, toc, app.env.titles):
        context["body"] = body.replace("<h1>", f'<p class="part">{way}</p>\n<h1>', 1)
    if page == "search":
        app.add_js_file("search_texts.js", priority=100)  # before the search begins
    if 'class="cell_input' in body and Path(app.srcdir, LIVE).is_dir():
        app.add_js_file("run.js")
    if 'class="plane"' in body:
        app.add_js_file("plane.js")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    PygmentsBridge.html_formatter = PlainCode
    app.connect("html-page-context", add_to_page)
    app.connect("build-finished", lighten, priority=900)  # the theme writes a style sheet then
    return {"parallel_read_safe": True, "parallel_write_safe": True}
