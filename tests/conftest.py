"""Fixtures that tests of several packages use."""

from tests.truth.server import truthd

__all__ = ["truthd"]
