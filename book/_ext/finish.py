"""Finishing touches on pages.

What a cell prints beside its figure comes after it, folded: the numbers behind the figure. And the
word that begins a proof is set in italics, so that a proof needs no box.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

SUMMARY = "The numbers behind this figure"


class FoldNumbers(SphinxPostTransform):
    """Move printed numbers behind the figure of the same cell, into a block that opens."""

    default_priority = 900  # when it is settled which form of each output is shown
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Go through the outputs of all cells."""
        for output in self.document.findall(nodes.container):
            if "cell_output" not in output["classes"]:
                continue
            printed = [part for part in output.children if is_printed(part)]
            if printed and any(is_figure(part) for part in output.children):
                shown = [part for part in output.children if part not in printed]
                before = nodes.raw(
                    "", f'<details class="numbers"><summary>{SUMMARY}</summary>', format="html"
                )
                output.children = []
                output += [*shown, before, *printed, nodes.raw("", "</details>", format="html")]


class ItalicProofs(SphinxPostTransform):
    """Set the word that begins a proof in italics."""

    default_priority = 900

    def run(self, **_: object) -> None:
        """Go through all proofs."""
        for word in list(self.document.findall(nodes.Text)):
            block = word.parent.parent
            if word.startswith("Proof. ") and "proof" in block.get("classes", []):
                rest = nodes.Text(word.removeprefix("Proof."))
                word.parent.replace(word, [nodes.emphasis("", "Proof."), rest])


def is_printed(part: nodes.Node) -> bool:
    """Return whether an output is text that the cell printed."""
    return isinstance(part, nodes.literal_block)


def is_figure(part: nodes.Node) -> bool:
    """Return whether an output holds a picture."""
    return bool([*part.findall(nodes.image)])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_post_transform(FoldNumbers)
    app.add_post_transform(ItalicProofs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
