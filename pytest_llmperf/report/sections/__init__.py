"""Sections of a run's page: one module each, which defines ``SECTION``, a ``Section``."""

from pytest_llmperf.catalog import Catalog
from pytest_llmperf.report.section import Section

SECTIONS: Catalog[Section] = Catalog("section", "pytest_llmperf.report.sections")
