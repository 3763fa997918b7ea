"""What each part of the library may import, and what is imported only when it is used."""

import ast
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpbai

PACKAGE = Path(dpbai.__file__).parent
CORE = [
    "_check",
    "_describe",
    "_parallel",
    "_threads",
    "_ties",
    "rewards",
    "_gaussian",
    "noise",
    "instance",
    "scaling",
    "max_det",
    "g_optimal",
    "ranking",
    "phase",
    "plans",
    "schedule",
    "policies",
    "hardness",
    "tails",
    "lemmas",
    "lower",
    "upper",
    "certificate",
    "simulate",
    "study",
]
"""The files of the core: each imports from those before it only, and from no wing."""
KNOWS = {
    "exact": set(),
    "audits": set(),
    "beyond": {"exact"},
    "field": {"exact", "audits", "beyond"},
}
"""The wings, each with the other wings that it may import from; all of them know the core."""
LIBRARIES = {
    "_threads": {"threadpoolctl"},
    "study": {"pandas", "tqdm"},
    "beyond": {"tqdm"},
    "field": {"IPython", "lazy_loader", "matplotlib", "opendp", "pandas", "tqdm"},
    "drawings": {"ipywidgets", "matplotlib", "pandas"},
}
"""What a room may use besides Python, NumPy and SciPy."""
EVERYWHERE = sys.stdlib_module_names | {"dpbai", "numpy", "scipy"}
HEAVY = {
    "IPython",
    "ipywidgets",
    "matplotlib",
    "opendp",
    "pandas",
    "scipy.signal",
    "scipy.stats",
    "tqdm",
}


def imported(source: str) -> set[str]:
    """Return what a file imports, wherever in it, by full names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {"." * node.level + f"{node.module}.{name.name}" for name in node.names}
    return found


def may_know(room: str) -> set[str]:
    """Return the rooms from which a core file or a wing may import."""
    return {*CORE, room, *KNOWS[room]} if room in KNOWS else set(CORE[: CORE.index(room)])


def wrong_imports(source: str, room: str) -> list[str]:
    """Return what a file in a room imports and must not."""
    rooms = may_know(room) | ({""} if room == "field" else set())  # `import dpbai` itself
    wrong = []
    for name in sorted(imported(source)):
        package, other, *_ = [*name.split("."), ""]
        known = package != "dpbai" or other in rooms
        if package not in EVERYWHERE | LIBRARIES.get(room, set()) or not known:
            wrong.append(name)
    return wrong


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if not room_of(path).startswith("__")]


def test_every_file_is_in_the_core_or_in_a_wing():
    assert {room_of(path) for path in FILES} == {*CORE, *KNOWS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_what_its_room_may_know_only(path: Path):
    assert wrong_imports(path.read_text(encoding="utf-8"), room_of(path)) == []


DRAWINGS = sorted((PACKAGE.parent / "book" / "drawings").glob("*.py"))


PAGES = "".join(
    path.read_text(encoding="utf-8") for path in (PACKAGE.parent / "book" / "api").glob("*.md")
)
PUBLIC = {*re.findall(r"^   (dpbai\.[\w.]+)$", PAGES, re.M), *(f"dpbai.{n}" for n in dpbai.__all__)}
"""What the book documents by its name, and what `dpbai` has."""


def not_for_drawings(source: str) -> list[str]:
    """Return what a drawing of the chapters imports and must not: what is not public."""
    return [
        name
        for name in sorted(imported(source))
        if not name.startswith(("dpbai.field.figures.", "drawings.")) and name not in PUBLIC
        and name.partition(".")[0] not in EVERYWHERE - {"dpbai"} | LIBRARIES["drawings"]
    ]  # fmt: skip


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_drawings_of_the_chapters_use_public_names_only(path: Path):
    assert not_for_drawings(path.read_text(encoding="utf-8")) == []


def test_a_private_name_in_a_drawing_is_found():
    private = "from dpbai import _check, Phase\nimport dpbai.field.session.releases"
    assert len(not_for_drawings(private)) == 2
    assert len(DRAWINGS) > 5


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("policies", "from dpbai.simulate import simulate"),
        ("rewards", "from dpbai.exact.terms import discrete_log_mgf"),
        ("plans", "from dpbai import beyond"),
        ("simulate", "import dpbai"),
        ("exact", "import dpbai.audits.audit"),
        ("audits", "from dpbai import exact"),
        ("beyond", "from dpbai.field.session import Session"),
        ("scaling", "def f():\n    import pandas"),
    ],
)
def test_an_import_of_what_a_room_must_not_know_is_found(room: str, line: str):
    assert len(wrong_imports(line, room)) == 1


def test_each_wing_says_what_it_holds_and_exports_it():
    for wing in KNOWS:
        source = (PACKAGE / wing / "__init__.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(source)), wing
        assert "__all__" in source, wing


LOADED = """
import json, sys
from dpbai.__main__ import main

def loaded():
    return sorted(sys.modules)

found = {}
for option in ("--help", "--version", "plan --help"):
    try:
        main(option.split())
    except SystemExit:
        found[option] = loaded()
import dpbai
[getattr(dpbai, name) for name in dpbai.__all__]
found["all names"] = loaded()
# Modules with the names of functions must not take their places.
import dpbai.certificate, dpbai.hardness, dpbai.max_det, dpbai.simulate, dpbai.study
found["functions"] = [
    name for name, value in vars(dpbai).items() if hasattr(value, "__code__")
]
sys.stderr.write(json.dumps(found))
"""


def test_what_is_heavy_arrives_only_when_it_is_used():
    """All claims on imports, in the order in which one fresh interpreter comes to them."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], text=True, capture_output=True, check=True
    )
    found = {name: set(values) for name, values in json.loads(done.stderr).items()}
    for option in ("--help", "--version", "plan --help"):
        assert "dpbai.field.cli" in found[option]
        assert found[option] & {"numpy", "dpbai.policies", "dpbai.field.session"} == set(), option
    assert {"dpbai.policies", "dpbai.exact", "dpbai.field.session"} < found["all names"]
    assert found["all names"] & HEAVY == set()
    assert {"certificate", "hardness", "max_det", "simulate", "study"} < found["functions"]


def test_names_that_arrive_late_are_there_all_the_same():
    assert {"DPBAI", "simulate", "study", "exact"} < set(dir(dpbai))
    for name in ("simulate", "DPBAI", "study", "max_det"):
        assert pickle.loads(pickle.dumps(getattr(dpbai, name))) is getattr(dpbai, name)
    with pytest.raises(AttributeError, match="no_such_name"):
        dpbai.no_such_name  # noqa: B018


ARMS = "arm,size,constant\na,0.1,1\nb,0.9,1\nc,0.4,1\n"
EXTRAS = ("IPython", "ipywidgets", "matplotlib", "opendp", "dask")


def run_without_extras(folder: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run commands, until one fails, as after an installation of no more than dpbai."""
    (folder / "arms.csv").write_text(ARMS, encoding="utf-8")
    hidden = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))"  # None: cannot be imported
    runs = f"any(main(command.split()) for command in {commands})"
    code = f"{hidden}; from dpbai.field.cli import main; sys.exit(2 * {runs})"
    return subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, cwd=folder)


def test_without_extras_a_user_plans_simulates_and_starts_a_session(tmp_path: Path):
    done = run_without_extras(
        tmp_path,
        "plan arms.csv --budget 90 --epsilon 1 --gap 0.2",
        "simulate arms.csv --budget 90 --epsilon 1 --gap 0.2 --trials 9",
        "study arms.csv --budgets 90 --epsilons 1 --gap 0.2 --trials 9 -o table.csv",
        "start run.json arms.csv --budget 90 --epsilon 1 --noise numpy",
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"table.csv", "run.json"}


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("start run.json arms.csv --budget 90 --epsilon 1", "opendp"),
        ("simulate arms.csv --budget 90 --epsilon 1 --gap 0.2 --figure bars.png", "figures"),
    ],
)
def test_what_is_missing_is_named_at_once(tmp_path: Path, command: str, extra: str):
    done = run_without_extras(tmp_path, command)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install 'dpbai[{extra}]'" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["arms.csv"]
