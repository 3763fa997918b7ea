"""The house: what may import what, and what arrives only when it is used."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import dpbai

PACKAGE = Path(dpbai.__file__).parent
FLOORS = (
    {"_check"},
    {"_describe", "_parallel", "_transforms"},
    {"noise", "rewards"},
    {"instance"},
    {"designs"},
    {"policies"},
    {"simulate", "exact", "privacy", "theory"},
    {"planning", "linearity", "study", "session"},
    {"figures"},
    {"cli"},
)
"""Rooms from the ground up: each imports from floors below its own, and nothing beside it."""
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
LIBRARIES = {
    "planning": {"tqdm"},
    "study": {"pandas", "tqdm"},
    "session": {"opendp"},
    "figures": {"IPython", "matplotlib", "pandas"},
    "cli": {"matplotlib", "tqdm"},
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


def wrong_imports(source: str, room: str) -> list[str]:
    """Return what a file in a room imports and must not."""
    wrong = []
    for name in sorted(imported(source)):
        package, other, *_ = [*name.split("."), ""]
        below = other == room or FLOOR.get(other, -1) < FLOOR[room]
        if package not in EVERYWHERE | LIBRARIES.get(room, set()) or not below:
            wrong.append(name)
    return wrong


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if not room_of(path).startswith("__")]


def test_every_room_is_on_a_floor():
    assert {room_of(path) for path in FILES} - set(FLOOR) == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_from_floors_below_only(path: Path):
    assert wrong_imports(path.read_text(encoding="utf-8"), room_of(path)) == []


DRAWINGS = sorted((PACKAGE.parent / "book" / "drawings").glob("*.py"))
PUBLIC = {
    f"{module.__name__}.{name}" for module in (dpbai, dpbai.theory) for name in module.__all__
}


def not_for_drawings(source: str) -> list[str]:
    """Return what a drawing of the chapters imports and must not: what is not public."""
    return [
        name
        for name in sorted(imported(source))
        if not name.startswith(("dpbai.figures.", "drawings.")) and name not in PUBLIC
        and name.partition(".")[0] not in EVERYWHERE - {"dpbai"} | LIBRARIES["drawings"]
    ]  # fmt: skip


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_drawings_of_the_chapters_use_public_names_only(path: Path):
    assert not_for_drawings(path.read_text(encoding="utf-8")) == []


def test_a_private_name_in_a_drawing_is_found():
    private = "from dpbai import _check, Phase\nimport dpbai.session.phase"
    assert len(not_for_drawings(private)) == 2
    assert len(DRAWINGS) > 5


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("policies", "from dpbai.simulate import simulate"),
        ("exact", "import dpbai.theory.upper"),
        ("theory", "from dpbai import exact"),
        ("designs", "def f():\n    import pandas"),
        ("noise", "from .rewards import Uniform"),
    ],
)
def test_an_import_from_above_is_found(room: str, line: str):
    assert len(wrong_imports(line, room)) == 1


def test_each_package_says_what_it_holds():
    for path in PACKAGE.rglob("__init__.py"):
        assert len(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") > 200, path


def loaded_after(code: str) -> set[str]:
    """Return the modules that a fresh interpreter holds after some code."""
    code += "\nimport sys; sys.stderr.write('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    return set(done.stderr.split())


def test_what_is_heavy_arrives_only_when_it_is_used():
    code = "import dpbai; [getattr(dpbai, name) for name in dpbai.__all__]"
    assert loaded_after(code) & HEAVY == set()


@pytest.mark.parametrize("option", ["--help", "--version", "plan --help"])
def test_the_command_line_gives_help_without_the_library(option: str):
    run = f"from dpbai.__main__ import main\ntry: main({option.split()})\nexcept SystemExit: pass"
    assert loaded_after(run) & {"numpy", "dpbai.policies", "dpbai.session"} == set()


def test_names_that_arrive_late_are_there_all_the_same():
    assert {"DPBAI", "simulate", "study", "theory"} < set(dir(dpbai))
    # Their modules have the same names, and must not take their places.
    code = (
        "import dpbai.simulate, dpbai.study, dpbai; dpbai.simulate.__code__, dpbai.study.__code__"
    )
    assert "dpbai.study.grid" in loaded_after(code)
    for name in ("simulate", "DPBAI", "study"):
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
    code = f"{hidden}; from dpbai.cli import main; sys.exit(2 * {runs})"
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
