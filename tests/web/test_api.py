"""The JSON API and the pages over stored runs, and runs that are started through them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis import checks

from paperworks.bench import catalog
from paperworks.bench.store import Store
from paperworks.web.app import create_app
from paperworks.web.jobs import Jobs, QueueFull
from tests.web.conftest import TABLE, Make

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def test_methods_are_listed_searched_and_paged(make_client: Make, filled: Path) -> None:
    client = make_client(filled)
    everything = client.get("/api/methods").json()
    assert [item["slug"] for item in everything["items"]] == [entry.study.slug for entry in catalog.entries()]
    part = client.get("/api/methods", params={"limit": 2, "offset": 1}).json()
    assert part["items"] == everything["items"][1:3]
    assert part["total"] == everything["total"] == len(catalog.entries())
    found = client.get("/api/methods", params={"q": "imbalanced margin"}).json()["items"]
    assert "immax" in [item["slug"] for item in found]
    judged = client.get("/api/methods", params={"verdict": "none"}).json()["items"]
    assert {"factorial-design", "shift-auc"}.isdisjoint(item["slug"] for item in judged)
    card = client.get("/api/methods/factorial-design").json()
    assert card["last_run"]["id"] == card["run"]
    assert "FactorialDesign" in card["public_names"]
    assert client.get("/api/methods/nothing").status_code == 404


def test_runs_and_trials_are_those_of_the_store(make_client: Make, filled: Path) -> None:
    client = make_client(filled)
    runs = client.get("/api/runs").json()
    with Store(filled) as store:
        stored = store.runs()
        trials = store.trials(1)
    assert [run["id"] for run in runs["items"]] == [run.id for run in stored]
    assert client.get("/api/runs", params={"study": "shift-auc"}).json()["total"] == 1
    found = client.get("/api/runs/1/trials", params={"limit": 1000}).json()
    assert found["total"] == len(trials)
    assert [trial["metrics"] for trial in found["items"]] == [
        {k: v if v == v and abs(v) < float("inf") else None for k, v in trial.metrics.items()} for trial in trials
    ]
    assert client.get("/api/runs/1/trials", params={"status": "failed"}).json()["items"] == []
    assert client.get("/api/runs/99").status_code == 404
    assert client.get("/api/runs/99/trials").status_code == 404
    assert client.get("/api/runs/99/events").status_code == 404


def test_a_finished_run_tells_its_trials_and_its_end(make_client: Make, filled: Path) -> None:
    client = make_client(filled)
    text = client.get("/api/runs/1/events").text
    events = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
    assert [event["event"] for event in events][-2:] == ["progress", "end"]
    progress = json.loads(events[-2]["data"])
    assert progress["n_done"] == progress["n_planned"] > 0
    assert sum(event["event"] == "trial" for event in events) == min(200, progress["n_done"])


def test_a_run_against_itself_is_unchanged(make_client: Make, filled: Path) -> None:
    client = make_client(filled)
    found = client.get("/api/compare", params={"before": 1, "after": 2}).json()
    assert {row["finding"] for row in found["rows"]} <= {"unchanged", ""}
    assert "unchanged" in {row["finding"] for row in found["rows"]}
    assert client.get("/api/compare", params={"before": 1, "after": 3}).status_code == 400
    assert client.get("/api/compare", params={"before": 1, "after": 77}).status_code == 404
    assert "unchanged" in client.get("/compare", params={"before": 1, "after": 2}).text


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/methods/shift-auc",
        "/methods/immax",
        "/runs",
        "/runs/1",
        "/data",
        "/find?q=rare%20classes",
        "/find?q=bake%20a%20cake",
        "/compare",
    ],
)
def test_pages_answer(make_client: Make, filled: Path, path: str) -> None:
    answer = make_client(filled).get(path)
    assert answer.status_code == 200
    assert answer.text.startswith("<!doctype html>")


def test_unknown_places_say_so(make_client: Make) -> None:
    client = make_client()
    for path in ("/methods/nothing", "/runs/7", "/jobs/x", "/data/x", "/nothing"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "That did not work" in answer.text
    assert "Nothing here fits" in client.get("/find", params={"q": "bake a cake"}).text


def wait_for(client: TestClient, job_id: str, *states: str) -> dict:
    for _ in range(600):
        job = client.get(f"/api/jobs/{job_id}").json()
        if job["state"] in states:
            return job
        time.sleep(0.1)
    raise AssertionError(f"still {job}")


def test_a_run_on_an_uploaded_table(make_client: Make) -> None:
    client = make_client()
    upload = client.post("/api/uploads", files={"file": ("shop.csv", TABLE.encode(), "text/csv")}).json()
    assert upload["columns"] == ["size", "colour", "sold"]
    wanted = {"study": "shift-auc", "scale": "smoke", "upload": upload["id"], "target": "sold"}
    started = client.post("/api/jobs", json=wanted)
    assert started.status_code == 202
    job = wait_for(client, started.json()["id"], "done", "failed")
    assert job["state"] == "done", job
    run = client.get(f"/api/runs/{job['run_id']}").json()
    assert run["arguments"]["own"]["label"] == "shop.csv (sold)"
    assert run["n_done"] == run["n_planned"] == job["n_done"]
    assert "shop.csv" in client.get(f"/runs/{job['run_id']}").text
    assert client.get(f"/jobs/{job['id']}").headers["location"] == f"/runs/{job['run_id']}"


@pytest.mark.parametrize(
    ("wanted", "code", "said"),
    [
        ({"study": "nothing"}, 404, "nothing"),
        ({"study": "/etc/passwd.py"}, 404, "passwd"),
        ({"study": "module:os"}, 404, "module:os"),
        ({"study": "cojer", "scale": "huge"}, 422, "scale"),
        ({"study": "cojer", "upload": "../x"}, 404, "../x"),
        ({"study": "shift-auc", "target": "sold", "upload": "FILE", "seeds": 0}, 422, "seeds"),
        ({"study": "shift-auc", "target": "colour of sale", "upload": "FILE"}, 400, "colour of sale"),
        ({"study": "shift-auc", "upload": "FILE"}, 400, "target"),
    ],
)
def test_what_can_not_be_run_is_refused(make_client: Make, wanted: dict, code: int, said: str) -> None:
    client = make_client()
    upload = client.post("/api/uploads", files={"file": ("shop.csv", TABLE.encode(), "text/csv")}).json()
    wanted = {key: upload["id"] if value == "FILE" else value for key, value in wanted.items()}
    answer = client.post("/api/jobs", json=wanted)
    assert answer.status_code == code
    assert said in answer.text
    assert client.get("/api/jobs").json() == []


def test_the_form_says_what_is_wrong_and_keeps_what_was_chosen(make_client: Make) -> None:
    client = make_client()
    place = client.post("/data", files={"file": ("shop.csv", TABLE.encode(), "text/csv")}).headers["location"]
    answer = client.post(place, data={"study": "shift-auc", "target": "", "scale": "smoke"})
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert '<option value="shift-auc" selected>' in answer.text
    assert client.post(place, data={"study": "shift-auc", "target": "sold", "scale": "vast"}).status_code == 400


def test_the_queue_has_a_limit_and_jobs_can_be_stopped(tmp_path: Path) -> None:
    jobs = Jobs(lambda: Store(tmp_path / "results.sqlite"), max_waiting=2, jobs=1)
    first = jobs.add("factorial-design", "smoke", "")
    for _ in range(600):
        if first.n_done:
            break
        time.sleep(0.1)
    waiting = [jobs.add("factorial-design", "smoke", "") for _ in range(2)]
    with pytest.raises(QueueFull, match="2 runs"):
        jobs.add("factorial-design", "smoke", "")
    for job in (*waiting, first):
        jobs.stop(job.id)
    jobs.close()
    assert [job.state for job in (first, *waiting)] == ["stopped"] * 3
    assert not any(job.run_id for job in waiting)
    with Store(tmp_path / "results.sqlite") as store:
        (run,) = store.runs()
        assert run.status == "interrupted"
        assert 0 < run.n_done == len(store.trials(run.id)) < run.n_planned
    with pytest.raises(LookupError):
        jobs.get("x")
    with pytest.raises(QueueFull):
        jobs.add("factorial-design", "smoke", "")


def test_a_failing_job_is_told_and_the_next_one_runs(tmp_path: Path) -> None:
    jobs = Jobs(lambda: Store(tmp_path / "results.sqlite"), jobs=1)
    bad = jobs.add("no-such-study", "smoke", "")
    good = jobs.add("factorial-design", "smoke", "", datasets=["diabetes"], seeds=[0])
    for _ in range(600):
        if good.state == "done":
            break
        time.sleep(0.1)
    jobs.close()
    assert (bad.state, good.state) == ("failed", "done")
    assert "no-such-study" in bad.error


def test_answers_are_as_the_schema_says(tmp_path: Path) -> None:
    app = create_app(str(tmp_path / "empty.sqlite"), uploads=tmp_path / "uploads", jobs=1, max_waiting=0)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "localhost"})
    operations = list(schema.get_all_operations())
    assert len(operations) >= 13
    for result in operations:
        operation = result.ok()

        @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            answer = case.call(headers={"host": "localhost"})
            assert answer.status_code < 500, answer.text
            case.validate_response(answer, checks=CHECKS)

        check()
    app.state.site.jobs.close()
