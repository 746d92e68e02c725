from __future__ import annotations

import pytest

from pytest_llmperf.errors import UsageError
from pytest_llmperf.launch import target_from_url


@pytest.mark.parametrize(
    ("url", "host", "port", "prefix"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, ""),
        ("http://localhost:8000/", "localhost", 8000, ""),
        ("http://gpu.example/v1", "gpu.example", 80, ""),
        ("http://gpu.example/team/qwen/v1/", "gpu.example", 80, "/team/qwen"),
        (" http://[::1]:9000/team ", "::1", 9000, "/team"),
    ],
)
def test_a_url_becomes_a_target(url, host, port, prefix):
    """Host, port (80 where none is said) and prefix; a trailing /v1 is not part of it."""
    target = target_from_url(url, "m", "key")
    assert (target.host, target.port, target.prefix) == (host, port, prefix)
    assert (target.model, target.api_key) == ("m", "key")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("https://gpu.example", "only plain HTTP can be measured"),
        ("gpu.example:8000", "is no HTTP URL"),
        ("http://", "is no HTTP URL"),
        ("http://host:port", "Port could not be cast"),
        ("http://host/?a=1", "has a user, a query or a fragment"),
    ],
)
def test_what_cannot_be_measured_is_refused(url, complaint):
    """The error states what is wrong and how a URL is given."""
    with pytest.raises(UsageError, match=complaint) as caught:
        target_from_url(url)
    assert "give it as http://HOST[:PORT][/PREFIX]" in str(caught.value)


def test_a_password_is_not_repeated():
    """What a message shows ends up in CI logs."""
    with pytest.raises(UsageError) as caught:
        target_from_url("http://ann:s3cret@host")
    assert "s3cret" not in str(caught.value)
