"""Baselines: the accepted nights, in files that live in git.

``<root>/<machine key>/<server>/<traffic>.json`` holds one :class:`Baseline`, and
``<root>/<machine key>/<candidate>-vs-<reference>/<traffic>.json`` one of the ratios between two
servers launched in turns. Which of the two a file is, it says itself: names cannot confuse them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_llmperf.errors import BaselineError
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.noise import pool_unlike
from pytest_llmperf.model.server import ServerSpec, check_name
from pytest_llmperf.model.traffic import Traffic
from pytest_llmperf.model.verdict import Noise
from pytest_llmperf.store._atomic import locked, write_atomically
from pytest_llmperf.store._baseline_file import (
    AGAINST,
    against_of,
    decode,
    encode,
    pair_record,
    parse_baseline,
    rounded,
    server_record,
    traffic_record,
)
from pytest_llmperf.store._baseline_nights import NOISE_NIGHTS, anchor_of, noise_of, with_night
from pytest_llmperf.store._recipe import recipe_differences

__all__ = [
    "AGAINST",
    "NOISE_NIGHTS",
    "BaselineStore",
    "NoBaseline",
    "against_of",
    "parse_baseline",
    "read_baseline",
    "server_record",
    "traffic_record",
]

read_baseline = decode

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

    def path(
        self, machine: Machine, server: str, traffic: str, *, against: str | None = None
    ) -> Path:
        """Return where the baseline of a server, or of its ratios to another, lies."""
        check_name("server", server)
        check_name("traffic", traffic)
        if against is not None:
            check_name("server", against)
        return self.root / machine.key / _folder(server, against) / f"{traffic}.json"

    def files(self) -> list[Path]:
        """Return every baseline file there is, readable or not."""
        return self._files()

    def find(
        self,
        machine: Machine,
        server: str,
        traffic: str,
        digest: str,
        *,
        against: str | None = None,
        traffic_record: Mapping[str, Any] | None = None,
    ) -> Baseline | NoBaseline:
        """Return what is stored for exactly this, or why nothing comparable is.

        ``against``: the server that ratios are to, where it is them that are asked for.
        ``traffic_record``: what the function of that name says of the traffic at hand, so that
        another digest can be told by the fields that differ. Raises BaselineError also where
        the file is of something else whose name comes to the same folder.
        """
        path = self.path(machine, server, traffic, against=against)
        if not path.exists():
            return NoBaseline(self._why_nothing(machine, server, traffic, against))
        found = self._read(path)
        _require_same(path, found, server, against)
        if different := ", ".join(found.machine.differences(machine)):
            return NoBaseline(f"{path} is of another machine (stored → here): {different}")
        if found.traffic_digest != digest:
            return NoBaseline(_other_traffic(found, digest, traffic_record))
        if not found.nights:
            return NoBaseline(f"{path} holds no night; accept one with --llmperf-accept")
        return found

    def noise(self, machine: Machine, figure: str, *, ratios: bool = False) -> Noise | None:
        """Return a figure's noise pooled over all files of this machine, or None.

        Of the servers' own figures, or of their ``ratios`` to others: a pair cancels what a night
        does to both, so the two are never pooled together. The standard deviation of night means in log(value), with degrees of freedom that say
        how well it foretells any one traffic's noise (``model.noise.pool_unlike``).
        """
        return pool_unlike(
            baseline.noise[figure]
            for baseline in self._readable(self._files(machine.key))
            if figure in baseline.noise
            and (against_of(baseline) is not None) is ratios
            and not baseline.machine.differences(machine)
        )

    def accept(
        self,
        machine: Machine,
        server: ServerSpec,
        traffic: Traffic,
        night: Night,
        *,
        against: ServerSpec | None = None,
    ) -> Path:
        """Add a night and return its file. With ``against`` it is a night of ratios.

        A session of the same date and host as an accepted night adds its launches to that
        night; a session (``provenance["run"]``) that is in it already changes nothing. The
        first night becomes the anchor. Raises BaselineError, and leaves the file as it is, where
        another machine's, another server's or another traffic's nights are stored in it.
        """
        other = against.name if against else None
        path = self.path(machine, server.name, traffic.spec.name, against=other)
        figures = rounded(night.figures, f"{path}, night {night.date} on {night.host}")
        night = replace(night, figures=figures)
        try:
            with locked(path.parent):
                before = decode(path) if path.exists() else None
                if before:
                    _require_same(path, before, server.name, other)
                record = pair_record(server, against) if against else server_record(server)
                after = _accepted(path, before, machine, record, traffic, night)
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

    def _why_nothing(self, machine: Machine, server: str, traffic: str, against: str | None) -> str:
        folder, name = _folder(server, against), _said(server, against)
        stored_there = self._readable(self._files("*", folder, traffic))
        others = [b for b in stored_there if not _another(b, server, against)]
        same_kind = [b for b in others if b.machine.simulated == machine.simulated]
        if same_kind:
            nearest = min(same_kind, key=lambda b: len(b.machine.differences(machine)))
            different = ", ".join(nearest.machine.differences(machine))
            return (
                f"no night of {name} on {traffic} was accepted on this machine; the nearest, "
                f"{nearest.machine.key}, differs (stored → here): {different}"
            )
        if others:
            stored, here = ("real", "simulated") if machine.simulated else ("simulated", "real")
            return (
                f"only {stored} nights of {name} on {traffic} are stored, and a {here} one is "
                "never compared with them"
            )
        known = [path.stem for path in self._files(machine.key, folder)]
        beside = f" (of {name} there are: {', '.join(known)})" if known else ""
        return (
            f"no night of {name} on {traffic} is stored in {self.root}{beside}; accept one with "
            "--llmperf-accept"
        )


def _folder(server: str, against: str | None) -> str:
    return server if against is None else f"{server}-vs-{against}"


def _said(server: str, against: str | None) -> str:
    return server if against is None else f"{server} against {against}"


def _another(stored: Baseline, server: str, against: str | None) -> bool:
    """Whether a file is of another kind, or of another pair whose folder has the same name.

    A file that somebody moved to follow a server's new name is none of these.
    """
    held = (stored.server_name, against_of(stored))
    same_folder = _folder(*held) == _folder(server, against)
    return (held[1] is None) != (against is None) or (same_folder and held != (server, against))


def _require_same(path: Path, stored: Baseline, server: str, against: str | None) -> None:
    if not _another(stored, server, against):
        return
    held = (stored.server_name, against_of(stored))
    holds, wanted = (
        f"{'nights' if pair[1] is None else 'ratios'} of {_said(*pair)}"
        for pair in (held, (server, against))
    )
    raise BaselineError(
        f"{path} holds {holds}, not {wanted}. CANDIDATE-vs-REFERENCE is the folder of a "
        "comparison's ratios: rename the server whose name comes to the same"
    )


def _other_traffic(stored: Baseline, digest: str, recipe: Mapping[str, Any] | None) -> str:
    """Say by which fields of the recipe the stored traffic differs."""
    start = f"{stored.traffic_name} is another traffic than the stored one"
    digests = f"digest {stored.traffic_digest} → {digest}"
    if recipe is None:
        return f"{start}: {digests}"
    different = recipe_differences(stored.traffic, recipe)
    if different:
        return f"{start} (stored → here): {', '.join(different)}"
    return f"{start}: the recipe is the same, its dataset's content is not ({digests})"


def _accepted(
    path: Path,
    before: Baseline | None,
    machine: Machine,
    server: Mapping[str, Any],
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
    nights = with_night(before.nights if before else (), night)
    return Baseline(
        machine=machine,
        server_name=server["name"],
        traffic_name=traffic.spec.name,
        traffic_digest=traffic.digest,
        server=server,
        traffic=traffic_record(traffic),
        nights=nights,
        noise=noise_of(nights),
        anchor=before.anchor if before and before.anchor else anchor_of(night),
    )
