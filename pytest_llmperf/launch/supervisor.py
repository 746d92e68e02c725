"""A supervisor is every server's parent: ``python -m pytest_llmperf.launch.supervisor``.

It runs outside pytest's process group and session, starts one server, holds its GPU lease and
ends everything when it is told to or when pytest is gone, however pytest died: the pipe it
reads from then closes. Only where it is told to keep its server it goes on alone, until it gets
SIGTERM, nobody has used the server for a while, or the server ends. It imports the standard library alone until it needs NVML, so that it
is there at once.

JSON lines on its standard input: ``{"do": "lease", …}``, ``{"do": "start", …}``,
``{"do": "keep", …}``, ``{"do": "stop", "grace": seconds}``. On its standard output: ``ready``,
``leased``, ``refused``, ``started``, ``failed``, ``kept``, ``exited`` and ``stopped`` as
``event``. Its standard error is the server's log.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.launch import family
from pytest_llmperf.launch.keeping import Keeping
from pytest_llmperf.launch.lease import Candidate, Lease, Refusal
from pytest_llmperf.launch.memory import use_of, wait_for_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PARENT_CHECK_S = 0.5
"""How often the parent is looked at: a forked copy of pytest can keep the pipe open."""
ORPHAN_GRACE_S = 10.0
"""Seconds that a server has to end by itself once pytest is gone."""
FAMILY_PATIENCE_S = 1.0
"""Seconds that a server's children have to follow it."""
FAMILY_LIMIT_S = 15.0
MEMORY_LIMIT_S = 60.0


class Supervisor:
    """One server from its lease to the moment when its GPUs are free again."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._lease: Lease | None = None
        self._mark = ""
        self._server: int | None = None
        self._status: int | None = None
        self._heard = b""
        self._told_to_stop = False
        self._keeping: Keeping | None = None
        self._pipe_open = True
        self._grace = ORPHAN_GRACE_S
        self._wakeup, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # Handlers that do nothing, since an ignored signal would stay ignored in the server.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._terminated)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        """Do what the pipe says until it says stop, closes, or the parent is gone."""
        self._say(event="ready", pid=os.getpid())
        while True:
            order = self._next_order()
            match order.get("do"):
                case "lease":
                    self._take_lease(order)
                case "start":
                    self._start(order)
                case "keep":
                    self._keep(order)
                case _:
                    self._stop(float(order.get("grace", self._grace)))
                    return

    # -- orders --------------------------------------------------------------------------

    def _next_order(self) -> dict[str, Any]:
        """Wait for an order; the end of the pipe and of the parent are orders to stop.

        A kept server's end is the only one that nobody has to ask for.
        """
        while True:
            self._reap()
            line, newline, rest = self._heard.partition(b"\n")
            if newline:
                self._heard = rest
                order: dict[str, Any] = json.loads(line)
                return order
            if self._told_to_stop or self._is_over():
                return {}
            pipe = [0] if self._pipe_open else []
            readable, _, _ = select.select([*pipe, self._wakeup], [], [], PARENT_CHECK_S)
            self._drain_wakeup()
            if 0 in readable:
                chunk = os.read(0, 1 << 16)
                self._pipe_open = bool(chunk)
                self._heard += chunk

    def _is_over(self) -> bool:
        """Whether nobody is there any more who would ask for the server."""
        if self._keeping is None:
            return not self._pipe_open or os.getppid() != self._parent
        return self._status is not None or self._keeping.expired()

    def _keep(self, order: Mapping[str, Any]) -> None:
        self._keeping = Keeping(
            Path(order["lock"]), Path(order["state"]), order["idle"], self._mark
        )
        self._grace = order["grace"]
        self._say(event="kept")

    def _take_lease(self, order: Mapping[str, Any]) -> None:
        candidates = [Candidate(**values) for values in order["candidates"]]
        try:
            self._lease = Lease.take(
                Path(order["folder"]), candidates, order["count"], order["holder"]
            )
        except Refusal as refusal:
            self._say(event="refused", why=str(refusal), swept=refusal.swept)
        except OSError as error:
            self._say(event="refused", why=f"its lock file: {error}", swept=False)
        else:
            self._say(event="leased", gpus=[gpu.index for gpu in self._lease.gpus])

    def _start(self, order: Mapping[str, Any]) -> None:
        self._mark = order["mark"]
        environment = {**order["environment"], family.MARK: self._mark, **family.ENVIRONMENT}
        if self._lease is not None:
            # Indices, not UUIDs: many vLLM versions read integers only (vllm#20939).
            indices = ",".join(str(gpu.index) for gpu in self._lease.gpus)
            environment.update(CUDA_VISIBLE_DEVICES=indices, CUDA_DEVICE_ORDER="PCI_BUS_ID")
        supervisor = os.getpid()

        def tie_to_supervisor() -> None:
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(1)

        started = time.monotonic()
        try:
            server = subprocess.Popen(
                order["argv"],
                stdin=subprocess.DEVNULL,
                stdout=2,
                env=environment,
                start_new_session=True,
                preexec_fn=tie_to_supervisor,  # noqa: PLW1509 - this process has one thread
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._say(event="failed", why=str(error))
            return
        self._server = server.pid
        server.returncode = 0  # reaped here, with every orphan; Popen must not wait for it
        self._say(event="started", pid=server.pid, at=started)

    # -- the end -------------------------------------------------------------------------

    def _stop(self, grace: float) -> None:
        """End the server, then its family, wait for the memory, and let the lease go."""
        overstayed = self._end_server(grace)
        killed, left = family.end(
            self._family, patience=FAMILY_PATIENCE_S, limit=FAMILY_LIMIT_S, reap=self._reap
        )
        limit = max(grace, MEMORY_LIMIT_S)
        occupied = self._wait_for_memory(limit) if self._lease else []
        if self._lease and not left and not occupied:
            self._lease.release()
        if self._keeping is not None:
            self._keeping.forget()
        self._say(
            event="stopped",
            overstayed=overstayed,
            killed=[str(process) for process in killed],
            left=[str(process) for process in left],
            occupied=occupied,
        )

    def _end_server(self, grace: float) -> bool:
        """Ask the server to end; return whether it did not within ``grace`` seconds."""
        if self._server is None or self._status is not None:
            return False
        _kill(self._server, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while (rest := deadline - time.monotonic()) > 0:
            select.select([self._wakeup], [], [], min(rest, PARENT_CHECK_S))
            self._drain_wakeup()
            if self._reap():
                return False
        _kill(-self._server, signal.SIGKILL)
        return True

    def _family(self) -> tuple[family.Member, ...]:
        by_mark = family.marked(self._mark) if self._mark else ()
        return tuple({p.pid: p for p in (*family.descendants(os.getpid()), *by_mark)}.values())

    def _wait_for_memory(self, limit: float) -> list[str]:
        """Wait until the leased GPUs are as empty as before; return what is not."""
        from pytest_llmperf.gpu import session

        assert self._lease is not None  # noqa: S101 - the caller's condition
        with session() as nvml:
            if nvml is None:
                return []
            return wait_for_memory(
                self._lease.gpus, lambda: use_of(nvml.gpus()), limit=limit, reap=self._reap
            )

    # -- processes and pipes ---------------------------------------------------------------

    def _reap(self) -> bool:
        """Collect every child that has ended; tell and return whether the server is one."""
        server_ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return server_ended
            if pid == 0:
                return server_ended
            if pid == self._server:
                server_ended = True
                self._status = os.waitstatus_to_exitcode(status)
                self._say(event="exited", code=self._status)

    def _drain_wakeup(self) -> None:
        try:
            while os.read(self._wakeup, 512):
                pass
        except BlockingIOError:
            return

    def _terminated(self, *_: object) -> None:
        self._told_to_stop = True

    def _say(self, **event: Any) -> None:
        try:
            os.write(1, json.dumps(event).encode() + b"\n")
        except BrokenPipeError:
            return  # pytest is gone; what is left to do is done all the same


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _prctl(option: int, value: int) -> None:
    LIBC.prctl(option, value, 0, 0, 0)


LIBC = ctypes.CDLL(None, use_errno=True)

if __name__ == "__main__":
    Supervisor().run()
