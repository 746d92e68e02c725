"""Catalogs: the module's name is the key.

A dataset, an arrival process, an engine, a metric or a report section is one module in its
package, and that is all there is to adding one. Another distribution adds its own through an
entry point in the group named like the package (``pytest_llmperf.metrics``), whose value is
such a module.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Generic, TypeVar, cast

from pytest_llmperf.errors import UnknownNameError

T = TypeVar("T")


class Catalog(Generic[T]):
    """The modules of one package, each seen as the one object of kind ``T`` that it defines.

    ``kind`` is the word for the thing in messages, and in capitals the attribute that holds
    it: ``Catalog("dataset", "pytest_llmperf.datasets")`` reads ``DATASET`` of each module.
    Modules that start with an underscore are helpers and no entries. Nothing is imported
    until it is asked for by name.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self.attribute = kind.upper().replace(" ", "_")

    def names(self) -> tuple[str, ...]:
        """Return every known name, sorted."""
        return tuple(sorted({*self._modules(), *self._entry_points()}))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __getitem__(self, name: str) -> T:
        """Return the object of that name; raise UnknownNameError with the known names."""
        module = self.module(name)
        try:
            return cast("T", getattr(module, self.attribute))
        except AttributeError:
            raise UnknownNameError(
                f"{self.kind} (module {module.__name__} defines no {self.attribute})",
                name,
                (known for known in self.names() if known != name),
            ) from None

    def module(self, name: str) -> ModuleType:
        """Return the module of that name; raise UnknownNameError with the known names."""
        if name in self._modules():
            return importlib.import_module(f"{self.package}.{name}")
        points = self._entry_points()
        if name in points:
            return cast("ModuleType", points[name].load())
        raise UnknownNameError(self.kind, name, self.names())

    def _modules(self) -> tuple[str, ...]:
        path = importlib.import_module(self.package).__path__
        return tuple(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.package)}
