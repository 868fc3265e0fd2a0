"""Which files a piece of user code reads: its weights and configurations belong to what a result depends on."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from portwright.failures import is_library

_SYSTEM = ("/proc/", "/dev/", "/sys/", "/etc/", "/usr/")
_collecting: list[set[str]] = []


def _hook(event: str, args: tuple) -> None:
    if event == "open" and _collecting and isinstance(args[0], str) and (args[1] is None or "r" in args[1]):
        _collecting[-1].add(os.path.abspath(args[0]))


@contextlib.contextmanager
def files_read():
    """Gives a list that holds, after the context, the user's files that were opened for reading inside it."""
    if not hasattr(_hook, "installed"):  # an audit hook stays for the life of the process
        sys.addaudithook(_hook)
        _hook.installed = True
    found: list[Path] = []
    _collecting.append(set())
    try:
        yield found
    finally:
        seen = sorted(_collecting.pop())
        found += [Path(f) for f in seen if not f.startswith(_SYSTEM) and not is_library(f) and os.path.isfile(f)]
