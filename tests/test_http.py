from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pytest_llmperf import http
from pytest_llmperf.errors import ServerError
from pytest_llmperf.model.launch import Target


class Handler(BaseHTTPRequestHandler):
    """Answers what the server's ``answers`` say for a path, and keeps what it was asked."""

    def do_GET(self) -> None:
        """Answer a GET."""
        self.answer(None)

    def do_POST(self) -> None:
        """Answer a POST."""
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, body: object) -> None:
        """Answer as told; 0 as a status is an answer cut off."""
        self.server.asked.append((self.path, body, self.headers.get("Authorization")))
        status, text = self.server.answers.get(self.path, (404, "no"))
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_args: object) -> None:
        """Be silent."""


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        serving.answers = {}
        serving.asked = []
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def target(server) -> Target:
    return Target("127.0.0.1", server.server_port, "m")


@pytest.fixture
def nobody() -> Target:
    return Target("127.0.0.1", 1, "m")


def test_a_get_brings_status_and_text(server, target):
    """Any status is an answer."""
    server.answers["/x"] = (418, "tea")
    assert http.get(target, "/x") == http.Answer(418, "tea")
    assert server.asked == [("/x", None, None)]


def test_prefix_and_key_are_sent(server):
    """The prefix goes before every path, the key into the header."""
    keyed = Target("127.0.0.1", server.server_port, "m", "/team", "s3cret")
    http.get(keyed, "/health")
    assert server.asked == [("/team/health", None, "Bearer s3cret")]


def test_nobody_there_is_no_answer(nobody):
    """The message has method and URL."""
    with pytest.raises(http.NoAnswerError, match=r"GET http://127\.0\.0\.1:1/x: .*refused"):
        http.get(nobody, "/x")


def test_an_answer_cut_off_is_no_answer(server, target):
    """A server that dies while it answers."""
    server.answers["/x"] = (0, "")
    with pytest.raises(http.NoAnswerError, match="disconnected"):
        http.get(target, "/x")


def test_a_silent_server_is_no_answer(target, server):
    """Timeouts are in seconds."""
    server.shutdown()
    with pytest.raises(http.NoAnswerError, match="timed out"):
        http.get(target, "/x", timeout=0.2)


def test_proxies_of_the_environment_are_not_used(server, target, monkeypatch):
    """What is measured is the server."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.answers["/x"] = (200, "direct")
    assert http.get(target, "/x").text == "direct"


def test_health_is_a_status_or_nothing(server, target, nobody):
    """200 and 503 are answers; a refused connection is none."""
    server.answers["/health"] = (503, "")
    assert http.health(target) == 503
    assert http.health(nobody) is None


def test_models_are_listed(server, target):
    """The server's own order; what has no id is no model."""
    server.answers["/v1/models"] = (200, '{"data": [{"id": "a", "max_model_len": 8}, {}, "b"]}')
    assert http.models(target) == ({"id": "a", "max_model_len": 8},)


def test_a_server_without_a_list_has_no_models(target):
    """404 is no error."""
    assert http.models(target) == ()


@pytest.mark.parametrize("answer", [(401, "Unauthorized"), (200, "<html>"), (200, "[]")])
def test_a_list_that_cannot_be_read_is_an_error(server, target, answer):
    """With what was answered instead."""
    server.answers["/v1/models"] = answer
    with pytest.raises(ServerError, match=rf"GET /v1/models at .* answered {answer[0]}: "):
        http.models(target)


def test_one_token_is_asked_for(server, target):
    """Greedy, and no more than that."""
    server.answers["/v1/completions"] = (200, "{}")
    http.complete(target)
    body = {"model": "m", "max_tokens": 1, "temperature": 0.0, "prompt": "Hello"}
    assert server.asked == [("/v1/completions", body, None)]


def test_a_server_without_completions_is_asked_through_chat(server, target):
    """404 for completions is not the end."""
    server.answers["/v1/chat/completions"] = (200, "{}")
    http.complete(target)
    path, body, _ = server.asked[-1]
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize(
    ("status", "kind"), [(500, http.BusyError), (503, http.BusyError), (400, ServerError)]
)
def test_a_refusal_says_what_was_answered(server, target, status, kind):
    """A server that is not ready yet is told from one that never will be."""
    server.answers["/v1/completions"] = (status, "because\n  of " + "x" * 999)
    with pytest.raises(kind) as caught:
        http.complete(target)
    assert type(caught.value) is kind
    assert f"answered {status}: because of xxx" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_metrics_are_text_or_nothing(server, target):
    """A server without /metrics has none."""
    assert http.metrics(target) is None
    server.answers["/metrics"] = (200, "a_total 1\n")
    assert http.metrics(target) == "a_total 1\n"


def test_a_body_that_is_no_json_is_none():
    """An answer's JSON is None where there is none."""
    assert http.Answer(200, "<html>").json() is None
    assert http.Answer(200, '{"a": 1}').json() == {"a": 1}


def test_a_servers_tokenizer_counts_and_says_whose_count_it_is(server, target):
    """The text goes to /tokenize with special tokens, as the prompt is counted in a replay."""
    server.answers["/tokenize"] = (200, '{"count": 7, "max_model_len": 99, "tokens": []}')
    tokenizer = http.ServerTokenizer(target)
    assert (tokenizer.name, tokenizer.count("seven")) == ("server: m", 7)
    body = {"model": "m", "prompt": "seven", "add_special_tokens": True}
    assert server.asked == [("/tokenize", body, None)]


def test_a_text_is_asked_for_once_while_it_is_remembered(server, target):
    """Of the latest two texts: a, b and again a are two questions, c forgets b."""
    server.answers["/tokenize"] = (200, '{"count": 1}')
    tokenizer = http.ServerTokenizer(target, remembered=2)
    for text in "abacb":
        tokenizer.count(text)
    assert [body["prompt"] for _, body, _ in server.asked] == ["a", "b", "c", "b"]


def test_half_a_character_is_asked_for_as_it_is_shown(server, target):
    """A lone surrogate is no JSON text; each of its three bytes is shown as U+FFFD."""
    server.answers["/tokenize"] = (200, '{"count": 2}')
    assert http.token_count(target, "a\ud83d") == 2
    assert server.asked[0][1]["prompt"] == "a\ufffd\ufffd\ufffd"


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_that_does_not_count_says_so(server, target, status):
    """None for who asks whether it does; an error with a way out for who needs a count."""
    server.answers["/tokenize"] = (status, "")
    assert http.token_count(target, "a") is None
    assert http.server_tokenizer(target) is None
    with pytest.raises(ServerError, match=r"has no /tokenize .* tokenizer\.json instead"):
        http.ServerTokenizer(target).count("a")


@pytest.mark.parametrize("answer", [(500, "no"), (200, "[]"), (200, '{"tokens": []}')])
def test_another_kind_of_tokenize_is_not_believed(server, target, answer):
    """One that fails, or answers without a count."""
    server.answers["/tokenize"] = answer
    with pytest.raises(ServerError, match=rf"POST /tokenize at .* answered {answer[0]}: "):
        http.token_count(target, "a")
    assert http.server_tokenizer(target) is None


def test_a_server_that_is_not_there_is_no_server_without_a_tokenizer(nobody):
    """It must not pass for one that does not count."""
    with pytest.raises(http.NoAnswerError):
        http.server_tokenizer(nobody)


def test_a_server_that_counts_is_asked_further(server, target):
    """The tokenizer of a server that answers."""
    server.answers["/tokenize"] = (200, '{"count": 3}')
    tokenizer = http.server_tokenizer(target)
    assert tokenizer is not None
    assert tokenizer.count("x") == 3
