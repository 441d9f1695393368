"""Who may do what: hosts, origins, the token, and what every answer carries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.web.conftest import TABLE, Make

FILE = {"file": ("a.csv", TABLE.encode(), "text/csv")}


@pytest.mark.parametrize(
    "path", ["/", "/find?q=rare", "/runs", "/data", "/compare", "/login", "/api/methods", "/assets/site.js", "/no"]
)
def test_every_answer_forbids_inline_scripts_and_other_sites(make_client: Make, path: str) -> None:
    answer = make_client().get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("127.evil.example", 421),
    ],
)
def test_other_names_that_point_here_are_refused(make_client: Make, host: str, code: int) -> None:
    assert make_client().get("/api/runs", headers={"host": host}).status_code == code


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_forms_of_other_sites_are_refused(make_client: Make, headers: dict[str, str]) -> None:
    client = make_client()
    for path in ("/api/uploads", "/data"):
        assert client.post(path, files=FILE, headers=headers).status_code == 403
    assert client.post("/api/jobs", json={"study": "cojer"}, headers=headers).status_code == 403
    assert client.get("/api/uploads").json() == []


def test_own_forms_are_taken(make_client: Make) -> None:
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    answer = make_client().post("/data", files=FILE, headers=headers)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/data/")


def test_whatever_writes_needs_the_token(make_client: Make) -> None:
    client = make_client(token="secret", hosts=None)
    attempts = [
        lambda **more: client.post("/api/uploads", files=FILE, **more),
        lambda **more: client.post("/data", files=FILE, **more),
        lambda **more: client.post("/api/jobs", json={"study": "nothing"}, **more),
        lambda **more: client.delete("/api/jobs/0", **more),
        lambda **more: client.post("/jobs/0/stop", **more),
        lambda **more: client.post("/data/0", data={"study": "cojer"}, **more),
    ]
    for attempt in attempts:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Bearer "},
            {"cookie": "paperworks_token=no"},
        ):
            assert attempt(headers=headers).status_code == 401
        assert attempt(headers={"authorization": "Bearer secret"}).status_code in (201, 303, 404)
    assert client.get("/").status_code == 200
    assert client.get("/api/runs").status_code == 200


def test_logging_in_sets_a_cookie_that_scripts_cannot_read(make_client: Make) -> None:
    client = make_client(token="secret", hosts=None)
    assert client.post("/login", data={"token": "wrong"}).status_code == 403
    assert "set-cookie" not in client.post("/login", data={}).headers
    answer = client.post("/login", data={"token": "secret"})
    assert answer.status_code == 303
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert client.post("/data", files=FILE).status_code == 303


def test_names_in_data_are_text(make_client: Make) -> None:
    client = make_client()
    hostile = "<script>alert(1)</script>"
    content = f"{hostile},b\n{hostile},2\nx,3\n".encode()
    answer = client.post("/data", files={"file": (f"{hostile}.csv", content, "text/csv")})
    page = client.get(answer.headers["location"]).text
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 3
    for path in (f"/find?q={hostile}", f"/methods/{hostile}", f"/assets/{hostile}", f"/jobs/{hostile}"):
        assert "<script>alert" not in client.get(path).text


@pytest.mark.parametrize(
    "path",
    ["/assets/../app.py", "/assets/..%2f..%2fapp.py", "/assets/index.html", "/data/..%2f..", "/api/uploads/..%2f.."],
)
def test_no_other_file_is_served(make_client: Make, path: str) -> None:
    assert make_client().get(path).status_code == 404


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('fastapi', 'starlette', 'uvicorn'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from paperworks.cli import main\n"
        "main(['serve', '--port', '0'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert 'pip install "paperworks[serve]"' in done.stderr
