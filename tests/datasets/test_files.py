"""The user's own files: what is taken, by which rule, and which line says why a file is not."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paperworks.datasets import DataError, catalog, info, load, own_file, tabular_encoder
from paperworks.datasets.files import _Request


@pytest.fixture
def write(tmp_path):
    def write(text, name="my.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return write


def lines(header, row, n):
    return "\n".join([header, *(row(i) for i in range(n))]) + "\n"


def table(path, **settings):
    return load(own_file(path, **settings).ref)


def trouble(path, **settings):
    with pytest.raises(DataError) as caught:
        own_file(path, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Reading


def test_a_byte_order_mark_is_no_part_of_the_name(write):
    path = write(b"\xef\xbb\xbf" + lines('"y","größe"', lambda i: f"{i % 2},{i}", 60).encode())
    own = own_file(path, target="y")
    assert own.label == "my.csv (y)"
    assert own.shape == (60, 1)
    data = load(own.ref)
    assert list(data.X) == ["größe"]
    assert data.y.tolist() == [i % 2 for i in range(60)]
    assert trouble(path, target="größe") == (
        "my.csv: target 'größe' looks continuous (60 different numbers in 60 rows); "
        "a target of this study must hold classes"
    )
    assert trouble(path, target="Größe").endswith("there is no target 'Größe'; columns, closest first: größe, y")


@pytest.mark.parametrize(("sep", "name"), [(",", "a.csv"), (";", "a.csv"), ("\t", "a.tsv"), ("|", "a.txt")])
def test_the_separator_is_found(write, sep, name):
    text = lines(sep.join(["u", '"v, w; x"', "y"]), lambda i: sep.join([str(i), f'"{i}, ; | b"', str(i % 2)]), 15)
    data = table(write(text, name), target="y")
    assert list(data.X) == ["u", "v, w; x"]
    assert data.X.iloc[3].tolist() == [3, "3, ; | b"]


def test_a_decimal_comma_is_read(write):
    path = write(lines("preis;menge;y", lambda i: f"{i},5;-{i},25e1;{i % 2}", 30))
    data = table(path, target="y")
    assert data.X["preis"].tolist() == [i + 0.5 for i in range(30)]
    assert data.X["menge"].tolist() == [-(i * 10 + 2.5) for i in range(30)]
    assert "preis, menge: decimal comma read as a point" in data.notes
    assert table(path, target="preis", task="regression").y[4] == 4.5


def test_compressed_files_are_read(write):
    text = lines("a,y", lambda i: f"{i},{i % 3}", 30)
    path = write(gzip.compress(text.encode()), "my.csv.gz")
    assert table(path, target="y").X["a"].sum() == 435
    assert "no readable gzip file" in trouble(write(path.read_bytes()[:-9], "cut.csv.gz"), target="y")
    assert "no readable gzip file" in trouble(write("a,y", "no.csv.gz"), target="y")


@pytest.mark.parametrize(
    ("text", "encoding", "settings", "said"),
    [
        (
            "a,größe\n1,2\n",
            "latin-1",
            {},
            "row 1: byte 0xf6 (at position 4 of the file) is not UTF-8; try --encoding latin-1",
        ),
        (
            "a,b\n1,x\n2,“y”\n",
            "cp1252",
            {},
            "row 3: byte 0x93 (at position 10 of the file) is not UTF-8; try --encoding cp1252",
        ),
        ("a,b\n1,x\n", "utf-16", {}, "begins with the mark of UTF-16, so it is not UTF-8; try --encoding utf-16"),
        ("a,b\n1,x\n", "utf-16-le", {}, "zero bytes, so it is not UTF-8 text; try --encoding utf-16"),
        ("a,ö\n1,x\n", "utf-8", {"encoding": "ascii"}, "byte 0xc3 (at position 2 of the file) is not ascii"),
        ("a,b\n1,x\n", "utf-8", {"encoding": "klingon"}, "no encoding called 'klingon'"),
    ],
)
def test_the_wrong_encoding_is_told_with_its_place(write, text, encoding, settings, said):
    assert said in trouble(write(text, encoding=encoding), target="a", **settings)


def test_a_wrong_byte_far_down_is_found_in_its_row(write):
    text = lines("a,y", lambda i: f"{i},{i % 2}", 200_000).encode() + b"7,\xe9\n"
    assert "row 200002: byte 0xe9" in trouble(write(text), target="y")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "utf-8"])
def test_a_named_encoding_is_used(write, encoding):
    path = write(lines("größe,y", lambda i: f"{i},{'jé'[i % 2]}", 20), encoding=encoding)
    own = own_file(path, target="y", encoding=encoding)
    assert set(load(own.ref).y) == {"j", "é"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "my.csv: is empty"),
        ("\n\n  \n", "my.csv: is empty"),
        ("a,b,y\n", "my.csv: holds a header but no rows"),
        ("a,a,y\n1,2,0\n", "the column name 'a' appears twice (columns 1 and 2)"),
        ("a,b,y\n1,2,0\n3,4\n5,6,1\n", "row 3 has 2 fields, the header has 3 (separator comma)"),
        ("a,b,y\n1,2,0\n3,4,5,6\n5,6,1\n", "row 3 has 4 fields, the header has 3"),
        ("a,b,y\n1,2,0,9\n3,4,1,9\n", "row 2 has 4 fields, the header has 3"),
        ('a,b,y\n1,"2\n2",0\n3,4\n', "row 3 (line 4) has 2 fields, the header has 3"),
        ('a,y\n1,"x\n2,z\n', "a quoted field that begins near row 2 is never closed"),
        ("y\n1\n2\n", "no feature column is left"),
        ("a,y\n,1\n,2\n", "no feature column is left (a: no cell holds a value, left out)"),
    ],
)
def test_a_broken_csv_is_one_clear_line(write, text, said):
    assert said in trouble(write(text), target="y")


def test_places_that_are_no_readable_file(write, tmp_path, monkeypatch):
    assert "is a folder; name a file (.csv" in trouble(tmp_path, target="y")
    assert "there is no file" in trouble(tmp_path / "gone.csv", target="y")
    said = trouble(write("", "book.xlsx"), target="y")
    assert "a table is read from .csv, .tsv, .txt, .csv.gz" in said
    assert ".parquet" in said
    assert "a graph is read from .graphml" in trouble(write("", "g.csv"), kind="graph", task="none")
    path = write("a,y\n1,2\n", "locked.csv")

    def locked(self, *_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", locked)  # the tests may run as a user whom no permission stops
    assert trouble(path, target="y") == f"{path} cannot be read: Permission denied"


def test_arguments_are_checked(write):
    path = write("a,y\n1,0\n2,1\n")
    with pytest.raises(ValueError, match="kind must be one of table, graph, matrix, series; got 'tabel'"):
        own_file(path, kind="tabel")
    with pytest.raises(ValueError, match="task must be one of"):
        own_file(path, task="ranking")
    with pytest.raises(TypeError, match="drop must be a sequence of column names"):
        own_file(path, target="y", drop="a")
    assert trouble(path) == "my.csv: name the target column with --target; columns: a, y"
    assert "there is no column to drop 'b'" in trouble(path, target="y", drop=["b"])
    assert "column 'y' is the target" in trouble(path, target="y", drop=["y"])
    assert "no target is used here" in trouble(path, target="y", task="none")


# Rules for features


def test_text_dates_and_truth_values_become_usable(write):
    def row(i):
        return f"2024-01-{i % 28 + 1},{'red' if i % 3 == 0 else 'blue'},{'true' if i % 2 else 'false'},{i},{i % 2}"

    own = own_file(write(lines("when,colour,ok,x,y", row, 80)), target="y")
    data = load(own.ref)
    first = (pd.Timestamp("2024-01-01") - pd.Timestamp("1970-01-01")).days
    assert data.X["when"].tolist() == [first + i % 28 for i in range(80)]
    assert data.X["ok"].tolist() == [i % 2 for i in range(80)]
    assert data.X["colour"].tolist()[:2] == ["red", "blue"]
    assert own.notes == data.notes
    assert own.notes == (
        "when: dates, taken as days since 1970-01-01",
        "colour: text, one-hot coded by the training rows",
        "ok: true/false, taken as 1/0",
    )
    encoder = tabular_encoder(data.X).fit(data.X.iloc[:40])
    assert encoder.get_feature_names_out().tolist() == ["when", "ok", "x", "colour=blue", "colour=red"]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-02", 1.0),
        ("1969-12-31T12:00", -0.5),
        ("1970-01-01 06:00:00", 0.25),
        ("1970-01-01T00:00:43.2Z", 0.0005),
        ("1970-01-01T00:00:00+06:00", -0.25),
        ("1970-01-01T00:00:00-0130", 1.5 / 24),
        ("9999-12-31", 2932896.0),
    ],
)
def test_dates_are_days(write, text, days):
    data = table(write(f"d,y\n{text},0\n1970-01-01,1\n"), target="y")
    assert data.X["d"].tolist() == pytest.approx([days, 0.0], abs=1e-12)


def test_missing_cells_count_only_where_the_column_is_numeric(write):
    def row(i):
        gap = ["NA", "NaN", "null", "N/A", "", "#N/A", "None"][i % 7]
        return f"{gap if i % 10 == 0 else i},{'NA' if i % 2 else 'DE'},{'' if i % 5 else 'a'},{i % 2}"

    data = table(write(lines("n,country,t,y", row, 100)), target="y")
    assert data.X["n"].isna().tolist() == [i % 10 == 0 for i in range(100)]
    assert set(data.X["country"]) == {"NA", "DE"}
    assert data.X["t"].isna().tolist() == [i % 5 != 0 for i in range(100)]
    assert "n: missing cells get the median of the training rows" in data.notes
    assert np.isfinite(tabular_encoder(data.X).fit_transform(data.X)).all()


def test_truth_values_with_gaps_and_yes_no(write):
    def row(i):
        return f"{['TRUE', 'false', ''][i % 3]},{['Yes', 'no'][i % 2]},{['true', 'NA'][i % 2]},{i % 2}"

    data = table(write(lines("a,b,c,y", row, 30)), target="y")
    assert data.X["a"].iloc[:2].tolist() == [1.0, 0.0]
    assert np.isnan(data.X["a"].iloc[2])
    assert set(data.X["b"]) == {"Yes", "no"}
    assert data.X["c"].isna().sum() == 15


def test_a_few_odd_cells_are_a_mistake_and_named(write):
    path = write(lines("a,b,y", lambda i: f"{'abc' if i in (500, 600, 700) else i},1,{i % 2}", 1000))
    assert trouble(path, target="y") == (
        "my.csv: column 'a' holds numbers except in 3 of 1000 cells, the first is 'abc' in row 502; "
        "correct them or leave the column out with --drop a"
    )
    assert list(table(path, target="y", drop=["a"]).X) == ["b"]
    path = write(lines("d,y", lambda i: f"2024-02-{30 if i == 28 else i % 28 + 1},{i % 2}", 50))
    assert "'d' holds dates except in 1 of 50 cells, the first is '2024-02-30' in row 30" in trouble(path, target="y")


def test_row_numbers_count_blank_lines_and_fields_of_several_lines(write):
    path = write('t,a,y\n"two\nlines",1,0\n\nx,inf,1\nx,2,0\n')
    assert "column 'a': row 4 holds an infinite number" in trouble(path, target="y")


@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e999"])
def test_infinite_numbers_are_refused(write, value):
    path = write(f"a,b,y\n1,2,0\n2,{value},1\n")
    assert "my.csv: column 'b': row 3 holds an infinite number" in trouble(path, target="y")
    path = write(f"a,b,y\n1,NA,0\n2,{value},1\n")
    assert "my.csv: column 'b': row 3 holds an infinite number" in trouble(path, target="y")


def test_identifiers_are_refused_all_at_once(write):
    path = write(lines("id,full name,kind,x,y", lambda i: f"u{i},n {i},{'ab'[i % 2]},{i},{i % 2}", 100))
    said = trouble(path, target="y")
    assert "'id' (100 different texts in 100 cells), 'full name' (100 different texts in 100 cells)" in said
    assert said.endswith("leave out with --drop id --drop 'full name'")
    assert list(table(path, target="y", drop=["id", "full name"]).X) == ["kind", "x"]


def test_thousands_of_empty_columns_are_one_note(write):
    header = "y,x," + ",".join(f"c{i}" for i in range(3000))
    own = own_file(write(lines(header, lambda i: f"{i % 2},{i}" + "," * 3000, 20)), target="y")
    assert own.shape == (20, 1)
    assert own.notes == ("c0, c1, c2, c3, c4, c5, c6, c7 and 2992 more: no cell holds a value, left out",)


def test_an_index_column_is_left_out(write, tmp_path):
    frame = pd.DataFrame({"x": np.arange(30) ** 2, "y": np.arange(30) % 2})
    frame.to_csv(tmp_path / "i.csv")
    data = table(tmp_path / "i.csv", target="y")
    assert list(data.X) == ["x"]
    assert "only counts the rows" in data.notes[0]
    data = table(write(lines(",x,y", lambda i: f"{i * i},{i},{i % 2}", 30)), target="y")
    assert list(data.X) == ["column 1", "x"]


# Rules for targets


def test_the_class_called_na_stays(write):
    path = write(lines("u,country", lambda i: f"{i},{['DE', 'NA', 'ZA'][i % 3]}", 120))
    assert sorted(set(table(path, target="country").y)) == ["DE", "NA", "ZA"]
    path = write(lines("u,grade", lambda i: f"{i},{[1, 'NA', 2][i % 3]}", 120))
    assert sorted(set(table(path, target="grade").y)) == ["1", "2", "NA"]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_empty_targets_are_counted(write, task):
    path = write(lines("u,t", lambda i: f"{i},{[1, 2, '', 4, ' ', 6][i % 6]}", 120))
    said = "my.csv: target 't': 40 of 120 targets are missing, the first in row 4; fill or remove those rows"
    assert trouble(path, target="t", task=task) == said


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["1", "10", "2"], [1, 2, 10]),
        (["+1", "-1"], [-1, 1]),
        (["1.0", "2.0"], [1, 2]),
        (["true", "FALSE"], [0, 1]),
        (["01", "1", "2"], ["01", "1", "2"]),
        (["1", "zwei", "ü"], ["1", "zwei", "ü"]),
        (["100000000000000000000", "100000000000000000001"], ["100000000000000000000", "100000000000000000001"]),
    ],
)
def test_labels_stay_apart(write, cells, classes):
    data = table(write(lines("a,y", lambda i: f"{i % 7},{cells[i % len(cells)]}", 60)), target="y")
    assert np.unique(data.y).tolist() == classes


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (lambda i: f"{i},{i}", "looks continuous (60 different numbers in 60 rows)"),
        (lambda i: f"{i},{(i % 3) / 2}", "looks continuous (3 different numbers in 60 rows)"),
        (lambda i: f"{i},n{i}", "looks like an identifier (60 different texts in 60 rows)"),
        (lambda i: f"{i},k", "has a single class, 'k'"),
        (lambda i: f"{i},7", "has a single class, 7"),
    ],
)
def test_what_is_no_class(write, row, said):
    assert said in trouble(write(lines("x,größe", row, 60)), target="größe")


def test_many_rows_allow_many_classes(write):
    data = table(write(lines("x,y", lambda i: f"{i},{i % 25}", 300)), target="y")
    assert data.y.nunique() == 25
    assert "looks continuous (25 different" in trouble(write(lines("x,y", lambda i: f"{i},{i % 25}", 240)), target="y")


def test_a_class_with_one_row_is_kept_and_named(write):
    own = own_file(write(lines("a,y", lambda i: f"{i},{'k' if i % 2 else 'l'}", 20) + "3,ü\n"), target="y")
    assert own.notes == ("classes of y with a single row: 'ü'",)
    assert (load(own.ref).y == "ü").sum() == 1


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([1, 2, "NA"], "target 'y' must hold finite numbers; row 4 holds 'NA'"),
        ([1, "inf", "x"], "target 'y' must hold finite numbers; row 3 holds 'inf'"),
        ([5, 5, 5], "target 'y' has the same value, 5, in all 3 rows"),
    ],
)
def test_what_is_no_number_to_predict(write, cells, said):
    assert said in trouble(write(lines("a,y", lambda i: f"{i},{cells[i]}", 3)), target="y", task="regression")


# Other formats and kinds


def test_parquet_keeps_its_types(tmp_path):
    path = tmp_path / "p.parquet"
    frame = pd.DataFrame(
        {
            "n": [1, 2, None] * 4,
            "t": ["a", "NA", None] * 4,
            "d": pd.to_datetime(["1970-01-02", None, "1970-01-04"] * 4),
            "b": [True, None, False] * 4,
            "c": pd.Categorical(["u", "v", "u"] * 4),
            "y": ["1", "10", "2"] * 4,
            "lists": [[1], [2], [3]] * 4,
        },
        index=range(5, 17),
    )
    frame.to_parquet(path)
    assert "column 'lists' holds list<element: int64>" in trouble(path, target="y")
    assert "column 'lists' holds list" in trouble(path, target="lists")
    data = table(path, target="y", drop=["lists"])
    assert list(data.X) == ["n", "t", "d", "b", "c"]
    assert np.unique(data.y).tolist() == ["1", "10", "2"]
    assert data.X["d"].iloc[[0, 2]].tolist() == [1.0, 3.0]
    assert data.X["b"].iloc[[0, 2]].tolist() == [1.0, 0.0]
    assert data.X["t"].iloc[:2].tolist() == ["a", "NA"]
    assert "4 of 12 targets are missing, the first in row 3" in trouble(path, target="n", task="regression")
    assert np.unique(table(path, target="c", drop=["lists"]).y).tolist() == ["u", "v"]
    path.write_bytes(path.read_bytes()[:200])
    assert "is no readable Parquet file" in trouble(path, target="y")


def test_npz_takes_plain_arrays_only(tmp_path):
    path = tmp_path / "a.npz"
    X, y = np.arange(24.0).reshape(12, 2), np.array(list("abcd") * 3)
    np.savez(path, X=X, y=y, extra=np.arange(12) % 3)
    own = own_file(path)
    assert own.label == "a.npz (y)"
    data = load(own.ref)
    assert np.array_equal(data.X.to_numpy(), X)
    assert data.y.tolist() == y.tolist()
    assert table(path, target="extra").y.tolist() == [0, 1, 2] * 4
    assert "has no array 'z'; its arrays: X, y, extra" in trouble(path, target="z")
    np.savez(path, X=np.array([{}, {}], dtype=object), y=y)
    assert "objects are refused" in trouble(path)
    path.write_bytes(pickle.dumps({"X": 1}))
    assert "is no readable NPZ file" in trouble(path)
    np.savez(path, X=X, y=y[:5])
    assert "array 'y' must have shape (12,), got (5,)" in trouble(path)
    np.savez(path, X=X[0], y=y)
    assert "must hold numbers in rows and columns, got shape (2,)" in trouble(path)


def test_graphs_come_from_graphml(write, tmp_path):
    nx.write_graphml(nx.karate_club_graph(), tmp_path / "k.graphml")
    own = own_file(tmp_path / "k.graphml", kind="graph", task="none")
    assert own.shape == (34, 78)
    assert nx.is_isomorphic(load(own.ref), nx.karate_club_graph())
    said = trouble(write("<graphml>\n<node\n</graphml>", "g.graphml"), kind="graph", task="none")
    assert said == "g.graphml: malformed XML in line 3, column 1"
    assert "no readable GraphML" in trouble(write("<html></html>", "g.graphml"), kind="graph", task="none")
    assert "no target" in trouble(tmp_path / "k.graphml", kind="graph", task="none", target="club")


def test_matrices_and_series_are_frames_of_numbers(write):
    own = own_file(write("a,b\n1,\n,2.5\n3,4\n"), kind="matrix", task="none")
    assert own.notes == ("a, b: missing cells stay missing",)
    frame = load(own.ref)
    assert np.array_equal(frame.to_numpy(), [[1, np.nan], [np.nan, 2.5], [3, 4]], equal_nan=True)
    assert "column 'b' holds text" in trouble(write("a,b\n1,x\n2,y\n"), kind="matrix", task="none")
    path = write(lines("day,v", lambda i: f"1970-01-{i + 1:02d},{i * i}", 20), "s.csv")
    series = load(own_file(path, kind="series", task="none").ref)
    assert series.index.tolist() == list(range(20))
    assert series["v"].tolist() == [i * i for i in range(20)]


def test_a_table_without_target(write):
    own = own_file(write(lines("a,b", lambda i: f"{i},{i}", 5)), task="none")
    data = load(own.ref)
    assert data.X.shape == (5, 2)
    assert len(data.y) == 0
    assert data.target == ""


# References


def test_a_changed_file_is_refused(write):
    path = write(lines("a,y", lambda i: f"{i},{i % 2}", 20))
    own = own_file(path, target="y")
    path.write_text(lines("a,y", lambda i: f"{i},{i % 3}", 20))
    catalog.load_once.cache_clear()  # another process
    with pytest.raises(DataError, match=r"my\.csv has changed since it was checked"):
        load(own.ref)
    again = own_file(path, target="y")
    assert again.ref != own.ref
    assert again.digest != own.digest
    assert load(again.ref).y.nunique() == 3
    path.unlink()
    catalog.load_once.cache_clear()
    with pytest.raises(DataError, match="there is no file"):
        load(again.ref)


def test_a_reference_says_everything(write):
    own = own_file(
        write(lines("größe,b,y", lambda i: f"{i},{i},{i % 2}", 20), "Äpfel & Söhne.csv"), target="y", drop=["b"]
    )
    record = info(own.ref)
    assert own.ref.startswith("file:/")
    assert own.ref.isascii()
    assert (record.kind, record.task, record.description) == ("table", "classification", "Äpfel & Söhne.csv (y)")
    data = load(own.ref)
    data.X["größe"] = 0
    assert load(own.ref).X["größe"].tolist() == list(range(20))
    for bad in ("file:", "file:/x.csv", "file:/x.csv?kind=table&task=none&sha256=abc", own.ref.replace("table", "t")):
        with pytest.raises(DataError, match="malformed reference"):
            load(bad)


def test_names_match_however_accents_are_composed(write):
    path = write(lines("gro\u0308\u00dfe,a", lambda i: f"{i % 2},{i}", 20))
    assert table(path, target="gr\u00f6\u00dfe").y.nunique() == 2


NAME = st.text(min_size=1, max_size=12).filter(lambda s: "\0" not in s)
PATH = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(PATH, st.one_of(st.none(), NAME), st.one_of(st.none(), st.just("latin-1")), st.lists(NAME, max_size=3))
def test_any_text_survives_a_reference(name, target, encoding, drop):
    drop = tuple(text.encode("utf-8", "ignore").decode() or "x" for text in drop)
    target = None if target is None else target.encode("utf-8", "ignore").decode() or "x"
    request = _Request(Path("/data") / f"{name}.csv", "table", "regression", target, encoding, drop, "0" * 64)
    assert _Request.parse(request.ref()) == request


def test_a_path_that_is_no_unicode_survives(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"gr\xfc\xdfe.csv")
    with open(path, "wb") as stream:
        stream.write(lines("a,y", lambda i: f"{i},{i % 2}", 20).encode())
    assert load(own_file(os.fsdecode(path), target="y").ref).X.shape == (20, 1)


CELL = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_what_pandas_writes_is_what_is_read(tmp_path, data):
    names = data.draw(
        st.lists(CELL, min_size=2, max_size=4, unique_by=lambda s: pd.Series([s]).str.normalize("NFC")[0])
    )
    classes = data.draw(st.lists(CELL.map(lambda s: f"k{s}"), min_size=2, max_size=4, unique=True))
    n = 12
    frame = pd.DataFrame({name: np.arange(n) * 0.1 - 1 + i for i, name in enumerate(names[:-1])})
    frame[names[-1]] = [classes[i % len(classes)] for i in range(n)]
    separator = data.draw(st.sampled_from(",;\t"))
    path = tmp_path / "round.csv"
    frame.to_csv(path, index=False, sep=separator)
    table_ = load(own_file(path, target=names[-1]).ref)
    assert list(table_.X) == names[:-1]
    assert np.allclose(table_.X.to_numpy(), frame[names[:-1]].to_numpy(), rtol=1e-15, atol=0)
    assert table_.y.tolist() == frame[names[-1]].tolist()


def test_a_hundred_thousand_rows(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100_000, 3)), columns=list("abc"))
    frame["colour"] = np.array(["red", "green"])[rng.integers(0, 2, 100_000)]
    frame["y"] = rng.integers(0, 3, 100_000)
    frame.to_csv(tmp_path / "big.csv", index=False)
    data = table(tmp_path / "big.csv", target="y")
    assert data.X.shape == (100_000, 4)
    assert np.allclose(data.X["a"], frame["a"], rtol=1e-15)
    assert (data.y == frame["y"]).all()
