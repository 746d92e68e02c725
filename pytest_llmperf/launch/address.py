"""From the URL that a user knows a server by to the target that requests go to."""

from __future__ import annotations

from urllib.parse import urlsplit

from pytest_llmperf.errors import UsageError
from pytest_llmperf.model.launch import Target

RULE = "give it as http://HOST[:PORT][/PREFIX], such as http://127.0.0.1:8000"


def target_from_url(url: str, model: str = "", api_key: str | None = None) -> Target:
    """Return the target of a base URL; a trailing ``/v1`` is tolerated.

    Raise UsageError for what is no plain HTTP URL.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise UsageError(f"base URL {url!r}: {error}; {RULE}") from None
    if parts.scheme == "https":
        raise UsageError(
            f"base URL {url!r}: only plain HTTP can be measured, since encryption would be "
            "timed with the server; reach the server behind what ends TLS, or through an SSH "
            f"tunnel, and {RULE}"
        )
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(f"base URL {url!r} is no HTTP URL; {RULE}")
    if parts.username or parts.password or parts.query or parts.fragment:
        # The URL is not repeated: it may hold a password.
        raise UsageError(
            f"the base URL has a user, a query or a fragment, which no server is reached by; {RULE}"
        )
    prefix = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return Target(parts.hostname, port or 80, model, prefix, api_key)
