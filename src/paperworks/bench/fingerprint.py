"""What a trial's result depends on, as one digest: results are reused only where nothing of it has changed.

The digest covers the trial's names, its scale and seed, the content of a user's own data, the versions of what
computes it, and the source of the study, of the methods it imports and of whatever these import in turn. The source is
read, never imported; libraries that are installed count by their version.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import pickletools
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qsl

from paperworks.bench.catalog import extra_requirements
from paperworks.bench.study import Contender, Study

__all__ = ["fingerprint", "payload_digest", "relevant_versions", "source_digest", "source_files"]

_ROOT = "paperworks"
_EXCLUDED = ("paperworks.bench",)
_INCLUDED = ("paperworks.bench.seeds",)
"""The layer that runs trials has no part in their results, but for the random streams."""

_NUMERICAL = ("numpy", "scipy", "scikit-learn")


def fingerprint(
    *,
    study: str,
    contender: str,
    dataset: str,
    seed: int,
    scale: str,
    source: str,
    version: str,
    versions: Mapping[str, str],
    threads: int = 1,
    machine: str = "",
) -> str:
    """Return the digest under which the result of a trial is kept.

    Parameters
    ----------
    study, contender, scale : str
        Slug of the study, name of the contender, name of the scale.
    dataset : str
        Name of the data set, or the reference of a user's own file. The place of such a file doesn't matter, its
        content and the settings do.
    seed : int
        Seed of the trial.
    source : str
        Digest of the source, see `source_digest`.
    version : str
        Version of paperworks.
    versions : mapping of str to str
        Versions of the libraries that the result depends on, see `relevant_versions`.
    threads : int, default=1
        Threads per trial; the order of sums depends on them.
    machine : str, default=""
        The machine, for results that depend on it (timings).

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> from paperworks.bench.fingerprint import fingerprint
    >>> common = dict(study="cojer", contender="CoJER", seed=0, scale="quick", source="", version="1", versions={})
    >>> one = fingerprint(dataset="file:/a/shop.csv?target=sold&sha256=12", **common)
    >>> one == fingerprint(dataset="file:/b/moved.csv?target=sold&sha256=12", **common)
    True
    >>> one == fingerprint(dataset="file:/a/shop.csv?target=size&sha256=12", **common)
    False
    """
    parts = {
        "study": study,
        "contender": contender,
        "dataset": _without_place(dataset),
        "seed": seed,
        "scale": scale,
        "source": source,
        "version": version,
        "versions": dict(versions),
        "threads": threads,
        "machine": machine,
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _without_place(dataset: str) -> str | list[list[str]]:
    """Return the settings and the digest of an own file without its path; other names as they are."""
    place, mark, query = dataset.partition("?")
    if not (place.startswith("file:") and mark):
        return dataset
    settings = parse_qsl(query, keep_blank_values=True)
    if not any(name == "sha256" and value for name, value in settings):
        return dataset
    return [["file"], *sorted([name, value] for name, value in settings)]


def relevant_versions(study: Study, contender: Contender) -> dict[str, str]:
    """Return the installed versions of the libraries that a contender's results depend on.

    Parameters
    ----------
    study : Study
        Its extras count for all contenders.
    contender : Contender
        What it requires counts for itself.

    Returns
    -------
    dict of str to str
        Version by distribution, an empty text where it isn't installed.
    """
    names = [*_NUMERICAL, *(name for extra in study.extras for name in extra_requirements(extra)), *contender.requires]
    return {name: _version(name) for name in sorted(set(names))}


@lru_cache(maxsize=512)
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def source_digest(ref: str) -> str:
    """Return the digest of the source behind a study or a module.

    Parameters
    ----------
    ref : str
        ``module:<name>``, ``file:<path>`` or the name of a module.

    Returns
    -------
    str
        64 hexadecimal digits; a function of the source's text alone, not of where it lies.
    """
    return _digest(source_files(ref))


def payload_digest(payload: bytes) -> str:
    """Return the digest of a pickled study: its own code and values, and the source of the modules that it names."""
    names = {
        text
        for opcode, text, _ in pickletools.genops(payload)
        if isinstance(text, str) and text.isascii() and all(part.isidentifier() for part in text.split("."))
    }
    sources = [_Source(name, None) for name in sorted(names)]
    return hashlib.sha256(payload + _digest(_follow(sources)).encode()).hexdigest()


def source_files(ref: str) -> dict[str, Path]:
    """Return the files that `source_digest` covers, by a name that doesn't depend on their place.

    Imports are followed wherever they stand in a file, within functions too: those of paperworks and those of the
    user's own modules, but not into the standard library or installed packages. A name that comes from a family
    leads to the method's module alone.
    """
    kind, _, place = ref.rpartition(":")
    if ref.startswith("file:"):
        kind, place = "file", ref.removeprefix("file:")
    if kind == "file":
        return _follow([_Source("<study>", Path(place))])
    return _follow([_Source(place, None)])


def _digest(files: Mapping[str, Path]) -> str:
    lines = [f"{name}\0{_content_digest(path, path.stat().st_mtime_ns)}" for name, path in sorted(files.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@lru_cache(maxsize=4096)
def _content_digest(path: Path, modified: int) -> str:
    del modified
    content = path.read_bytes()
    if path.suffix in (".py", ".pyi"):  # the same text whatever its line ends
        content = content.replace(b"\r\n", b"\n")
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class _Source:
    """A module to read: by name, or a study file by path."""

    name: str
    path: Path | None


def _follow(roots: Iterable[_Source]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    pending = list(roots)
    seen: set[str] = set()
    beside = next((source.path.parent for source in pending if source.path is not None), None)
    while pending:
        source = pending.pop()
        if source.name in seen:
            continue
        seen.add(source.name)
        files = _module_files(source.name, beside) if source.path is None else {source.name: source.path}
        for name, path in files.items():
            if name in found:
                continue
            found[name] = path
            if path.suffix == ".py":
                package = name if path.name == "__init__.py" else name.rpartition(".")[0]
                targets = _imports(path, path.stat().st_mtime_ns, package)
                pending.extend(_Source(_through_family(target), None) for target in targets)
    return found


def _is_excluded(name: str) -> bool:
    if name in _INCLUDED:
        return False
    return name == _ROOT or any(name == prefix or name.startswith(prefix + ".") for prefix in _EXCLUDED)


@lru_cache(maxsize=4096)
def _imports(path: Path, modified: int, package: str) -> tuple[str, ...]:
    """Return the dotted names that a file imports, each name of a ``from`` import as a name of its own."""
    del modified
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # a template among a package's files, say
        return ()
    targets: list[str] = []
    aliases = {_ROOT: _ROOT}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                targets.append(alias.name)
                if alias.asname and alias.name.partition(".")[0] == _ROOT:
                    aliases[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            targets.extend(f"{base}.{alias.name}" if alias.name != "*" else base for alias in node.names)
            if base == _ROOT:
                aliases.update({alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names})
    chains = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    inner = {id(node.value) for node in chains}
    for node in chains:
        if id(node) not in inner:
            head, *rest = _dotted(node)
            if head in aliases:
                targets.append(".".join([aliases[head], *rest]))
    return tuple(dict.fromkeys(targets))


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _dotted(node: ast.expr) -> list[str]:
    """Return ``a.b.c`` as a list of names; an empty first name if it doesn't start with one."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    names.append(node.id if isinstance(node, ast.Name) else "")
    return names[::-1]


def _through_family(target: str) -> str:
    """Return what a dotted name of an import stands for: the method's module for a name that a family exports."""
    parts = target.split(".")
    if len(parts) >= 3 and parts[0] == _ROOT:
        stub = _package_folder() / parts[1] / "__init__.pyi"
        if stub.is_file():
            module = _stub_names(stub, stub.stat().st_mtime_ns).get(parts[2])
            if module is not None:
                return f"{_ROOT}.{parts[1]}.{module}"
    return target


@lru_cache(maxsize=64)
def _stub_names(stub: Path, modified: int) -> dict[str, str]:
    """Return the module of each name that a family's stub exports; modules map to themselves."""
    del modified
    names: dict[str, str] = {}
    for node in ast.parse(stub.read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names.update({alias.asname or alias.name: node.module or alias.name for alias in node.names})
    return names


def _package_folder() -> Path:
    return Path(__file__).parents[1]


def _module_files(name: str, beside: Path | None) -> dict[str, Path]:
    """Return the files of a module, or of the module or package in which a dotted name is defined."""
    parts = name.split(".")
    top = _top_level(parts[0], beside)
    if top is None:
        return {}
    place, depth = top, 1
    while depth < len(parts) and place.is_dir():
        below = _in_folder(place, parts[depth])
        if below is None:
            break
        place, depth = below, depth + 1
    dotted = ".".join(parts[:depth])
    if _is_excluded(dotted):
        return {}
    if place.is_file():
        return {dotted: place}
    files = {}
    for path in place.rglob("*" if parts[0] == _ROOT else "*.py"):  # the data that ships with paperworks counts too
        if path.is_file() and "__pycache__" not in path.parts:
            inner = path.relative_to(place)
            steps = [dotted, *inner.parent.parts, *([] if path.name == "__init__.py" else [inner.stem])]
            files[".".join(steps) if path.suffix == ".py" else f"{dotted}/{inner.as_posix()}"] = path
    return files


def _in_folder(folder: Path, name: str) -> Path | None:
    if (folder / name / "__init__.py").is_file():
        return folder / name
    if (folder / f"{name}.py").is_file():
        return folder / f"{name}.py"
    return None


@lru_cache(maxsize=1024)
def _top_level(name: str, beside: Path | None) -> Path | None:
    """Return where a top-level module lies if it is paperworks or the user's own; None for all others."""
    if name == _ROOT:
        return _package_folder()
    if name in sys.builtin_module_names or name in sys.stdlib_module_names:
        return None
    if beside is not None and (near := _in_folder(beside, name)) is not None:
        return near
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    origin = Path(spec.origin).resolve()
    if any(origin.is_relative_to(folder) for folder in _installed()):
        return None
    return origin.parent if origin.name == "__init__.py" else origin


@lru_cache(maxsize=1)
def _installed() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in names})
