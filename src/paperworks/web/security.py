"""What stands before every request: hosts, origins, the token, sizes, and headers that keep pages to themselves."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["COOKIE", "Guard", "is_loopback", "is_secret"]

COOKIE = "paperworks_token"
_SAFE = ("GET", "HEAD", "OPTIONS")
_OVERHEAD = 1 << 16
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Return whether a name or address is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_secret(given: str, secret: str) -> bool:
    """Return whether a text is the secret, in a time that tells nothing of it."""
    return hmac.compare_digest(given.encode(), secret.encode())


class _TooLarge(Exception):
    """The body is larger than any request may be."""


class Guard:
    """Middleware that refuses what must not reach the application.

    Parameters
    ----------
    app : ASGI application
        What is guarded.
    token : str, optional
        Secret that every request which writes or starts work must carry, as ``Authorization: Bearer`` or a cookie.
    hosts : collection of str, optional
        Names under which the server may be addressed; None for any. It stops pages elsewhere that make their own
        name point here.
    max_bytes : int
        Greatest size of a file.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str] | None, max_bytes: int) -> None:
        self.app = app
        self.token = token
        self.hosts = hosts
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith("/assets/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        taken = 0

        async def receive_counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.max_bytes + _OVERHEAD:
                raise _TooLarge
            return message

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        try:
            await self.app(scope, receive_counted, send_guarded)
        except _TooLarge:
            if started:
                raise
            await self._large()(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        if self.hosts is not None and name not in self.hosts and not is_loopback(name):
            return JSONResponse({"detail": f"this server does not answer for the host {name!r}"}, 421)
        if scope["method"] in _SAFE:
            return None
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") or (origin is not None and urlsplit(origin).netloc != host):
            return JSONResponse({"detail": "requests from other sites are refused"}, 403)
        if self.token is not None and scope["path"] != "/login" and not self._has_token(headers):
            challenge = {"WWW-Authenticate": "Bearer"}
            return JSONResponse(
                {"detail": "a token is needed: open /login, or send Authorization: Bearer"}, 401, challenge
            )
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.max_bytes + _OVERHEAD:
            return self._large()
        return None

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        given = (sent.strip() if scheme.lower() == "bearer" else "", cookie)
        return any(is_secret(value, self.token or "") for value in given)

    def _large(self) -> JSONResponse:
        return JSONResponse({"detail": f"larger than the {self.max_bytes / 2**20:,.4g} MB allowed"}, 413)
