"""Numbers in a chapter's text must occur in a cell, in its code or in its output.

Only numbers that look computed are asked for: decimals with two significant digits, and whole
numbers of three digits or more. Each must equal, when rounded to as many digits, a number that
some code cell of the chapter holds or prints, perhaps as a percentage. Agreement by chance is
possible, so this finds what no cell says and does not prove the rest. What the paper prints
wrongly, in a paragraph that opens with **Printed.**, is the paper's.
"""

import math
import re
from collections.abc import Iterator

from nbformat import NotebookNode

NUMBER = re.compile(r"(?<![\w.^_{\\-])\d(?:,?\d)*(?:\.\d+)?(?:e[+-]?\d+)?")
REFERENCE = (
    r"(?:Sec|Section|Theorem|Prop|Proposition|Lemma|Corollary|Remark|Definition|Def|App|Fig|Figure"
    r"|Algorithm|Alg|[Ee]q|Case|line|Table|Exercise|Python)"
)
LABEL = r"\(?\d[\d.]*\)?"
NOT_PROSE = [
    r"^\*\*Printed\.\*\*.*?(?=\n\n|\Z)",
    r"^(`{3,})(?!\{(?:prf|admonition|note|tip|warning|hint)).*?^\1",
    r"`[^`\n]*`",
    r"\{[\w:-]+\}",
    r"\]\([^)]*\)",
    r"^:[\w-]+:.*$",
    rf"\b{REFERENCE}s?\.?[\s~]*{LABEL}(?:(?:,|\sand|\sor|\sto|-|–)+\s*{LABEL})*",
]


def unsupported_numbers(notebook: NotebookNode) -> list[str]:
    """Every number in the text that looks computed is in a cell."""
    known = [value for text in computed(notebook) for value in numbers(text).values()]
    return [
        f"cell {position}: {token} in the text comes from no cell"
        for position, text in prose(notebook)
        for token, value in numbers(text).items()
        if looks_computed(token) and not supported(token, value, known)
    ]


def prose(notebook: NotebookNode) -> Iterator[tuple[int, str]]:
    """Yield the text of a chapter: paragraphs, captions and alternative texts."""
    for position, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            text = cell.source
        else:
            options = cell.metadata.get("mystnb", {})
            parts = options.get("figure", {}).get("caption"), options.get("image", {}).get("alt")
            text = "\n\n".join(part for part in parts if part)
        for pattern in NOT_PROSE:
            text = re.sub(pattern, " ", text, flags=re.MULTILINE | re.DOTALL)
        yield position, text.replace(r"\,", "").replace("{,}", "")


def computed(notebook: NotebookNode) -> Iterator[str]:
    """Yield the code of each cell and what it prints or shows."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        yield re.sub(r"(?<=\d)_(?=\d)", "", cell.source)
        for output in cell.outputs:
            yield output.get("text", "")
            data = output.get("data", {})
            yield data.get("text/plain", "")
            yield re.sub(r"<[^>]+>", " ", data.get("text/html", ""))


def numbers(text: str) -> dict[str, float]:
    """Return the numbers of a text, as written and as values."""
    return {token: float(token.replace(",", "")) for token in NUMBER.findall(text)}


def looks_computed(token: str) -> bool:
    """Whether a number is more than a small whole number or a round decimal."""
    whole, _, decimals = token.partition("e")[0].replace(",", "").partition(".")
    return len(whole) >= 3 or (decimals != "" and len((whole + decimals).lstrip("0")) >= 2)


def supported(token: str, value: float, known: list[float]) -> bool:
    """Whether a known number, or a percentage of it, rounds to this one."""
    digits = len(token.partition(".")[2]) if "e" not in token else 0
    return any(
        math.isclose(round(factor * one, digits), value, rel_tol=1e-12)
        for one in known
        for factor in (1, 100)
    )
