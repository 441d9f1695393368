"""Serves the application: which address, whether a token is needed, where uploads go."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_data_dir

from paperworks._checks import extra

with extra("serve"):
    import uvicorn

    from paperworks.web.app import create_app
    from paperworks.web.security import is_loopback

__all__ = ["serve_store"]


def serve_store(
    store: str | None,
    *,
    host: str,
    port: int,
    token: str | None,
    max_upload_mb: float,
    jobs: int | None,
    benchmarks: Path | None,
    say: Callable[[str], None],
    uploads: Path | None = None,
) -> None:
    """Serve a store until Ctrl-C.

    Parameters
    ----------
    store : str or None
        File or database address of the results; that of the user if None.
    host : str
        Address to listen on. Elsewhere than on the loopback a token is needed for uploads and runs.
    port : int
        Port, 0 for any free one.
    token : str or None
        The token; made up and said if one is needed and none is given.
    max_upload_mb : float
        Greatest size of an upload.
    jobs : int or None
        Trials of a run at the same time.
    benchmarks : Path or None
        Folder of measured speed ratios.
    say : callable
        Prints a line.
    uploads : Path, optional
        Folder of uploaded files; beside the user's results if not given.

    Raises
    ------
    OSError
        If the address can't be listened on.
    """
    local = is_loopback(host)
    if not local and token is None:
        token = secrets.token_urlsafe(24)
        say(f"Token for uploads and runs: {token}")
    application = create_app(
        store,
        uploads=uploads or Path(user_data_dir("paperworks")) / "uploads",
        token=token,
        hosts=("localhost",) if local else None,
        max_upload_mb=max_upload_mb,
        jobs=jobs,
        benchmarks=benchmarks,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise OSError(f"can't listen on {host}, port {port}: {error.strerror}") from error
        shown = f"[{host}]" if ":" in host else host
        say(f"Paperworks is at http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C ends it)")
        config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=2, server_header=False)
        uvicorn.Server(config).run(sockets=[listener])
