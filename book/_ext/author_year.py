"""The bibliography style `author_year`: entries have the labels by which the text cites them."""

from collections.abc import Iterable, Iterator

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style as Plain
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx


class AuthorYear(BaseLabelStyle):
    """Labels such as "Chen et al., 2024"."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        """Yield the label of each entry."""
        for entry in sorted_entries:
            names = [" ".join([*p.prelast_names, *p.last_names]) for p in entry.persons["author"]]
            named = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
            yield f"{named}, {entry.fields['year']}"


class Style(Plain):  # type: ignore[misc]
    """The style `plain` with these labels."""

    default_label_style = AuthorYear


def setup(app: Sphinx) -> dict[str, bool]:  # noqa: ARG001
    """Register the style."""
    register_plugin("pybtex.style.formatting", "author_year", Style)
    register_plugin("pybtex.style.labels", "author_year", AuthorYear)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
