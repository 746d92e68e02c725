"""Who runs this: a container's user may have a number and no name."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the user's name, or ``uid 12345`` where the host knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
