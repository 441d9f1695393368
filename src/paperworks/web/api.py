"""The JSON API: everything that the pages show, for programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from paperworks.bench.find import finder
from paperworks.bench.report.pages import Page
from paperworks.bench.report.terminal import run_to_json, trial_to_json
from paperworks.bench.store import StoreError
from paperworks.web.jobs import QueueFull
from paperworks.web.site import Site
from paperworks.web.uploads import Upload, UploadError, preview

__all__ = ["make_api", "refusals", "taken_upload"]

_POLL_SECONDS = 0.5
_CHUNK = 1 << 18
_MAX_NEW = 200
_Id = Annotated[int, Path(ge=1, le=2**31 - 1)]
_Limit = Annotated[int, Query(ge=1, le=1000)]
_Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]
_Text = Annotated[str, Query(max_length=500)]


class Problem(BaseModel):
    """Why a request is refused."""

    detail: str


class Listing(BaseModel):
    """One page of a list."""

    total: int
    limit: int
    offset: int
    items: list[dict[str, Any]]


class Found(BaseModel):
    """A method that may solve a problem."""

    slug: str
    score: float
    because: list[str]


class JobRequest(BaseModel):
    """A run to start."""

    study: str = Field(max_length=100)
    scale: Literal["smoke", "quick", "paper"] = "quick"
    upload: str | None = Field(None, max_length=64, description="Id of an uploaded file to run on.")
    target: str | None = Field(None, max_length=1000, description="Column of the file to predict.")
    seeds: int | None = Field(None, ge=1, le=1000, description="Number of seeds; that of the scale if not given.")


class JobState(BaseModel):
    """A run that was started here."""

    id: str
    study: str
    scale: str
    data: str
    state: Literal["waiting", "running", "done", "failed", "stopped"]
    run_id: int
    n_done: int
    n_total: int
    error: str


class UploadRecord(BaseModel):
    """An uploaded file."""

    id: str
    name: str
    kind: str
    size: int
    columns: list[str] = []
    rows: list[list[str]] = []
    shape: list[int] = []


def _responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Problem} for code in (421, *codes)}


_WRITES = (401, 403, 413)


def make_api(site: Site) -> APIRouter:
    """Return the routes under ``/api``."""
    api = APIRouter(prefix="/api")

    @api.get("/methods", responses=_responses())
    def methods(
        q: _Text = "",
        family: _Text = "",
        verdict: Literal["", "holds", "fails", "inconclusive", "none"] = "",
        limit: _Limit = 100,
        offset: _Offset = 0,
    ) -> Listing:
        """All methods with their verdicts; `q` looks for words in name, question, paper and authors."""
        words = q.lower().split()
        found = [
            page
            for page in site.pages()[0]
            if all(word in page.words for word in words)
            and family in ("", page.card.family)
            and verdict in ("", page.verdict or "none")
        ]
        part = found[offset : offset + limit]
        return Listing(total=len(found), limit=limit, offset=offset, items=[_method(site, page) for page in part])

    @api.get("/methods/{slug}", responses=_responses(404))
    def method(slug: str) -> dict[str, Any]:
        """The card of a method, its last run and its speed."""
        with refusals():
            page = site.page(slug)
        return {**page.card.to_json(), **_method(site, page), "last_run": run_to_json(page.run) if page.run else None}

    @api.get("/find", responses=_responses(400))
    def find(
        q: Annotated[str, Query(min_length=1, max_length=500)], limit: Annotated[int, Query(ge=1, le=50)] = 5
    ) -> list[Found]:
        """Methods for a problem told in plain words; empty if nothing fits."""
        with refusals():
            matches = finder().find(q, limit)
        return [Found(slug=m.slug, score=m.score, because=list(m.because)) for m in matches]

    @api.get("/runs", responses=_responses())
    def runs(study: _Text = "", limit: _Limit = 100, offset: _Offset = 0) -> Listing:
        """Stored runs, newest first."""
        found = site.store.runs(study or None)
        part = found[offset : offset + limit]
        return Listing(total=len(found), limit=limit, offset=offset, items=[run_to_json(run) for run in part])

    @api.get("/runs/{run_id}", responses=_responses(404))
    def run(run_id: _Id) -> dict[str, Any]:
        """One run with its verdict."""
        return run_to_json(_run(site, run_id))

    @api.get("/runs/{run_id}/trials", responses=_responses(404))
    def trials(
        run_id: _Id,
        status: Literal["", "ok", "failed", "timeout", "crashed"] = "",
        limit: _Limit = 100,
        offset: _Offset = 0,
    ) -> Listing:
        """Trials of a run in the order in which they came."""
        _run(site, run_id)
        total = site.store.count(run_id, status or None)
        part = site.store.trials(run_id, status=status or None, limit=limit, offset=offset)
        return Listing(total=total, limit=limit, offset=offset, items=[trial_to_json(trial) for trial in part])

    @api.get("/runs/{run_id}/events", responses=_responses(404), response_class=StreamingResponse)
    async def events(run_id: _Id, request: Request) -> StreamingResponse:
        """Progress of a run as server-sent events: `progress`, `trial`, and `end` when it is over."""
        await run_in_threadpool(_run, site, run_id)
        return StreamingResponse(_events(site, run_id, request), media_type="text/event-stream")

    @api.get("/compare", responses=_responses(400, 404))
    def compare(
        before: Annotated[int, Query(ge=1, le=2**31 - 1)], after: Annotated[int, Query(ge=1, le=2**31 - 1)]
    ) -> dict[str, Any]:
        """What changed between two runs of a study, and whether it is more than chance."""
        with refusals():
            return site.compare(before, after)

    @api.get("/uploads", responses=_responses())
    def uploads() -> list[UploadRecord]:
        """Uploaded files, newest first."""
        return [_upload(upload) for upload in site.uploads.all()]

    @api.get("/uploads/{upload_id}", responses=_responses(400, 404))
    def upload(upload_id: str) -> UploadRecord:
        """One uploaded file with its columns and first rows."""
        with refusals():
            found = site.uploads.get(upload_id)
            return _upload(found, preview(found))

    body = {"multipart/form-data": {"schema": {"type": "object", "required": ["file"], "properties": {"file": {"type": "string", "format": "binary"}, "encoding": {"type": "string"}}}}}  # fmt: skip  # noqa: E501

    @api.post(
        "/uploads",
        status_code=201,
        responses=_responses(400, *_WRITES),
        openapi_extra={"requestBody": {"required": True, "content": body}},
    )
    async def take(request: Request) -> UploadRecord:
        """Take a CSV, Parquet, NPZ or GraphML file."""
        with refusals():
            taken = await taken_upload(site, request)
            return _upload(taken, await run_in_threadpool(preview, taken))

    @api.get("/jobs", responses=_responses())
    def jobs() -> list[JobState]:
        """Runs started here, newest first."""
        return [JobState(**job.to_json()) for job in site.jobs.all()]

    @api.get("/jobs/{job_id}", responses=_responses(404))
    def job(job_id: str) -> JobState:
        """One run started here; `run_id` is its number once it has begun."""
        with refusals():
            return JobState(**site.jobs.get(job_id).to_json())

    @api.post("/jobs", status_code=202, responses=_responses(400, 404, 429, *_WRITES))
    def start(wanted: JobRequest) -> JobState:
        """Queue a run of a study, on its own data sets or on an uploaded file."""
        with refusals():
            found = site.uploads.get(wanted.upload) if wanted.upload is not None else None
            job = site.start(wanted.study, wanted.scale, found, wanted.target, wanted.seeds)
        return JobState(**job.to_json())

    @api.delete("/jobs/{job_id}", responses=_responses(404, *_WRITES))
    def stop(job_id: str) -> JobState:
        """Stop a run; its finished trials stay stored."""
        with refusals():
            return JobState(**site.jobs.stop(job_id).to_json())

    return api


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the site refuses into an answer: 404 for what does not exist, 429 for a full queue, else 400."""
    try:
        yield
    except QueueFull as error:
        raise HTTPException(429, str(error)) from error
    except StoreError as error:
        raise HTTPException(404, str(error)) from error
    except LookupError as error:
        if type(error) is not LookupError:  # a KeyError or IndexError is a fault of ours
            raise
        raise HTTPException(404, str(error)) from error
    except (ValueError, ImportError) as error:
        raise HTTPException(400, str(error)) from error


async def taken_upload(site: Site, request: Request) -> Upload:
    """Store the file of a form.

    Raises
    ------
    UploadError
        If there is no file, or it is refused.
    """
    try:
        async with request.form(max_files=1, max_fields=8) as form:
            file, encoding = form.get("file"), form.get("encoding", "")
            if not isinstance(file, UploadFile) or not file.filename:
                raise UploadError("no file was sent; expected a form with the field 'file'")

            async def chunks() -> AsyncIterator[bytes]:
                while block := await file.read(_CHUNK):
                    yield block

            return await site.uploads.take(file.filename, chunks(), encoding if isinstance(encoding, str) else "")
    except HTTPException as error:
        raise UploadError(f"the form can't be read: {error.detail}") from error


def _run(site: Site, run_id: int) -> Any:
    with refusals():
        return site.store.run(run_id)


def _method(site: Site, page: Page) -> dict[str, Any]:
    speed = site.speed(page.card.slug)
    return {
        "slug": page.card.slug,
        "family": page.card.family,
        "question": page.card.question,
        "paper": page.card.paper.title,
        "public_names": list(page.card.public_names),
        "install": page.card.install,
        "missing": list(page.missing),
        "own_data": page.kind or None,
        "verdict": page.verdict or None,
        "run": page.run.id if page.run else None,
        "speed": speed["cases"] if speed else [],
    }


def _upload(upload: Upload, more: dict[str, Any] | None = None) -> UploadRecord:
    return UploadRecord(id=upload.id, name=upload.name, kind=upload.kind, size=upload.size, **(more or {}))


async def _events(site: Site, run_id: int, request: Request) -> AsyncIterator[str]:
    seen = 0
    while not await request.is_disconnected():
        run = await run_in_threadpool(site.store.run, run_id)
        if run.n_done > seen:
            newest = partial(site.store.trials, run_id, limit=min(run.n_done - seen, _MAX_NEW), newest_first=True)
            for trial in reversed(await run_in_threadpool(newest)):
                yield _event("trial", trial_to_json(trial))
            seen = run.n_done
        yield _event("progress", {name: getattr(run, name) for name in ("n_planned", "n_done", "n_failed", "status")})
        if run.status != "running":
            yield _event("end", {"status": run.status})
            return
        await asyncio.sleep(_POLL_SECONDS)


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"
