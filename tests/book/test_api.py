"""The API reference and the notation name what there is, and leave out no public name."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import api_reference
import book_checks
import drawings
import nbformat
import pytest
import statements
from api_reference import locate
from numpydoc.docscrape import NumpyDocString

import dpbai
from dpbai.field import figures

BOOK = Path(__file__).resolve().parents[2] / "book"


PACKAGES = (
    "dpbai",
    "dpbai.audits",
    "dpbai.beyond",
    "dpbai.exact",
    "dpbai.field.figures",
    "dpbai.field.session",
    "dpbai.hardness",
    "dpbai.lemmas",
    "dpbai.lower",
    "dpbai.policies",
    "dpbai.tails",
    "dpbai.upper",
)
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted(BOOK.glob("api/*.md")))
LINES = re.findall(r"^   (dpbai[\w.*]+)$", PAGES, re.M)
LISTED = [name for line in LINES for name in api_reference.expanded(line)]
DOCUMENTED = [locate(name) for name in LISTED]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package: str) -> None:
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in api_reference.public_names(module)}
    rooms = [name for name, value in public.items() if inspect.ismodule(value)]
    undocumented = [name for name, value in public.items() if value not in DOCUMENTED]
    assert sorted(set(undocumented) - set(rooms)) == []


def test_every_name_that_a_chapter_imports_is_documented() -> None:
    imported = {
        f"{node.module}.{name.name}"
        for path in BOOK.glob("*.ipynb")
        for _, cell in book_checks.code_cells(nbformat.read(path, as_version=4))
        for node in ast.walk(ast.parse(re.sub(r"^\s*[%!].*$", "", cell.source, flags=re.M)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpbai"
        for name in node.names
    }
    objects = {name: locate(name) for name in sorted(imported)}
    modules = [name for name, value in objects.items() if inspect.ismodule(value)]
    undocumented = [name for name, value in objects.items() if value not in DOCUMENTED]
    assert sorted(set(undocumented) - set(modules)) == []


@pytest.mark.parametrize("package", [figures, drawings], ids=lambda module: module.__name__)
def test_every_figure_that_a_module_defines_is_public(package: ModuleType) -> None:
    for path in Path(*package.__path__).glob("[a-z]*.py"):
        module = importlib.import_module(f"{package.__name__}.{path.stem}")
        defined = set(api_reference.public_names(module))
        assert defined - vars(package).keys() == set(), path.stem


def test_every_drawing_is_in_a_chapter() -> None:
    chapters = "".join(path.read_text(encoding="utf-8") for path in BOOK.glob("*.ipynb"))
    drawn = [name for name, value in vars(drawings).items() if inspect.isfunction(value)]
    assert len(drawn) > 20
    assert [name for name in drawn if f"drawings.{name}(" not in chapters] == []


def test_every_documented_name_exists_and_is_documented_once() -> None:
    assert LISTED
    assert [name for name, value in zip(LISTED, DOCUMENTED, strict=True) if value is None] == []
    assert len({id(value) for value in DOCUMENTED}) == len(LISTED)


def functions_of(documented: object) -> list[object]:
    """Return an object and, of a class, its public functions."""
    members = vars(documented).items() if inspect.isclass(documented) else ()
    unbound = [getattr(value, "__func__", value) for name, value in members if name[0] != "_"]
    return [documented, *filter(inspect.isfunction, unbound)]


def parameters_that_do_not_exist(function: object) -> list[str]:
    """Return the names under "Parameters" that are not in the signature, such as free text."""
    described = NumpyDocString(inspect.getdoc(function) or "")["Parameters"]
    names = [name for entry in described for name in entry.name.replace("*", "").split(", ")]
    return [name for name in names if name not in inspect.signature(function).parameters]


def test_documented_parameters_exist_and_nothing_else_is_listed_as_one() -> None:
    functions = [found for each in DOCUMENTED if callable(each) for found in functions_of(each)]
    wrong = {found.__qualname__: parameters_that_do_not_exist(found) for found in functions}
    assert len(wrong) > 200
    assert {name: entries for name, entries in wrong.items() if entries} == {}


def test_free_text_below_parameters_is_found() -> None:
    def function(one: int, *others: int) -> None:
        """Do nothing.

        Parameters
        ----------
        one, *others : int
            Numbers.

        The rest is as usual.
        """

    assert parameters_that_do_not_exist(function) == ["The rest is as usual."]


def test_a_signature_shows_what_a_caller_can_pass_and_no_internals() -> None:
    def shown(signature: str) -> str:
        return api_reference.readable(None, "class", "", None, None, signature, "")[0]

    full = "(losses, law=<class 'dpbai.rewards.Uniform'>, rule=<function g>, _changes=())"
    assert shown(full) == "(losses, law=Uniform, rule=g)"
    assert shown("(*args, **kwargs)") == ""
    assert shown("(size=(5.8, 3.4), *, notes=())") == "(size=(5.8, 3.4), *, notes=())"


def test_names_of_parameters_and_fields_are_not_taken_for_functions() -> None:
    fit = locate("dpbai.beyond.linearity.Fit")
    for kind, name, obj in (
        ("class", "dpbai.beyond.linearity.Fit", fit),
        ("function", "dpbai.beyond.linearity.fit", locate("dpbai.beyond.linearity.fit")),
        ("method", "dpbai.audits.Audit.delta_at", locate("dpbai.audits.Audit.delta_at")),
        ("property", "dpbai.Schedule.sizes", vars(locate("dpbai.Schedule"))["sizes"]),
    ):
        lines = (inspect.getdoc(obj) or "").splitlines()
        api_reference.parameters_stay_plain(None, kind, name, obj, None, lines)
        assert re.findall(r"(?<![`:])`(?:misfit|epsilon)`(?!`)", "\n".join(lines)) == []
    lines = ["As `Uniform`, with `misfit` and :py:func:`misfit`."]
    api_reference.parameters_stay_plain(
        None, "class", "dpbai.beyond.linearity.Fit", fit, None, lines
    )
    assert lines == ["As `Uniform`, with ``misfit`` and :py:func:`misfit`."]


def test_a_function_that_is_a_default_is_no_method_of_its_class() -> None:
    def skipped(obj: object) -> bool | None:
        return api_reference.without_defaults(None, "class", "", obj, False, None)

    assert skipped(dpbai.Schedule.collections)
    assert skipped(dpbai.Schedule.pulls) is None


def test_names_in_the_index_are_in_the_order_of_their_numbers() -> None:
    names = ["Erratum 10", "erratum 2", "Lemma A.10", "Lemma A.9", "Erratum 1"]
    ordered = ["Erratum 1", "erratum 2", "Erratum 10", "Lemma A.9", "Lemma A.10"]
    assert sorted(names, key=statements.by_number) == ordered


HOLDERS = {
    "instance": dpbai.Instance,
    "policy": dpbai.Policy,
    "schedule": dpbai.Schedule,
    "phase": dpbai.Phase,
}
ARGUMENTS = {"epsilon", "delta", "distance", "time_indexed"}


def fields(holder: object) -> set[str]:
    return set(getattr(holder, "__dataclass_fields__", ()))


def exists(name: str) -> bool:
    """Whether a name of the notation is an argument, an attribute or an object of the library."""
    if name in ARGUMENTS:
        return True
    first, _, rest = name.rpartition(".")
    documented = {getattr(value, "__name__", ""): value for value in DOCUMENTED}
    holders = [HOLDERS.get(first), documented.get(first), locate(f"dpbai.{first}".rstrip("."))]
    return any(hasattr(holder, rest) or rest in fields(holder) for holder in holders)


def test_names_in_the_notation_exist() -> None:
    rows = re.findall(
        r"^\| .* \| (.*) \| [^|]* \|$", (BOOK / "notation.md").read_text("utf-8"), re.M
    )
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert len(names) > 40
    assert [name for name in names if not exists(name)] == []
    assert not exists("instance.arm")
    assert not exists("schedule.lambda_")
