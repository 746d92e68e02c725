"""Writing the report: a page a run, the list of runs beside it, and plotly's script once.

Everything lies in one folder and needs no network: it can be a CI artifact, or served as it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pytest_llmperf.report.context import Context, environment
from pytest_llmperf.report.sections import SECTIONS
from pytest_llmperf.report.text import LOOKS
from pytest_llmperf.report.views import SEVERITY
from pytest_llmperf.store._atomic import write_atomically
from pytest_llmperf.store.runs import Run, load_run

TEMPLATES = Path(__file__).parent / "templates"
PLOTLY = "plotly.min.js"


def write_report(run: Path, out: Path) -> Path:
    """Write the page of the run in the folder ``run`` into ``out``, and return its path.

    ``out`` also gets ``index.html``, the list of all runs that have a page there, and plotly's
    script. Raises StoreError where ``run`` is no run's folder or a file in it is damaged.
    """
    context = Context(load_run(run), out.resolve())
    path = out / f"{context.run.path.name}.html"
    write_atomically(path, _page(context))
    write_atomically(path.with_suffix(".json"), json.dumps(_entry(context), ensure_ascii=False))
    _write_plotly(out)
    _write_index(out)
    return path


def _page(context: Context) -> str:
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    statuses = [judged.status for judged in context.judged]
    return context.render(
        "page.html",
        simulated=is_simulated(context.run),
        sections=_sections(context),
        status=LOOKS[min(statuses, key=SEVERITY.index)] if statuses else None,
        style=_verbatim("style.css"),
        script=_verbatim("report.js"),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        plotly=PLOTLY,
    )


def _verbatim(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def _sections(context: Context) -> list[tuple[str, str, Markup]]:
    """Return name, title and content of each section with something to show, in order."""
    known = sorted((SECTIONS[name].order, name) for name in SECTIONS)
    shown = []
    for _, name in known:
        section = SECTIONS[name]
        try:
            content = section.render(context)
        except Exception as error:  # noqa: BLE001 - the rest of the page is worth having
            content = context.render("trouble.html", error=error)
        if content is not None:
            shown.append((name, section.title, content))
    return shown


def _entry(context: Context) -> dict[str, Any]:
    """Return what the list of runs says of this one."""
    run = context.run
    statuses = [judged.status for judged in context.judged]
    return {
        "id": run.path.name,
        "started_at": run.header.started_at,
        "machine": run.header.machine.key,
        "simulated": is_simulated(run),
        "status": run.status,
        "outcome": run.outcome,
        "verdicts": {s.value: statuses.count(s) for s in SEVERITY if s in statuses},
    }


def _write_index(out: Path) -> None:
    """List every run with a page in ``out``, newest first, by the notes left beside the pages."""
    entries = [e for page in out.glob("*.html") if (e := _read_entry(page.with_suffix(".json")))]
    entries.sort(key=lambda entry: (_instant(entry["started_at"]), entry["id"]), reverse=True)
    rows = [(entry, _looks(entry["verdicts"])) for entry in entries]
    page = environment().get_template("index.html").render(rows=rows, style=_verbatim("style.css"))
    write_atomically(out / "index.html", page)


def _read_entry(path: Path) -> dict[str, Any] | None:
    """Return what was noted of a page; one that cannot be read is listed by its name."""
    if path.stem == "index":
        return None
    bare = dict.fromkeys(("started_at", "machine", "status", "outcome"), "") | {"id": path.stem}
    try:
        noted = json.loads(path.read_bytes())
    except (OSError, ValueError):
        noted = {}
    if not isinstance(noted, Mapping) or not isinstance(noted.get("verdicts", {}), Mapping):
        noted = {}
    return {"simulated": False, "verdicts": {}, **bare, **noted}


def _looks(verdicts: Mapping[str, int]) -> list[tuple[Any, int]]:
    return [(LOOKS[s], verdicts[s.value]) for s in SEVERITY if s.value in verdicts]


def _instant(iso: str) -> datetime:
    try:
        return datetime.fromisoformat(iso).astimezone(UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _write_plotly(out: Path) -> None:
    """Put plotly's own script into ``out``, unless this very version is there."""
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs().encode()
    target = out / PLOTLY
    if not target.is_file() or target.stat().st_size != len(script):
        write_atomically(target, script)


def is_simulated(run: Run) -> bool:
    """Whether any figure of the run is the simulated engine's, launched or attached to."""
    caveats = (caveat for stored in run.verdicts for caveat in stored.verdict.caveats)
    return run.header.simulated or any(caveat.startswith("SIMULATED") for caveat in caveats)
