"""The report: static pages from stored runs. Did it regress, can I believe that, and why."""

from pytest_llmperf.report.page import write_report

__all__ = ["write_report"]
