"""Finds studies: by slug, module path or file, without importing any method.

A study is found by its place, ``paperworks/studies/<family>/<method>.py``; there is no registry. A reference is a
text that any process can resolve: ``module:paperworks.studies.conformal.cojer`` or ``file:/path/of/my_study.py``.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement

from paperworks.bench.study import Study, StudyError

__all__ = [
    "Entry",
    "entries",
    "example_of",
    "extra_requirements",
    "load_study",
    "method_module",
    "missing_distributions",
    "parsed",
    "public_names",
    "resolve",
]

_STUDIES = "paperworks.studies"
_PARSING = threading.Lock()


@dataclass(frozen=True)
class Entry:
    """A study of the first edition and the reference that any process can load it by."""

    ref: str
    study: Study


@cache
def entries() -> tuple[Entry, ...]:
    """Return every study that ships with paperworks, sorted by family and slug.

    Returns
    -------
    tuple of Entry
        One entry per study module.

    Examples
    --------
    >>> from paperworks.bench.catalog import entries
    >>> "cojer" in [entry.study.slug for entry in entries()]
    True
    """
    package = importlib.import_module(_STUDIES)
    found = []
    for family in pkgutil.iter_modules(package.__path__, _STUDIES + "."):
        if not family.ispkg:
            continue
        folder = importlib.import_module(family.name)
        for module in pkgutil.iter_modules(folder.__path__, family.name + "."):
            ref = f"module:{module.name}"
            found.append(Entry(ref, load_study(ref)))
    slugs = [entry.study.slug for entry in found]
    double = sorted({slug for slug in slugs if slugs.count(slug) > 1})
    if double:
        raise StudyError(f"two studies share a slug: {', '.join(double)}")
    return tuple(sorted(found, key=lambda entry: (entry.study.family, entry.study.slug)))


def resolve(name: str) -> str:
    """Return the reference of a study.

    Parameters
    ----------
    name : str
        A slug (``cojer``), a reference, a module path or the path of a Python file that defines ``STUDY``.

    Returns
    -------
    str
        A reference for `load_study`.

    Raises
    ------
    LookupError
        If there is no such study; the message names the closest slugs.
    """
    if name.startswith(("module:", "file:")):
        return name
    if name.endswith(".py"):
        path = Path(name).expanduser().resolve()
        if not path.is_file():
            raise LookupError(f"no study file {name!r}")
        return f"file:{path}"
    for entry in entries():
        if entry.study.slug == name:
            return entry.ref
    if "." in name:
        return f"module:{name}"
    slugs = [entry.study.slug for entry in entries()]
    close = difflib.get_close_matches(name, slugs, n=3)
    hint = f"did you mean {', '.join(close)}?" if close else "`paperworks list` shows all"
    raise LookupError(f"no study named {name!r}; {hint}")


@lru_cache(maxsize=256)
def load_study(ref: str) -> Study:
    """Import the module behind a reference and return its ``STUDY``; cached per process.

    Parameters
    ----------
    ref : str
        Reference as `resolve` gives it.

    Returns
    -------
    Study
        The study.

    Raises
    ------
    LookupError
        If the module or file does not exist on this machine.
    StudyError
        If it defines no ``STUDY``, or a malformed one.
    """
    kind, _, place = ref.partition(":")
    if kind == "module":
        module = _import_module(place)
    elif kind == "file":
        module = _import_file(Path(place))
    else:
        raise LookupError(f"a study reference starts with 'module:' or 'file:', got {ref!r}")
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise StudyError(f"{place} defines no STUDY of type paperworks.bench.study.Study")
    return study


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise LookupError(f"no study module {name!r}") from error
        raise


def _import_file(path: Path) -> ModuleType:
    """Import a file under a name made from its path, so that classes in it can be pickled by reference."""
    if not path.is_file():
        raise LookupError(f"no study file {str(path)!r} on this machine")
    name = f"_paperworks_study_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LookupError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def parsed(file: Path) -> ast.Module:
    """Return the syntax tree of a source file; one at a time, since CPython 3.11 can't parse in two threads at once."""
    with _PARSING:
        return ast.parse(file.read_text(encoding="utf-8"))


def method_module(ref: str) -> str:
    """Return the module of the method that a study of paperworks is about, or an empty text for a user's study."""
    place = ref.removeprefix("module:")
    return "paperworks." + place.removeprefix(_STUDIES + ".") if place.startswith(_STUDIES + ".") else ""


def public_names(module: str) -> tuple[str, ...]:
    """Return the public names of a method's module, as its family's stub lists them, without importing it.

    Parameters
    ----------
    module : str
        For instance ``paperworks.conformal.cojer``.

    Returns
    -------
    tuple of str
        Classes first, then functions, each in the order of the stub; a module that is itself the public name
        gives its own name.
    """
    family, _, name = module.rpartition(".")
    spec = importlib.util.find_spec(family)
    if spec is None or spec.origin is None:
        return ()
    tree = parsed(Path(spec.origin).with_suffix(".pyi"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1]
    names = [alias.name for node in imports if node.module == name for alias in node.names]
    names += [alias.name for node in imports if node.module is None for alias in node.names if alias.name == name]
    return tuple(sorted(names, key=lambda text: not text[0].isupper()))


def example_of(module: str, name: str) -> str:
    """Return the Examples section of a public name's docstring, read from source without importing the module."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    origin = Path(spec.origin)
    files = sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]
    for file in files:
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                return _examples_section(ast.get_docstring(node) or "")
    return ""


def _examples_section(docstring: str) -> str:
    lines = docstring.splitlines()
    try:
        start = lines.index("Examples") + 2
    except ValueError:
        return ""
    taken: list[str] = []
    for line, following in zip(lines[start:], [*lines[start + 1 :], ""], strict=True):
        if following and set(following) == {"-"} and line.strip():
            break
        taken.append(line)
    return "\n".join(taken).strip()


def extra_requirements(extra: str) -> tuple[str, ...]:
    """Return the distributions that an extra of paperworks brings, nested extras included."""
    found: list[str] = []
    for text in importlib.metadata.requires("paperworks") or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or not marker.evaluate({"extra": extra}) or marker.evaluate({"extra": ""}):
            continue
        if requirement.name == "paperworks":
            for nested in sorted(requirement.extras):
                found.extend(extra_requirements(nested))
        else:
            found.append(requirement.name)
    return tuple(dict.fromkeys(found))


def missing_distributions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the distributions `names` that are not installed."""
    missing = []
    for name in names:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return tuple(missing)
