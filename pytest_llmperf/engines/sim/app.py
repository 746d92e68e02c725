"""The HTTP surface: which path answers what, with vLLM's bodies."""

from __future__ import annotations

import hmac
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pytest_llmperf.engines.sim.bodies import (
    ApiError,
    Generation,
    Kind,
    are_token_ids,
    read_generation,
    read_prompt,
)
from pytest_llmperf.engines.sim.connection import Connection
from pytest_llmperf.engines.sim.core import EngineCore, Job
from pytest_llmperf.engines.sim.exposition import CONTENT_TYPE, Exposition, Gauges
from pytest_llmperf.engines.sim.faults import Faults, Treatment
from pytest_llmperf.engines.sim.http11 import HttpRequest
from pytest_llmperf.engines.sim.injection import BrokenReply, Injector
from pytest_llmperf.engines.sim.log import VERSION, Log
from pytest_llmperf.engines.sim.prefix import Chain
from pytest_llmperf.engines.sim.replies import Identity, make_reply
from pytest_llmperf.engines.sim.tokens import decode, encode, pack, script

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.memory import Budget
    from pytest_llmperf.engines.sim.options import SimOptions

JSON = "application/json"
GUARDED = "/v1"
"""The key guards what starts with this; health, metrics and /tokenize are open, as in vLLM."""

Handler = Callable[[HttpRequest, Connection], None]


class App:
    """Answers requests; generations go to the engine, which answers them later."""

    def __init__(
        self,
        options: SimOptions,
        budget: Budget,
        core: EngineCore,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        self.connections: set[Connection] = set()
        self._options = options
        self._budget = budget
        self._core = core
        self._log = log
        self._clock = clock
        self._created = int(time.time())
        self._injector = Injector(Faults.of(options.faults), core, log, clock)
        self._exposition = Exposition(options.names[0], cache_config(options, budget))
        self._routes: Mapping[str, Mapping[str, Handler]] = {
            "/health": {"GET": self._empty},
            "/ping": {"GET": self._empty, "POST": self._empty},
            "/version": {"GET": self._version},
            "/load": {"GET": self._load},
            "/metrics": {"GET": self._metrics},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/v1/models": {"GET": self._models},
            "/v1/completions": {"POST": self._completions},
            "/v1/chat/completions": {"POST": self._chat},
        }

    def handle(self, request: HttpRequest, connection: Connection) -> None:
        """Answer ``request``, or have the engine answer it."""
        if self._injector.silent:
            return
        if not self._may_enter(request):
            connection.respond(401, b'{"error":"Unauthorized"}', JSON)
            return
        methods = self._routes.get(request.path)
        if methods is None:
            connection.respond(404, b'{"detail":"Not Found"}', JSON)
            return
        handler = methods.get(request.method)
        if handler is None:
            allowed = f"allow: {', '.join(methods)}"
            connection.respond(405, b'{"detail":"Method Not Allowed"}', JSON, (allowed,))
            return
        try:
            handler(request, connection)
        except ApiError as error:
            connection.respond(error.status, _error_body(error), JSON)

    def log_access(self, peer: str, request: HttpRequest, status: int) -> None:
        """Log a request as uvicorn does, unless that was switched off."""
        if self._options.disable_uvicorn_access_log:
            return
        what = f"{request.method} {request.path} HTTP/1.1"
        phrase = HTTPStatus(status).phrase
        self._log.raw(
            f'(APIServer pid={os.getpid()}) INFO:     {peer} - "{what}" {status} {phrase}'
        )

    def _may_enter(self, request: HttpRequest) -> bool:
        keys = self._options.api_keys
        if not keys or request.method == "OPTIONS" or not request.path.startswith(GUARDED):
            return True
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        return any(hmac.compare_digest(key.encode(), known.encode()) for known in keys)

    def _empty(self, _request: HttpRequest, connection: Connection) -> None:
        connection.respond(200, b"", None)

    def _version(self, _request: HttpRequest, connection: Connection) -> None:
        connection.respond(200, _json({"version": VERSION}), JSON)

    def _load(self, _request: HttpRequest, connection: Connection) -> None:
        scheduler = self._core.scheduler
        load = len(scheduler.running) + scheduler.queued
        connection.respond(200, _json({"server_load": load}), JSON)

    def _metrics(self, _request: HttpRequest, connection: Connection) -> None:
        scheduler = self._core.scheduler
        gauges = Gauges(len(scheduler.running), scheduler.queued, scheduler.kv_usage)
        page = self._exposition.page(self._core.metrics, gauges)
        connection.respond(200, page, CONTENT_TYPE)

    def _models(self, _request: HttpRequest, connection: Connection) -> None:
        models: list[dict[str, Any]] = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "pytest-llmperf-sim",
                "root": self._options.model,
                "parent": None,
                "max_model_len": self._budget.max_model_len,
                "permission": [],
            }
            for name in self._options.names
        ]
        connection.respond(200, _json({"object": "list", "data": models}), JSON)

    def _tokenize(self, request: HttpRequest, connection: Connection) -> None:
        body = self._body(request)
        if "messages" in body:
            tokens = read_prompt("chat", body)
        elif isinstance(body.get("prompt"), str):
            tokens = encode(body["prompt"])
        else:
            raise ApiError("prompt: a text is needed, or messages", "prompt")
        answer = {
            "count": len(tokens),
            "max_model_len": self._budget.max_model_len,
            "tokens": tokens,
            "token_strs": None,
        }
        connection.respond(200, _json(answer), JSON)

    def _detokenize(self, request: HttpRequest, connection: Connection) -> None:
        tokens = self._body(request).get("tokens")
        if not isinstance(tokens, list) or not are_token_ids(tokens):
            raise ApiError("tokens: a list of token ids is needed", "tokens")
        connection.respond(200, _json({"prompt": decode(tokens)}), JSON)

    def _completions(self, request: HttpRequest, connection: Connection) -> None:
        self._generate("completions", request, connection)

    def _chat(self, request: HttpRequest, connection: Connection) -> None:
        self._generate("chat", request, connection)

    def _generate(self, kind: Kind, request: HttpRequest, connection: Connection) -> None:
        arrived = self._clock()
        treatment = self._injector.receive(chat=kind == "chat")
        if self._injector.silent:
            return
        if treatment.status is not None:
            raise _injected(treatment.status)
        body = self._body(request)
        generation = read_generation(kind, body, self._budget.max_model_len)
        request_id = request.headers.get("x-request-id") or os.urandom(8).hex()
        model = body.get("model") or self._options.names[0]
        details = self._options.enable_prompt_tokens_details
        identity = Identity(request_id, int(time.time()), model, details)
        job = self._job(generation, identity, connection, treatment, arrived)
        connection.on_lost = lambda: self._core.cancel(job)
        if generation.stream:
            connection.start_stream()
        self._core.submit(job)

    def _job(
        self,
        generation: Generation,
        identity: Identity,
        connection: Connection,
        treatment: Treatment,
        arrived: float,
    ) -> Job:
        packed = pack(generation.prompt)
        manner = "usual" if treatment.answer == "other" else treatment.answer
        answer = script(packed, manner, treatment.seed)
        chain = None
        if self._options.enable_prefix_caching:
            chain = Chain(packed, self._budget.block_size, generation.cache_salt, answer)
        reply = make_reply(generation, identity, answer, connection)
        job = Job(
            prompt_tokens=generation.prompt_tokens,
            max_tokens=generation.max_tokens,
            chain=chain,
            seed=answer.seed,
            reply=reply,
            finish=generation.finish,
            pace=self._core.pace.replay(generation.cache_salt) * treatment.factor,
            asked_tokens=generation.asked_tokens,
            arrived=arrived,
        )
        if treatment.breaks:
            drop = partial(self._core.cancel, job)
            job.reply = BrokenReply(reply, connection, treatment, drop, stream=generation.stream)
        return job

    def _body(self, request: HttpRequest) -> Mapping[str, Any]:
        """Read a JSON object and check the model that it names; raise ApiError."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != JSON:
            text = "Unsupported Media Type: Only 'application/json' is allowed"
            raise ApiError(text, kind="Bad Request")
        try:
            body = json.loads(request.body)
        except ValueError as error:
            raise ApiError(f"JSON decode error: {error}", "body", kind="Bad Request") from None
        if not isinstance(body, dict):
            raise ApiError("Input should be a valid dictionary", "body", kind="Bad Request")
        model = body.get("model")
        if model is not None and model not in self._options.names:
            aliases = ", ".join(self._options.names)
            raise ApiError(
                f"The model `{model}` does not exist. Valid aliases: {aliases}.",
                "model",
                status=404,
                kind="NotFoundError",
            )
        return body


def cache_config(options: SimOptions, budget: Budget) -> dict[str, str]:
    """Return the labels of ``vllm:cache_config_info``."""
    return {
        "block_size": str(budget.block_size),
        "cache_dtype": options.kv_cache_dtype,
        "enable_prefix_caching": str(options.enable_prefix_caching),
        "gpu_memory_utilization": str(options.gpu_memory_utilization),
        "kv_cache_max_concurrency": str(budget.max_concurrency),
        "kv_cache_size_tokens": str(budget.kv_tokens),
        "num_gpu_blocks": str(budget.kv_blocks),
        "num_gpu_blocks_override": str(options.num_gpu_blocks_override),
    }


def _injected(status: int) -> ApiError:
    """Return the error that a fault asks for, in the shape of vLLM's own."""
    phrase = HTTPStatus(status).phrase
    kind = "InternalServerError" if status == HTTPStatus.INTERNAL_SERVER_ERROR else phrase
    return ApiError(f"{phrase} (a fault on demand)", status=status, kind=kind.replace(" ", ""))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _error_body(error: ApiError) -> bytes:
    fields = {
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.status,
    }
    return _json({"error": fields})
