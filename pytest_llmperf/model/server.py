"""ServerSpec: what to start. Its name is its identity in baselines and history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.arguments import argument

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Names become folders and test ids: letters, digits, ``.``, ``_`` and ``-``."""
LONGEST_NAME = 100
"""Characters; a file system takes 255 bytes, and a pair's folder has two names."""

PARALLEL = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size", "-dp"),
)


def check_name(kind: str, name: str) -> None:
    """Raise SpecError unless ``name`` can be a folder and a part of a test id."""
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise SpecError(
            f"{kind} name {name!r}: a name starts with a letter or digit and holds only "
            "letters, digits, '.', '_' and '-' (it becomes a folder and a part of a test id)"
        )
    if len(name) > LONGEST_NAME:
        raise SpecError(
            f"{kind} name {name[:20] + '...'!r} has {len(name)} characters: at most "
            f"{LONGEST_NAME} are allowed (it becomes a folder and a part of a test id)"
        )


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One configuration of one engine.

    ``arguments`` are the words after ``vllm serve MODEL``; ``environment`` is added to the
    server's own, and never shown in a representation: tokens live there. Both are recorded and diffed, and never a reason to refuse a comparison:
    a changed argument is what is being gated.
    """

    name: str
    engine: str
    model: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_name("server", self.name)
        if not self.model:
            raise SpecError(f"server {self.name!r}: the model is empty; give a name or a folder")
        for word in self.arguments:
            if not isinstance(word, str):
                raise SpecError(
                    f"server {self.name!r}: argument {word!r} is a {type(word).__name__}; "
                    f"write every argument as a string: {str(word)!r}"
                )
        for variable, value in self.environment:
            for what, word in (("name", variable), ("value", value)):
                if not isinstance(word, str):
                    raise SpecError(  # without the value: tokens live there
                        f"server {self.name!r}: the {what} of env {variable!r} is a "
                        f"{type(word).__name__}; write names and values as strings"
                    )
        _ = self.gpus

    @classmethod
    def of(
        cls,
        name: str,
        engine: str,
        model: str,
        arguments: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> ServerSpec:
        """Build one from a suite's plain values."""
        pairs = tuple(sorted((environment or {}).items(), key=lambda pair: str(pair[0])))
        return cls(name, engine, model, tuple(arguments), pairs)

    @property
    def gpus(self) -> int:
        """GPUs needed: tensor × pipeline × data parallel size."""
        count = 1
        for names in PARALLEL:
            value = argument(self.arguments, *names)
            if value is None:
                continue
            if not value.isdigit() or int(value) < 1:
                raise SpecError(
                    f"server {self.name!r}: {names[0]} is {value!r}, not a number of at least 1"
                )
            count *= int(value)
        return count

    def with_arguments(self, extra: Iterable[str]) -> ServerSpec:
        """Return the same server with ``extra`` words appended."""
        return replace(self, arguments=(*self.arguments, *extra))

    def with_engine(self, engine: str) -> ServerSpec:
        """Return the same server on another engine."""
        return replace(self, engine=engine)
