"""The encoder sees training rows only, and gives finite numbers whatever the columns hold."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from paperworks.datasets import tabular_encoder


def encoded(X, train=None):
    encoder = tabular_encoder(X).fit(X if train is None else X.iloc[train])
    return pd.DataFrame(encoder.transform(X), columns=encoder.get_feature_names_out())


def test_all_kinds_of_columns_have_their_values():
    X = pd.DataFrame(
        {
            "colour": ["red", None, "blue"],
            "n": [1.0, np.nan, 5.0],
            "Int": pd.array([1, None, 2], dtype="Int64"),
            "ok": [True, False, True],
            "maybe": pd.array([True, None, True], dtype="boolean"),
            "loose": [False, None, False],
            "when": pd.to_datetime(["1970-01-02", None, "1970-01-04T12:00"], format="ISO8601"),
            "zoned": pd.to_datetime(["1970-01-02T00:00Z"] * 3).tz_convert("Asia/Tokyo"),
            "day": [dt.date(1970, 1, 11), dt.date(9999, 12, 31), None],
            "took": pd.to_timedelta([12, 36, None], unit="h"),
            "money": [decimal.Decimal("1.5"), None, decimal.Decimal("2.5")],
            "text": pd.array(["NA", "x", None], dtype="string"),
            "cat": pd.Categorical([3, 2, None]),
        }
    )
    out = encoded(X)
    far = (dt.date(9999, 12, 31) - dt.date(1970, 1, 1)).days
    expected = {
        "n": [1, 3, 5],
        "Int": [1, 1.5, 2],
        "took": [0.5, 1.5, 1.0],
        "money": [1.5, 2.0, 2.5],
        "ok": [1, 0, 1],
        "maybe": [1, 1, 1],
        "loose": [0, 0, 0],
        "when": [1, 2.25, 3.5],
        "zoned": [1, 1, 1],
        "day": [10, far, (10 + far) / 2],
        "colour=(missing)": [0, 1, 0],
        "colour=blue": [0, 0, 1],
        "colour=red": [1, 0, 0],
        "text=(missing)": [0, 0, 1],
        "text=NA": [1, 0, 0],
        "text=x": [0, 1, 0],
        "cat=(missing)": [0, 0, 1],
        "cat=2": [0, 1, 0],
        "cat=3": [1, 0, 0],
    }
    assert list(out) == list(expected)
    for name, values in expected.items():
        assert out[name].tolist() == values, name


def test_only_training_rows_are_learned_from():
    X = pd.DataFrame({"n": [1.0, 3.0, np.nan, 1000.0], "c": ["a", "b", "a", "new"]})
    out = encoded(X, train=[0, 1])
    assert list(out) == ["n", "c=a", "c=b"]
    assert out["n"].tolist() == [1.0, 3.0, 2.0, 1000.0]
    assert out.loc[3, ["c=a", "c=b"]].tolist() == [0.0, 0.0]
    # The same training rows give the same code whatever else the table holds.
    alone = encoded(X.iloc[:2])
    assert out.iloc[:2].equals(alone)


def test_rare_and_unseen_categories_share_a_column():
    frequent = [f"c{i:02d}" for i in range(30) for _ in range(40 - i)]
    X = pd.DataFrame({"c": [*frequent, "unseen"]})
    out = encoded(X, train=range(len(frequent)))
    assert out.shape[1] == 20
    assert (out.sum(axis=1) == 1).all()
    rare = out.columns[-1]
    assert rare == "c=infrequent_sklearn"
    assert out[rare].iloc[-1] == 1
    assert out[rare].sum() == sum(40 - i for i in range(19, 30)) + 1


@pytest.mark.parametrize("column", [[np.nan] * 3, pd.array([None] * 3, dtype="boolean"), pd.to_datetime([None] * 3)])
def test_a_column_without_training_values_stays_and_is_finite(column):
    X = pd.DataFrame({"gone": column, "n": [1.0, 2.0, 3.0]})
    out = encoded(X)
    assert out["gone"].tolist() == [0.0, 0.0, 0.0]


def test_it_is_dense_float_and_survives_clone_and_pickle():
    X = pd.DataFrame({"c": ["a", "b"] * 10, "n": range(20)})
    encoder = pickle.loads(pickle.dumps(clone(tabular_encoder(X)).fit(X)))
    out = encoder.transform(X)
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.float64
    model = make_pipeline(clone(encoder), DecisionTreeClassifier()).fit(X, X["c"])
    assert model.score(X, X["c"]) == 1.0


def test_columns_may_have_numbers_for_names():
    X = pd.DataFrame([[1.0, "a"], [2.0, "b"]])
    X[0] = X[0].astype(float)
    encoder = tabular_encoder(X).fit(X)
    assert encoder.transform(X).tolist() == [[1, 1, 0], [2, 0, 1]]
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1=a", "x1=b"]


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="X must be a pandas DataFrame, got ndarray"):
        tabular_encoder(np.ones((2, 2)))
    with pytest.raises(ValueError, match="at least one column"):
        tabular_encoder(pd.DataFrame(index=[0]))
    with pytest.raises(ValueError, match="a twice"):
        tabular_encoder(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(TypeError, match=r"column 'z' of X must hold .* got dtype complex128"):
        tabular_encoder(pd.DataFrame({"z": [1j]}))
    with pytest.raises(TypeError, match="column 'lists'"):
        tabular_encoder(pd.DataFrame({"lists": [[1], [2]]}))


CELLS = st.one_of(st.none(), st.sampled_from(["a", "b", "", "NA", "é", "zu Hause"]))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.one_of(st.none(), st.floats(-1e6, 1e6)), CELLS), min_size=4, max_size=30))
def test_a_row_is_coded_the_same_beside_any_other_rows(rows):
    X = pd.DataFrame(rows, columns=["n", "c"]).astype({"n": float, "c": object})
    half = len(X) // 2
    encoder = tabular_encoder(X).fit(X.iloc[:half])
    whole = encoder.transform(X)
    assert np.isfinite(whole).all()
    one_by_one = np.vstack([encoder.transform(X.iloc[[i]]) for i in range(len(X))])
    assert np.array_equal(whole, one_by_one)
    blocks = whole[:, 1:]
    known = X["c"].isin(X["c"].iloc[:half].dropna()) | (X["c"].isna() & X["c"].iloc[:half].isna().any())
    assert np.array_equal(blocks.sum(axis=1), known.astype(float))
