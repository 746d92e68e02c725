"""A supervisor is every server's parent: ``python -m pytest_llmperf.launch.supervisor``.

It runs outside pytest's process group and session, starts one server, holds its GPU lease and
ends everything when it is told to or when pytest is gone, however pytest died: the pipe it
reads from then closes. It imports the standard library alone until it needs NVML, so that it
is there at once.

JSON lines on its standard input: ``{"do": "lease", …}``, ``{"do": "start", …}``,
``{"do": "stop", "grace": seconds}``. On its standard output: ``ready``, ``leased``,
``refused``, ``started``, ``failed``, ``exited`` and ``stopped`` as ``event``. Its standard
error is the server's log.
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
from pytest_llmperf.launch.lease import Candidate, Lease, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_llmperf.gpu import GpuProcess

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PARENT_CHECK_S = 0.5
"""How often the parent is looked at: a forked copy of pytest can keep the pipe open."""
ORPHAN_GRACE_S = 10.0
"""Seconds that a server has to end by itself once pytest is gone."""
FAMILY_PATIENCE_S = 1.0
"""Seconds that a server's children have to follow it."""
FAMILY_LIMIT_S = 15.0
MEMORY_LOOK_S = 0.1
MEMORY_LIMIT_S = 60.0
MEMORY_TOLERANCE = 256 << 20
"""Bytes above the use before the launch that count as freed: NVML's figure wavers."""

Use = tuple[int, tuple[str, ...]]
"""Bytes in use on a GPU, and the processes that NVML names."""


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
                case _:
                    self._stop(float(order.get("grace", ORPHAN_GRACE_S)))
                    return

    # -- orders --------------------------------------------------------------------------

    def _next_order(self) -> dict[str, Any]:
        """Wait for an order; the end of the pipe and of the parent are orders to stop."""
        while True:
            self._reap()
            line, newline, rest = self._heard.partition(b"\n")
            if newline:
                self._heard = rest
                order: dict[str, Any] = json.loads(line)
                return order
            if self._told_to_stop or os.getppid() != self._parent:
                return {}
            readable, _, _ = select.select([0, self._wakeup], [], [], PARENT_CHECK_S)
            self._drain_wakeup()
            if 0 in readable:
                chunk = os.read(0, 1 << 16)
                if not chunk:
                    return {}
                self._heard += chunk

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
        occupied = self._wait_for_memory() if self._lease else []
        if self._lease and not left and not occupied:
            self._lease.release()
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

    def _wait_for_memory(self) -> list[str]:
        """Wait until the leased GPUs are as empty as before; return what is not."""
        from pytest_llmperf.gpu import session

        assert self._lease is not None  # noqa: S101 - the caller's condition
        with session() as nvml:
            if nvml is None:
                return []
            return wait_for_memory(
                self._lease.gpus,
                lambda: {
                    gpu.uuid: (gpu.memory_used, tuple(map(_named, gpu.processes)))
                    for gpu in nvml.gpus()
                },
                limit=MEMORY_LIMIT_S,
                reap=self._reap,
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


def wait_for_memory(
    gpus: tuple[Candidate, ...],
    read: Callable[[], Mapping[str, Use]],
    *,
    limit: float,
    reap: Callable[[], object] = lambda: None,
) -> list[str]:
    """Wait until each GPU has no more memory in use than before its lease.

    ``read`` maps UUIDs to the use now; a GPU it does not know counts as free. Return a line
    for each GPU that is not free after ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    while True:
        reap()
        use = read()
        occupied = [gpu for gpu in gpus if _surplus(gpu, use) > MEMORY_TOLERANCE]
        if not occupied:
            return []
        if time.monotonic() >= deadline:
            return [
                f"{gpu} has {_surplus(gpu, use) / 2**30:.2f} GiB more in use than before the "
                f"launch, by pid {', '.join(use[gpu.uuid][1]) or 'unknown'}"
                for gpu in occupied
            ]
        time.sleep(MEMORY_LOOK_S)


def _surplus(gpu: Candidate, use: Mapping[str, Use]) -> int:
    return use[gpu.uuid][0] - gpu.used if gpu.uuid in use else 0


def _named(process: GpuProcess) -> str:
    return str(family.member(process.pid) or process.pid)


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
