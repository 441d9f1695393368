"""One battery over every public name of every method, found by walking the families.

A new method enters it by standing in its family's stub; for each public class it adds ``tests/<family>/
examples_<method>.py``, and nothing here changes.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.base
from numpydoc.validate import validate
from sklearn.utils.estimator_checks import check_estimator

import paperworks
from paperworks.bench import catalog

MODULES = sorted(
    f"paperworks.{family}.{module.name}"
    for family in paperworks.FAMILIES
    for module in pkgutil.iter_modules(importlib.import_module(f"paperworks.{family}").__path__)
    if not module.name.startswith("_")
)
NAMES = [(module, name) for module in MODULES for name in catalog.public_names(module)]
STUDY_OF = {catalog.method_module(entry.ref): entry.study for entry in catalog.entries()}

# GL01: summaries begin on the first line here. SA01, ES01: "See Also" and an extended summary are welcome.
# EX01 is asked of classes and functions, not of each method: the class example shows them at work.
OPTIONAL = {"GL01", "SA01", "ES01"}


def find(module: str, name: str) -> Any:
    assert module in STUDY_OF, f"{module} has no study"
    needed = [dist for extra in STUDY_OF[module].extras for dist in catalog.extra_requirements(extra)]
    missing = catalog.missing_distributions(tuple(needed))
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return getattr(importlib.import_module(module), name)


def is_class(module: str, name: str) -> bool:
    """Tell from the source, so that collecting the tests needs no extra."""
    return name[0].isupper()


CLASSES = [(module, name) for module, name in NAMES if is_class(module, name)]


def example(module: str, name: str) -> Any:
    _, family, method = module.split(".")
    place = f"tests.{family}.examples_{method}"
    try:
        examples = importlib.import_module(place).EXAMPLES
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
        pytest.fail(f"{module} has no {place.replace('.', '/')}.py")
    assert name in examples, f"{place} has no example of {name}"
    return examples[name]


def test_every_method_is_found() -> None:
    assert MODULES
    assert set(MODULES) == set(STUDY_OF), "each method has a study, and each study a method"
    assert all(catalog.public_names(module) for module in MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_the_method_has_its_parts(module: str) -> None:
    _, family, method = module.split(".")
    root = Path(__file__).parents[1]
    assert list((root / "tests" / family).glob(f"test_{method}*.py"))
    assert (root / "benchmarks" / f"{method}.py").is_file()
    slug = STUDY_OF[module].slug
    assert (root / "docs" / "methods" / f"{slug}.md").is_file()
    rows = [line for line in (root / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert any(line.startswith(f"| `{slug}`") for line in rows), f"README has no row for {slug}"


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_name_is_the_same_from_the_family(module: str, name: str) -> None:
    family = importlib.import_module(module.rpartition(".")[0])
    assert getattr(family, name) is find(module, name)
    assert name in dir(family)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_docstring_is_complete(module: str, name: str) -> None:
    thing = find(module, name)
    problems = {f"{name}: {code} {text}" for code, text in _problems(f"{module}.{name}")}
    if inspect.isclass(thing):
        for method, function in vars(thing).items():
            inherited_contract = method in {"forward", "extra_repr"} and not function.__doc__
            if method.startswith("_") or not inspect.isfunction(function) or inherited_contract:
                continue
            found = _problems(f"{module}.{name}.{method}")
            problems |= {f"{name}.{method}: {code} {text}" for code, text in found if code != "EX01"}
    assert not problems, "\n".join(sorted(problems))


def _problems(dotted: str) -> list[tuple[str, str]]:
    return [(code, text) for code, text in validate(dotted)["errors"] if code not in OPTIONAL]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_doctest_runs(module: str, name: str) -> None:
    thing = find(module, name)
    tests = [t for t in doctest.DocTestFinder(exclude_empty=True).find(thing, name, globs={}) if t.examples]
    assert tests, f"{name} has no example"
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for test in tests:
        output: list[str] = []
        result = doctest.DocTestRunner(optionflags=flags).run(test, out=output.append)
        assert not result.failed, "".join(output)


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_same_seed_same_result(module: str, name: str) -> None:
    find(module, name)
    given = example(module, name)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (given.use(given.make(7), "float64") for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_float32_and_float64_agree(module: str, name: str) -> None:
    find(module, name)
    given = example(module, name)
    single, double = (np.asarray(given.use(given.make(0), d), dtype=float) for d in ("float32", "float64"))
    assert np.ptp(double) > 0, "a constant shows nothing"
    np.testing.assert_allclose(single, double, rtol=given.tolerance, atol=given.tolerance * np.abs(double).max())


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_round_trips(module: str, name: str) -> None:
    find(module, name)
    given = example(module, name)
    thing = given.make(0)
    before = given.use(thing, "float64")
    copies = [pickle.loads(pickle.dumps(thing))]
    if _is_torch_module(thing):
        fresh = given.make(1)
        fresh.load_state_dict(thing.state_dict())
        copies.append(fresh)
    for copy in copies:
        if isinstance(thing, sklearn.base.BaseEstimator):
            assert copy.get_params().keys() == thing.get_params().keys()
        np.testing.assert_array_equal(given.use(copy, "float64"), before)


def _is_torch_module(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_estimator_contract(module: str, name: str) -> None:
    thing_type = find(module, name)
    if not issubclass(thing_type, sklearn.base.BaseEstimator):
        pytest.skip("not an estimator")
    given = example(module, name)
    estimator = given.make(0)
    for key, value in estimator.get_params(deep=False).items():
        assert sklearn.base.clone(estimator).get_params(deep=False).keys() >= {key}
        made = thing_type(**{**estimator.get_params(deep=False), key: value})
        assert getattr(made, key) is value, f"the constructor changes {key}"
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        return
    check_estimator(estimator, expected_failed_checks=dict(given.expected_failed_checks))


@pytest.mark.parametrize("module", [m for m in MODULES if m in STUDY_OF and STUDY_OF[m].extras])
def test_missing_extra_says_what_to_install(module: str) -> None:
    extra = STUDY_OF[module].extras[0]
    blocked = [dist.replace("-", "_") for dist in catalog.extra_requirements(extra)]
    family, name = module.rpartition(".")[0], catalog.public_names(module)[0]
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {blocked!r}: raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"try:\n    from {family} import {name}\nexcept ImportError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f'pip install "paperworks[{extra}]"' in done.stdout


def test_importing_studies_and_families_loads_no_heavy_module() -> None:
    code = (
        "import sys, paperworks\n"
        "from paperworks.bench import catalog\n"
        "catalog.entries()\n"
        "for f in paperworks.FAMILIES: getattr(paperworks, f)\n"
        "print([m for m in ('torch', 'jax', 'sklearn', 'pandas', 'scipy', 'mapie', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_methods_import_nothing_above_them() -> None:
    """Methods know numerical libraries, `_checks` and `_numerics` only, never bench, studies or another family."""
    root = Path(paperworks.__file__).parent
    for family in paperworks.FAMILIES:
        for file in (root / family).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                for name in names:
                    allowed = (f"paperworks.{family}", "paperworks._checks", "paperworks._numerics")
                    assert not name.startswith("paperworks") or name.startswith(allowed), f"{file.name} imports {name}"
