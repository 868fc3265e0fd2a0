"""Failures as values: what goes wrong in user code or in PyTorch becomes an error of the protocol.

A `Failure` carries the fields of the C++ `Error`. Anything else that is raised is turned into one by `describe`, with
the user's own line of the traceback as `where`.
"""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Modules whose package has another name.
_PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY_FOLDERS = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_FRAMEWORK = re.compile(r"[/\\](site|dist)-packages[/\\](torch|onnxscript|onnx_ir|onnx)[/\\]")
_FRAME_IN_TEXT = re.compile(r'File "([^"]+)", line (\d+)')


class Failure(Exception):
    """An expected failure. `fault` is one of gate, usage, environment, input, defect."""

    def __init__(self, fault, code, message, *, stage="", where="", hint="", detail=""):
        super().__init__(message)
        self.fault, self.stage, self.code, self.message = fault, stage, code, message
        self.where, self.hint, self.detail = where, hint, detail

    def to_json(self) -> dict:
        names = ("fault", "stage", "code", "message", "where", "hint", "detail")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Kind:
    """What a failure of one stage is called, unless it turns out to be something more special."""

    stage: str
    code: str
    fault: str = "gate"


def one_line(text: str, limit: int = 400) -> str:
    """The first line with something in it, shortened."""
    line = next((line.strip() for line in str(text).splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."


def summary(error: BaseException) -> str:
    """'ValueError: the first line of its message'."""
    name, line = type(error).__name__, one_line(str(error))
    return f"{name}: {line}" if line else name


def is_own(file: str) -> bool:
    return os.path.abspath(file).startswith(_OWN_FOLDER)


def is_library(file: str) -> bool:
    """Whether a file belongs to Python, an installed package or Portwright: not the user's."""
    if file.startswith("<"):
        return True
    path = os.path.abspath(file)
    return bool(_INSTALLED.search(path)) or path.startswith(_LIBRARY_FOLDERS) or path.startswith(_OWN_FOLDER)


def is_framework(file: str) -> bool:
    """Whether a file belongs to what runs models (PyTorch, Python, Portwright), not to what defines them."""
    if bool(_FRAMEWORK.search(file)) or file.startswith("<") or is_own(file):
        return True
    return is_library(file) and not _INSTALLED.search(file)


def pick_line(frames: list[tuple[str, int]]) -> str:
    """The line to blame among (file, line) frames, innermost first: the user's, else a model library's, else any."""
    for accepted in (lambda file: not is_library(file), lambda file: not is_framework(file)):
        for file, line in frames:
            if accepted(file):
                return f"{os.path.basename(file)}:{line}"
    return f"{os.path.basename(frames[0][0])}:{frames[0][1]}" if frames else ""


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it, the root cause last."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _frames(error: BaseException) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for one in reversed(list(chain(error))):
        if isinstance(one, SyntaxError) and one.filename:
            found.append((one.filename, one.lineno or 0))
        found += [(f.filename, f.lineno or 0) for f in reversed(traceback.extract_tb(one.__traceback__))]
    return found


def user_line(error: BaseException) -> str:
    """'file.py:31': the user's innermost line behind an error.

    Exporters swallow the frames of the code they trace and print them into their message; those count when the
    traceback itself has no line of the user.
    """
    frames = _frames(error)
    if not any(not is_library(file) for file, _ in frames):
        for one in reversed(list(chain(error))):
            told = [(file, int(line)) for file, line in _FRAME_IN_TEXT.findall(str(one))]
            if any(not is_library(file) for file, _ in told):
                return pick_line(told[::-1])
    return pick_line(frames)


def full_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error))
    )


def describe(error: BaseException, kind: Kind, message: str = "", hint: str = "", where: str = "") -> Failure:
    """The failure that an exception stands for. `message`, `hint` and `where` replace what would be derived."""
    if isinstance(error, Failure):
        error.stage = error.stage or kind.stage
        return error
    common = {"stage": kind.stage, "where": where or user_line(error), "detail": full_traceback(error)}
    for one in chain(error):
        if isinstance(one, SystemExit):
            text = f"the source called sys.exit({one.code!r})"
            return Failure("input", "source_exited", text, hint="let the code return or raise instead", **common)
        if isinstance(one, ModuleNotFoundError) and isinstance(error, ImportError) and one.name:
            top = one.name.partition(".")[0]
            install = f"pip install {_PACKAGES.get(top, top)}"
            text = f"the Python package '{top}' is missing"
            return Failure("environment", "missing_package", text, hint=install, **common)
        if _out_of_memory(one):
            return Failure(
                "gate", "out_of_memory", summary(one), hint="use a smaller input or raise the memory limit", **common
            )
    return Failure(kind.fault, kind.code, message or summary(error), hint=hint, **common)


class guarded:
    """Context in which everything raised, SystemExit included, leaves as a `Failure` of the given kind."""

    def __init__(self, stage: str, code: str, fault: str = "gate", hint: str = ""):
        self._kind, self._hint = Kind(stage, code, fault), hint

    def __enter__(self):
        return self

    def __exit__(self, _type, error, _traceback):
        if error is None or isinstance(error, KeyboardInterrupt):
            return False
        raise describe(error, self._kind, hint=self._hint) from error


def existing_file(path: str, stage: str) -> Path:
    """The absolute path of a file, or the failure that says that it is not there."""
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        reason = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise Failure("input", "no_such_file", f"{path} {reason}", stage=stage, where=path, hint="check the path")
    return file
