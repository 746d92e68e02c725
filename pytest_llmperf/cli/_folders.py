"""Where the folders of a project are, seen from anywhere in it."""

from __future__ import annotations

from pathlib import Path


def nearest(name: Path) -> Path | None:
    """Return the folder of that name here, or in the nearest folder above that has one."""
    here = Path.cwd()
    above = (folder / name for folder in (here, *here.parents))
    return next((folder for folder in above if folder.is_dir()), None)
