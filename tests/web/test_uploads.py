"""Hostile files: kept in their folder, never unpacked without bound, never executed, not kept if refused."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.conftest import TABLE, Make

MEGABYTE = 2**20


def send(client, name: str, content: bytes):
    return client.post("/api/uploads", files={"file": (name, content, "application/octet-stream")})


def kept(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "uploads"
    return [file for file in folder.rglob("*") if file.is_file()] if folder.exists() else []


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("shop.csv", TABLE.encode()),
        ("shop.tsv", TABLE.replace(",", "\t").encode()),
        ("shop.csv.gz", gzip.compress(TABLE.encode())),
        ("größe 2.csv", TABLE.encode()),
        ("shop.parquet", parquet(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))),
        ("shop.npz", npz(X=np.eye(3), y=np.arange(3))),
        (
            "net.graphml",
            b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
            b'<node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>',
        ),
    ],
)
def test_good_files_are_taken_and_shown(make_client: Make, tmp_path: Path, name: str, content: bytes) -> None:
    client = make_client()
    answer = send(client, name, content)
    assert answer.status_code == 201, answer.text
    record = answer.json()
    assert record["name"] == name
    assert record["shape"][0] >= 2
    assert [file.read_bytes() for file in kept(tmp_path)] == [content]
    assert client.get(f"/api/uploads/{record['id']}").json() == record
    assert [upload["id"] for upload in client.get("/api/uploads").json()] == [record["id"]]


@pytest.mark.parametrize(
    "name", ["../../evil.csv", "..\\..\\evil.csv", "/etc/evil.csv", "C:\\evil.csv", ".evil.csv", "a\0b.csv"]
)
def test_names_never_leave_the_folder(make_client: Make, tmp_path: Path, name: str) -> None:
    client = make_client()
    answer = send(client, name, TABLE.encode())
    assert answer.status_code == 201, answer.text
    (file,) = kept(tmp_path)
    assert file.parent.parent == tmp_path / "uploads"
    assert file.name in ("evil.csv", "b.csv", "ab.csv", "a%00b.csv")


def bomb_gzip() -> bytes:
    return gzip.compress(b"a,b\n" + b"1,2\n" * MEGABYTE)


def bomb_gzip_in_members() -> bytes:
    return gzip.compress(b"a,b\n" + b"1,2\n" * 1000) * 1000


def bomb_npz() -> bytes:
    return npz(X=np.zeros((1000, 1000)))


def lying_npz() -> bytes:
    """An array whose header promises more than any memory holds."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }"
        header += b" " * (118 - len(header) - 10) + b"\n"
        archive.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    return buffer.getvalue()


def bomb_parquet() -> bytes:
    return parquet(pd.DataFrame({"a": np.zeros(3_000_000)}))


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (Path(self.mark),))


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;">]>
<graphml><graph edgedefault="undirected"><node id="&lol2;"/></graph></graphml>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<graphml><graph edgedefault="undirected"><node id="&x;"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("big.csv", b"a,b\n" + b"1,2\n" * MEGABYTE, "allowed"),
        ("bomb.csv.gz", bomb_gzip(), "unpacks"),
        ("bomb.csv.gz", bomb_gzip_in_members(), "unpacks"),
        ("bomb.npz", bomb_npz(), "unpacks"),
        ("bomb.parquet", bomb_parquet(), "unpacks"),
        ("laughs.graphml", LAUGHS, "entities"),
        ("outside.graphml", OUTSIDE, "entities"),
        ("laughs.graphml", LAUGHS.decode().encode("utf-16"), "entities"),
        ("laughs.graphml.gz", gzip.compress(LAUGHS), "entities"),
        ("model.pkl", pickle.dumps([1, 2]), "must end in"),
        ("page.html", b"<script>alert(1)</script>", "must end in"),
        ("run.csv.py", b"import os", "must end in"),
        ("noend", b"a,b\n1,2\n", "must end in"),
        ("empty.csv", b"", "empty"),
        ("not.parquet", b"PAR1 nothing PAR1", "not a Parquet"),
        ("not.npz", b"PK nothing", "not an NPZ"),
        ("not.csv.gz", b"plain", "not a gzip"),
    ],
)
def test_hostile_files_are_refused_and_not_kept(make_client: Make, tmp_path: Path, name, content, said) -> None:
    answer = send(make_client(max_upload_mb=1.0), name, content)
    assert answer.status_code in (400, 413)
    assert said in answer.json()["detail"]
    assert kept(tmp_path) == []


@pytest.mark.parametrize("place", ["member", "array"])
def test_nothing_is_unpickled(make_client: Make, tmp_path: Path, place: str) -> None:
    mark = tmp_path / "executed"
    if place == "array":
        content = npz(X=np.array([Trap(str(mark))], dtype=object))
    else:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("X.npy", pickle.dumps(Trap(str(mark))))
        content = buffer.getvalue()
    client = make_client()
    answer = send(client, "trap.npz", content)
    assert answer.status_code == 400, answer.text
    assert not mark.exists()


def test_an_array_that_promises_too_much_is_one_clear_error(make_client: Make) -> None:
    answer = send(make_client(max_upload_mb=1.0), "lying.npz", lying_npz())
    assert answer.status_code == 400, answer.text
    assert "lying.npz unpacks to more" in answer.json()["detail"]


def test_a_bad_row_is_named(make_client: Make) -> None:
    client = make_client()
    answer = send(client, "torn.csv", b"a,b\n1,2\n3,4,5,6\n")
    assert answer.status_code == 400
    assert "torn.csv" in answer.json()["detail"]
    assert "3" in answer.json()["detail"]


def test_a_form_without_a_file_and_a_torn_form(make_client: Make) -> None:
    client = make_client()
    assert client.post("/api/uploads", data={"file": "text"}).status_code == 400
    assert client.post("/api/uploads", content=b"x").status_code == 400
    torn = client.post(
        "/api/uploads", content=b"--x\r\nnothing", headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert torn.status_code == 400


def test_a_body_without_a_length_is_counted_while_it_comes(make_client: Make, tmp_path: Path) -> None:
    def endless():
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        for _ in range(200):
            yield b"1,2\n" * 10_000

    client = make_client(max_upload_mb=1.0)
    answer = client.post("/api/uploads", content=endless(), headers={"content-type": "multipart/form-data; boundary=x"})
    assert answer.status_code == 413
    assert kept(tmp_path) == []


def test_old_files_make_room(make_client: Make, tmp_path: Path) -> None:
    client = make_client()
    client.app.state.site.uploads.max_files = 3
    for i in range(5):
        assert send(client, f"f{i}.csv", TABLE.encode()).status_code == 201
    assert len(kept(tmp_path)) == 3


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=st.text(min_size=1, max_size=60),
    content=st.binary(max_size=400),
    end=st.sampled_from([".csv", ".csv.gz", ".npz", ".parquet", ".graphml", ""]),
)
def test_any_bytes_get_an_answer(one_client: TestClient, name: str, content: bytes, end: str) -> None:
    answer = send(one_client, (name + end).encode("utf-8", "replace").decode(), content)
    assert answer.status_code in (201, 400), answer.text


@pytest.fixture
def one_client(make_client: Make) -> TestClient:
    return make_client()
