"""Downloads, against a server on this machine and against none."""

from __future__ import annotations

import hashlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError

import pytest

from paperworks.datasets import DataError, available, catalog, info, load, remote, remote_file

CONTENT = "Größe\n1\n".encode()
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PAPERWORKS_CACHE", str(folder))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    return folder


@pytest.fixture
def server(tmp_path):
    """Serve a folder with data.csv; count the requests."""
    (tmp_path / "data.csv").write_bytes(CONTENT)
    requests = []

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, *args):
            requests.append(args)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/data.csv", requests
        http.shutdown()
        thread.join()


def test_a_file_is_downloaded_once(server, cache):
    url, requests = server
    path = remote_file(url, DIGEST.upper(), "data.csv")
    assert path == cache / "data.csv"
    assert path.read_bytes() == CONTENT
    assert remote_file(url, DIGEST, "data.csv") == path
    assert len(requests) == 1


def test_a_damaged_copy_is_downloaded_again(server, cache):
    url, requests = server
    remote_file(url, DIGEST, "data.csv").write_bytes(b"half a fi")
    assert remote_file(url, DIGEST, "data.csv").read_bytes() == CONTENT
    assert len(requests) == 2


def test_other_content_is_refused(server, cache):
    url, _ = server
    with pytest.raises(DataError, match="does not have the expected SHA-256"):
        remote_file(url, "0" * 64, "data.csv")
    assert not (cache / "data.csv").exists()


def test_without_network_the_message_says_where_to_put_the_file(cache):
    with pytest.raises(DataError) as caught:
        remote_file("http://127.0.0.1:9/data.csv", DIGEST, "data.csv")
    message = str(caught.value)
    assert "\n" not in message
    assert "data.csv cannot be had from http://127.0.0.1:9/data.csv" in message
    assert str(cache / "data.csv") in message
    assert DIGEST in message
    cache.mkdir(exist_ok=True)
    (cache / "data.csv").write_bytes(CONTENT)  # by hand
    assert remote_file("http://127.0.0.1:9/data.csv", DIGEST, "data.csv").read_bytes() == CONTENT


def test_a_missing_page_is_no_data(server):
    url, _ = server
    with pytest.raises(DataError, match="HTTPError"):
        remote_file(url.replace("data", "nothing"), DIGEST, "x.csv")


def test_openml_offline_is_one_clear_line(monkeypatch, cache):
    def offline(**_):
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    with pytest.raises(DataError, match=r"openml-task:361072 \(cpu_act, OpenML data set 44132\) .*URLError") as caught:
        load("openml-task:361072")
    assert str(cache) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_openml_set_of_another_name_is_refused(monkeypatch):
    import pandas as pd
    from sklearn.utils import Bunch

    answer = Bunch(data=pd.DataFrame({"a": [1.0]}), target=pd.Series([3], name="t"), details={"name": "cpu_act"})
    asked = {}

    def fetch(**settings):
        asked.update(settings)
        return answer

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    table = remote._openml(361072)
    assert (table.target, table.y.tolist(), asked["data_id"]) == ("t", [3.0], 44132)
    answer.details["name"] = "something_else"
    with pytest.raises(DataError, match="is 'something_else', not 'cpu_act'"):
        remote._openml(361072)


def test_available_asks_the_host(monkeypatch):
    asked = []

    def connect(address, timeout):
        asked.append(address)
        raise OSError

    monkeypatch.setattr("socket.create_connection", connect)
    catalog._reachable.cache_clear()
    assert not available("openml-task:361072")
    assert asked == [("www.openml.org", 443)]
    assert available("wine")
    assert info("wine").host == ""
    catalog._reachable.cache_clear()
