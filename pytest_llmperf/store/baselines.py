"""Baselines: the accepted nights, in files that live in git.

``<root>/<machine key>/<server>/<traffic>.json`` holds one :class:`Baseline`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_llmperf.errors import BaselineError
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.noise import estimate_noise, night_mean, pool_unlike
from pytest_llmperf.model.server import ServerSpec, check_name
from pytest_llmperf.model.traffic import Traffic
from pytest_llmperf.model.verdict import Noise
from pytest_llmperf.store._atomic import locked, write_atomically
from pytest_llmperf.store._baseline_file import (
    decode,
    encode,
    rounded,
    server_record,
    traffic_record,
)

__all__ = ["BaselineStore", "NoBaseline", "server_record", "traffic_record"]

NOISE_NIGHTS = 10
"""A file's noise is that of the nights it is compared with: the last ten accepted."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NoBaseline:
    """Nothing comparable is stored. ``reason`` names what differs from the nearest."""

    reason: str


class BaselineStore:
    """The baselines under one folder. Any number of processes may accept at once.

    Where the very file that is asked for is damaged or was written by a newer version, a method
    raises BaselineError, naming the file and what to do. Other files in that state are passed
    over, with a warning in the log.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read_before: dict[Path, tuple[tuple[int, int, int], Baseline]] = {}
        self._passed_over: set[Path] = set()

    def path(self, machine: Machine, server: str, traffic: str) -> Path:
        """Return where the baseline of a server and a traffic on a machine lies."""
        check_name("server", server)
        check_name("traffic", traffic)
        return self.root / machine.key / server / f"{traffic}.json"

    def find(
        self,
        machine: Machine,
        server: str,
        traffic: str,
        digest: str,
        *,
        traffic_record: Mapping[str, Any] | None = None,
    ) -> Baseline | NoBaseline:
        """Return what is stored for exactly this, or why nothing comparable is.

        ``traffic_record``: what the function of that name says of the traffic at hand, so that
        another digest can be told by the fields that differ.
        """
        path = self.path(machine, server, traffic)
        if not path.exists():
            return NoBaseline(self._why_nothing(machine, server, traffic))
        found = self._read(path)
        if different := ", ".join(found.machine.differences(machine)):
            return NoBaseline(f"{path} is of another machine (stored → here): {different}")
        if found.traffic_digest != digest:
            return NoBaseline(_other_traffic(found, digest, traffic_record))
        if not found.nights:
            return NoBaseline(f"{path} holds no night; accept one with --llmperf-accept")
        return found

    def noise(self, machine: Machine, figure: str) -> Noise | None:
        """Return a figure's noise pooled over all files of this machine, or None.

        The standard deviation of night means in log(value), with degrees of freedom that say
        how well it foretells any one traffic's noise (``model.noise.pool_unlike``).
        """
        return pool_unlike(
            baseline.noise[figure]
            for baseline in self._readable(self._files(machine.key))
            if figure in baseline.noise and not baseline.machine.differences(machine)
        )

    def accept(self, machine: Machine, server: ServerSpec, traffic: Traffic, night: Night) -> Path:
        """Add a night and return its file.

        A session of the same date and host as an accepted night adds its launches to that
        night; a session (``provenance["run"]``) that is in it already changes nothing. The
        first night becomes the anchor. Raises BaselineError, and leaves the file as it is, where
        another machine's or another traffic's nights are stored in it.
        """
        path = self.path(machine, server.name, traffic.spec.name)
        figures = rounded(night.figures, f"{path}, night {night.date} on {night.host}")
        night = replace(night, figures=figures)
        try:
            with locked(path.parent):
                before = decode(path) if path.exists() else None
                after = _accepted(path, before, machine, server, traffic, night)
                write_atomically(path, encode(after))
        except OSError as error:
            raise BaselineError(
                f"{path} cannot be written, the night is not accepted: {error.strerror or error}"
            ) from error
        return path

    def _files(self, key: str = "*", server: str = "*", traffic: str = "*") -> list[Path]:
        return sorted(self.root.glob(f"{key}/{server}/{traffic}.json"))

    def _read(self, path: Path) -> Baseline:
        """Decode a file once for as long as it stays as it is."""
        try:
            status = path.stat()
        except OSError as error:
            raise BaselineError(f"{path} cannot be read: {error.strerror or error}") from error
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        before = self._read_before.get(path)
        if before is None or before[0] != stamp:
            before = self._read_before[path] = (stamp, decode(path))
        return before[1]

    def _readable(self, paths: Iterable[Path]) -> Iterator[Baseline]:
        """Yield the baselines of files that nobody asked for by name; pass over damaged ones.

        Without one of them advice or pooled noise gets poorer, but there still is a verdict.
        """
        for path in paths:
            try:
                yield self._read(path)
            except BaselineError as error:
                if path not in self._passed_over:
                    logger.warning("passed over: %s", error)
                self._passed_over.add(path)

    def _why_nothing(self, machine: Machine, server: str, traffic: str) -> str:
        others = list(self._readable(self._files("*", server, traffic)))
        same_kind = [b for b in others if b.machine.simulated == machine.simulated]
        if same_kind:
            nearest = min(same_kind, key=lambda b: len(b.machine.differences(machine)))
            different = ", ".join(nearest.machine.differences(machine))
            return (
                f"no night of {server} on {traffic} was accepted on this machine; the nearest, "
                f"{nearest.machine.key}, differs (stored → here): {different}"
            )
        if others:
            stored, here = ("real", "simulated") if machine.simulated else ("simulated", "real")
            return (
                f"only {stored} nights of {server} on {traffic} are stored, and a {here} one is "
                "never compared with them"
            )
        known = [path.stem for path in self._files(machine.key, server)]
        beside = f" (of {server} there are: {', '.join(known)})" if known else ""
        return (
            f"no night of {server} on {traffic} is stored in {self.root}{beside}; accept one with "
            "--llmperf-accept"
        )


def _other_traffic(stored: Baseline, digest: str, recipe: Mapping[str, Any] | None) -> str:
    """Say by which fields of the recipe the stored traffic differs."""
    start = f"{stored.traffic_name} is another traffic than the stored one"
    digests = f"digest {stored.traffic_digest} → {digest}"
    if recipe is None:
        return f"{start}: {digests}"
    different = [
        f"{field}: {stored.traffic.get(field)} → {recipe.get(field)}"
        for field in sorted(recipe.keys() | stored.traffic.keys())
        if field not in ("name", "digest") and stored.traffic.get(field) != recipe.get(field)
    ]
    if different:
        return f"{start} (stored → here): {', '.join(different)}"
    return f"{start}: the recipe is the same, its dataset's content is not ({digests})"


def _accepted(
    path: Path,
    before: Baseline | None,
    machine: Machine,
    server: ServerSpec,
    traffic: Traffic,
    night: Night,
) -> Baseline:
    if before and before.machine.differences(machine):
        raise BaselineError(
            f"the baseline in the folder of {machine.key} is of another machine, "
            f"{before.machine.key}; move it to a folder of that name"
        )
    if before and before.traffic_digest != traffic.digest:
        held = f"{len(before.nights)} night{'s' * (len(before.nights) != 1)}"
        raise BaselineError(
            f"{path} keeps its {held}, and tonight's is not accepted: "
            f"{_other_traffic(before, traffic.digest, traffic_record(traffic))}. If the traffic "
            "was changed on purpose, remove or rename the file in git and accept again. If it was "
            "not: a rehearsal with --llmperf-prompts and a runner without the tokenizers extra "
            "make other requests of the same recipe"
        )
    nights = _with(before.nights if before else (), night)
    return Baseline(
        machine=machine,
        server_name=server.name,
        traffic_name=traffic.spec.name,
        traffic_digest=traffic.digest,
        server=server_record(server),
        traffic=traffic_record(traffic),
        nights=nights,
        noise=_noise(nights[-NOISE_NIGHTS:]),
        anchor=before.anchor if before and before.anchor else _anchor(night),
    )


def _with(nights: Sequence[Night], night: Night) -> tuple[Night, ...]:
    """Return the nights, oldest first, with one more, or with more launches in one."""
    same = [n for n in nights if (n.date, n.host) == (night.date, night.host)]
    if not same:
        return tuple(sorted([*nights, night], key=lambda n: n.date))
    return tuple(_merged(n, night) if n is same[0] else n for n in nights)


def _merged(night: Night, more: Night) -> Night:
    """Append the launches of a second session. Its provenance is kept, all runs are named."""
    runs = [*_runs(night)]
    if any(run in runs for run in _runs(more)):
        logger.info("run %s is in the night of %s already", more.provenance["run"], night.date)
        return night
    runs += _runs(more)
    figures = {
        figure: (*night.figures.get(figure, ()), *more.figures.get(figure, ()))
        for figure in night.figures.keys() | more.figures.keys()
    }
    provenance = {**night.provenance, **more.provenance}
    if len(runs) > 1:
        provenance["runs"] = runs
    return replace(night, figures=figures, provenance=provenance)


def _runs(night: Night) -> list[str]:
    run = night.provenance.get("run")
    return list(night.provenance.get("runs", [run] if run else []))


def _noise(nights: Sequence[Night]) -> dict[str, Noise]:
    """Return the noise of every figure that at least two nights have and that has a logarithm."""
    found = {}
    for figure in sorted({name for night in nights for name in night.figures}):
        values = [night.figures[figure] for night in nights if night.figures.get(figure)]
        if all(value > 0 for launches in values for replays in launches for value in replays):
            noise = estimate_noise(values, figure)
            if noise:
                found[figure] = noise
    return found


def _anchor(night: Night) -> dict[str, Any]:
    """Pin a night: what creep is measured from until somebody moves it, and says why."""
    return {
        "date": night.date,
        "host": night.host,
        "accepted_at": night.provenance.get("accepted_at", night.date),
        "accepted_by": night.provenance.get("accepted_by", "unknown"),
        "reason": "first accepted night",
        "figures": {
            figure: float(f"{night_mean(values):.6g}")
            for figure, values in night.figures.items()
            if values
        },
    }
