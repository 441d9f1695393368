"""The application: pages for people, JSON for programs, one store behind both."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated, Any

from paperworks._checks import extra
from paperworks.bench.card import all_cards
from paperworks.bench.find import finder
from paperworks.bench.report.pages import ASSETS
from paperworks.bench.report.terminal import trial_to_json
from paperworks.bench.store import Store, StoreError
from paperworks.bench.study import SCALES

with extra("serve"):
    from fastapi import FastAPI, Form, HTTPException, Query, Request
    from fastapi import Path as PathParameter
    from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException as AnyHTTPException

    from paperworks.web.api import make_api, refusals, taken_upload
    from paperworks.web.jobs import Jobs, QueueFull
    from paperworks.web.security import COOKIE, Guard, is_secret
    from paperworks.web.site import Site
    from paperworks.web.uploads import Uploads, preview

__all__ = ["create_app"]

_TEMPLATES = Path(__file__).parents[1] / "bench" / "report" / "templates"
_MEDIA = {".css": "text/css", ".js": "text/javascript"}
_SHOWN_TRIALS = 100
_SHOWN_RUNS = 200
_RunId = Annotated[int, PathParameter(ge=1, le=2**31 - 1)]


def create_app(
    store: str | None = None,
    *,
    uploads: Path,
    token: str | None = None,
    hosts: Collection[str] | None = ("localhost",),
    max_upload_mb: float = 50.0,
    max_waiting: int = 8,
    jobs: int | None = None,
    benchmarks: Path | None = None,
) -> FastAPI:
    """Return the application over a store.

    Parameters
    ----------
    store : str, optional
        File or database address of the results; that of the user if not given.
    uploads : Path
        Folder of uploaded files.
    token : str, optional
        Secret that whoever writes or starts work must know; None asks for none.
    hosts : collection of str, optional
        Names of this server beside the loopback's; None answers for any name.
    max_upload_mb : float, default 50
        Greatest size of a file, packed and unpacked.
    max_waiting : int, default 8
        Runs that may wait for their turn.
    jobs : int, optional
        Trials of a run at the same time; one per processor if not given.
    benchmarks : Path, optional
        Folder of measured speed ratios.

    Returns
    -------
    FastAPI
        The application; its parts are in ``app.state.site``.

    Raises
    ------
    StoreError
        If the store can't be opened.
    """
    all_cards()
    finder()  # both read sources, which CPython 3.11 can't do in several threads at once
    max_bytes = int(max_upload_mb * 2**20)
    site = Site(
        Store(store),
        Uploads(uploads, max_bytes),
        Jobs(partial(Store, store), max_waiting, jobs),
        benchmarks,
        needs_token=token is not None,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=site.warm, name="paperworks-warm", daemon=True).start()
        yield
        await run_in_threadpool(site.jobs.close)
        site.store.close()

    app = FastAPI(title="Paperworks", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.site = site
    app.include_router(make_api(site))
    app.add_middleware(Guard, token=token, hosts=hosts, max_bytes=max_bytes)
    _add_pages(app, site, token)

    @app.exception_handler(AnyHTTPException)
    async def refused(request: Request, error: AnyHTTPException) -> Response:
        from fastapi.exception_handlers import http_exception_handler

        if request.url.path.startswith("/api/") or request.url.path == "/openapi.json":
            return await http_exception_handler(request, error)
        text = site.render("message.html", heading="That did not work", text=str(error.detail))
        return HTMLResponse(text, error.status_code)

    return app


def _add_pages(app: FastAPI, site: Site, token: str | None) -> None:
    get = partial(app.get, response_class=HTMLResponse, include_in_schema=False)
    post = partial(app.post, response_class=HTMLResponse, include_in_schema=False)

    @get("/")
    def index() -> str:
        return site.index()

    @get("/methods/{slug}")
    def method(slug: str) -> str:
        with refusals():
            page = site.page(slug)
        return site.method(page)

    @get("/find")
    def find(q: Annotated[str, Query(max_length=500)] = "") -> str:
        matches: list[Any] = []
        problem = ""
        if q.strip():
            try:
                pages = {page.card.slug: page for page in site.pages()[0]}
                matches = [(match, pages[match.slug]) for match in finder().find(q, 5)]
            except ValueError as error:
                problem = str(error)
        return site.render("find.html", query=q, matches=matches, problem=problem)

    @get("/runs")
    def runs() -> str:
        found = site.store.runs()
        return site.render("runs.html", runs=found[:_SHOWN_RUNS], total=len(found), jobs=site.jobs.all()[:20])

    @get("/runs/{run_id}")
    def run(run_id: _RunId) -> str:
        with refusals():
            record = site.store.run(run_id)
            page = site.page(record.study, record) if record.status == "done" else None
        if page is not None:
            return site.method(page)
        newest = site.store.trials(run_id, limit=_SHOWN_TRIALS, newest_first=True)
        job = next((job for job in site.jobs.all() if job.run_id == run_id and job.state == "running"), None)
        return site.render("run.html", run=record, trials=[trial_to_json(trial) for trial in newest], job=job)

    @get("/compare")
    def compare(before: int | None = None, after: int | None = None) -> HTMLResponse:
        found, problem, code = None, "", 200
        if before is not None and after is not None:
            try:
                found = site.compare(before, after)
            except (StoreError, ValueError, LookupError) as error:
                problem, code = str(error), 400
        done = [run for run in site.store.runs() if run.status == "done"][:_SHOWN_RUNS]
        text = site.render("compare.html", runs=done, before=before, after=after, found=found, problem=problem)
        return HTMLResponse(text, code)

    @get("/data")
    def data() -> str:
        return site.data_page()

    @post("/data")
    async def upload(request: Request) -> Response:
        try:
            taken = await taken_upload(site, request)
        except ValueError as error:
            return HTMLResponse(site.data_page(str(error)), 400)
        return RedirectResponse(f"/data/{taken.id}", 303)

    def upload_page(upload_id: str, problem: str = "", chosen: dict[str, str] | None = None) -> str:
        with refusals():
            taken = site.uploads.get(upload_id)
        shown: dict[str, Any] = {"columns": [], "rows": [], "shape": []}
        try:
            shown = preview(taken)
        except ValueError as error:
            problem = problem or str(error)
        fitting = [page for page in site.pages()[0] if _fits(page.kind, taken.kind)]
        return site.render(
            "upload.html",
            upload=taken,
            preview=shown,
            pages=fitting,
            scales=SCALES,
            problem=problem,
            chosen=chosen or {},
        )

    @get("/data/{upload_id}")
    def uploaded(upload_id: str) -> str:
        return upload_page(upload_id)

    @post("/data/{upload_id}")
    def start(
        upload_id: str,
        study: Annotated[str, Form()] = "",
        target: Annotated[str, Form()] = "",
        scale: Annotated[str, Form()] = "quick",
    ) -> Response:
        try:
            if scale not in SCALES:
                raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
            job = site.start(study, scale, site.uploads.get(upload_id), target)
        except (LookupError, ValueError, ImportError, QueueFull) as error:
            code = 429 if isinstance(error, QueueFull) else 400
            chosen = {"study": study, "target": target, "scale": scale}
            return HTMLResponse(upload_page(upload_id, str(error), chosen), code)
        return RedirectResponse(f"/jobs/{job.id}", 303)

    @get("/jobs/{job_id}")
    def job(job_id: str) -> Response:
        with refusals():
            found = site.jobs.get(job_id)
        if found.run_id and found.state != "failed":
            return RedirectResponse(f"/runs/{found.run_id}", 303)
        return HTMLResponse(site.render("job.html", job=found))

    @post("/jobs/{job_id}/stop")
    def stop(job_id: str) -> Response:
        with refusals():
            found = site.jobs.stop(job_id)
        return RedirectResponse(f"/runs/{found.run_id}" if found.run_id else f"/jobs/{job_id}", 303)

    @get("/login")
    def login() -> str:
        return site.render("login.html", problem="")

    @post("/login")
    def logged_in(secret: Annotated[str, Form(alias="token")] = "") -> Response:
        if token is None or not is_secret(secret, token):
            return HTMLResponse(site.render("login.html", problem="This is not the token."), 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, secret, httponly=True, samesite="strict")
        return answer

    @app.get("/assets/{name}", include_in_schema=False)
    def asset(name: str) -> FileResponse:
        if name not in ASSETS:
            raise HTTPException(404, f"no file {escape(name)!r}")
        path = _TEMPLATES / name
        return FileResponse(path, media_type=_MEDIA[path.suffix], headers={"Cache-Control": "no-cache"})


def _fits(wanted: str, given: str) -> bool:
    """Return whether a study of data of kind `wanted` can read a file of kind `given`."""
    return wanted == given or (given == "table" and wanted in ("matrix", "series"))
