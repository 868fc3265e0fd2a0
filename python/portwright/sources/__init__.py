"""Where models come from. A plugin is one file: a module with these names.

    DESCRIPTION: str             one line
    PACKAGES: tuple[str, ...]    distributions whose versions decide what is built
    EXAMPLES: tuple[str, ...]    names that build() takes
    names() -> list[str]         all names, or as many as are worth completing and suggesting
    build(name, config) -> Network

`build` makes the module with random weights and without a download; the random generators are seeded already. An
unknown name is a LookupError. `config` is a dict of overrides, empty unless a caller has some. Import the library
inside functions: a plugin is loaded just to list it.

Plugins outside Portwright are entry points of the group "portwright.sources", whose name is the plugin's and whose
value is the module:

    [project.entry-points."portwright.sources"]
    mylib = "mylib.portwright_source"
"""

from __future__ import annotations

import difflib
import importlib
from importlib import metadata
from types import ModuleType

from portwright.failures import Failure, guarded
from portwright.networks import Axis, Input, Network

__all__ = ["Axis", "Input", "Network", "close_matches", "find", "known"]

GROUP = "portwright.sources"
_BUILT_IN = ("torchvision", "timm", "transformers")


def _entry_points() -> dict[str, metadata.EntryPoint]:
    points = {point.name: point for point in metadata.entry_points(group=GROUP)}
    for name in _BUILT_IN:
        points[name] = metadata.EntryPoint(name, f"{__name__}.{name}", GROUP)
    return points


def known() -> list[str]:
    return sorted(_entry_points())


def close_matches(word: str, words: list[str]) -> str:
    """A hint: the words that look like this one, or the first few."""
    found = difflib.get_close_matches(word, words, n=5, cutoff=0.6)
    found = found or [one for one in words if word and word.lower() in one.lower()][:5]
    if found:
        return "did you mean " + ", ".join(found) + "?"
    more = ", ..." if len(words) > 8 else ""
    return "known: " + ", ".join(words[:8]) + more if words else ""


def find(name: str) -> ModuleType:
    """The plugin of that name."""
    points = _entry_points()
    if name not in points:
        hint = close_matches(name, sorted(points)) + " A file is written path/to/file.py:factory."
        raise Failure("usage", "bad_source", f"there is no source plugin '{name}'", stage="open", hint=hint)
    with guarded("open", "bad_source", "environment", hint=f"the plugin '{name}' does not load"):
        return importlib.import_module(points[name].value)
