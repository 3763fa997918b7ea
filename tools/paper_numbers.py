r"""The numbers that LaTeX prints for labels: `python tools/paper_numbers.py FILE.tex`.

The book names the paper's equations and statements as they are printed. This counts them in the
source as LaTeX does, so that they need not be guessed: one counter for equations, one for
statements within each section, appendices lettered, and `\nonumber` minded.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROWS = ("align", "alignat", "gather", "eqnarray")  # environments that number each of their rows
SECTIONED = ("theorem", "proposition", "lemma", "corollary", "definition")  # share one counter
TOKEN = re.compile(
    r"\\(?P<appendix>appendix)\b|\\(?P<section>section|subsection)\{"
    r"|\\(?P<mark>begin|end)\{(?P<environment>\w+\*?)\}"
    r"|\\(?P<skip>nonumber|notag)\b|(?P<newline>\\\\)|\\label\{(?P<label>[^}]*)\}"
)


def printed_numbers(source: str) -> dict[str, str]:
    """Return what LaTeX prints for each label, such as `{"thm:upper_bound": "Theorem 4.2"}`."""
    text = re.sub(r"(?<!\\)%.*", "", source).partition(r"\begin{document}")[2]
    return dict(labelled(text))


def labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yield labels in order, with the number of the environment that contains them."""
    section, statement, equation, remark, appendix, subsection = 0, 0, 0, 0, False, 0
    stack: list[str] = []  # the environments that number, from the outside in
    here: list[str] = []  # what a label would name at each depth
    outer, waiting, skip = "", [], False

    for token in TOKEN.finditer(text):
        name = token["environment"] or ""
        if token["appendix"]:
            section, appendix = 0, True
        elif token["section"] == "section":
            section, statement, subsection = section + 1, 0, 0
            outer = f"Section {chr(64 + section) if appendix else section}"
        elif token["section"]:
            subsection += 1
            outer = f"Section {chr(64 + section) if appendix else section}.{subsection}"
        elif token["mark"] == "begin":
            if name in SECTIONED:
                statement += 1
                letter = chr(64 + section) if appendix else str(section)
                here.append(f"{name.capitalize()} {letter}.{statement}")
            elif name == "remark":
                remark += 1
                here.append(f"Remark {remark}")
            elif name == "equation" or name in ROWS:
                waiting, skip = [], False
                here.append("")
            else:
                here.append(here[-1] if here else outer)
            stack.append(name)
        elif token["mark"] == "end" and stack:
            if stack.pop() in ("equation", *ROWS) and not skip:
                equation += 1
                yield from ((label, f"({equation})") for label in waiting)
            here.pop()
        elif token["skip"]:
            skip = True
        elif token["newline"] and stack and stack[-1] in ROWS:
            equation += not skip
            yield from ((label, f"({equation})") for label in waiting if not skip)
            waiting, skip = waiting if skip else [], False
        elif token["label"] and stack and (stack[-1] == "equation" or stack[-1] in ROWS):
            waiting.append(token["label"])
        elif token["label"]:
            yield token["label"], here[-1] if here and here[-1] else outer
    yield "last equation", f"({equation})"


if __name__ == "__main__":
    for label, number in printed_numbers(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        print(f"{number:16} {label}")
