"""python -m portwright.worker: one long-lived process in which PyTorch lives. See src/base/process.h for the protocol.

Descriptors 3, 4 and 5 come from the parent. Standard output and error are a log: user code may print as it likes.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import select
import signal
import sys
import threading
import time

from portwright.channel import SOCKET, Channel, Inbox, Outbox
from portwright.failures import Failure, Kind, describe

# Where each operation lives: a module is imported when it is first needed, so that `hello` needs no torch.
_OPERATIONS = {
    "hello": "portwright.environment",
    "sources": "portwright.opening",
    "open": "portwright.opening",
    "close": "portwright.opening",
    "forward": "portwright.forward",
    "export": "portwright.exporting",
    "trace": "portwright.tracing",
    "eval_open": "portwright.evaluation",
    "eval_next": "portwright.evaluation",
    "eval_add": "portwright.evaluation",
    "eval_score": "portwright.evaluation",
}


class Worker:
    """What operations share: the boxes, the open handles and a way to tell progress.

    An operation is a function op_NAME(worker, request) that gives the content of "ok" or raises.
    """

    def __init__(self, channel: Channel, inbox: Inbox, outbox: Outbox):
        self.inbox, self.outbox = inbox, outbox
        self._channel = channel
        self._handles: dict[int, object] = {}
        self._next_handle = 1
        self._request = None

    def keep(self, item: object) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._handles[handle] = item
        return handle

    def held(self, handle: int, kind: type):
        item = self._handles.get(handle)
        if not isinstance(item, kind):
            raise Failure("defect", "bad_handle", f"no {kind.__name__.lower()} has the handle {handle!r}")
        return item

    def drop(self, handle: int) -> None:
        self._handles.pop(handle, None)

    def note(self, text: str) -> None:
        self._channel.send({"id": self._request, "note": text})

    def serve(self) -> None:
        while (message := self._channel.receive()) is not None:
            self._request = message.get("id")
            started = time.perf_counter()
            answer = self._answer(message)
            how = f"failed: {answer['error']['message']}" if "error" in answer else "done"
            print(f"{message.get('op')}: {how} in {time.perf_counter() - started:.3f} s", file=sys.stderr)
            self._channel.send({"id": self._request, **answer})
            sys.stdout.flush()
            sys.stderr.flush()

    def _answer(self, message: dict) -> dict:
        name = message.get("op", "")
        try:
            if name not in _OPERATIONS:
                raise Failure("defect", "bad_request", f"the worker has no operation '{name}'")
            operation = getattr(importlib.import_module(_OPERATIONS[name]), f"op_{name}")
            return {"ok": operation(self, message)}
        except BaseException as error:  # SystemExit of user code included: nothing but a crash ends the worker
            return {"error": describe(error, Kind(name, "exception", "defect")).to_json()}


def _leave_with_parent() -> None:
    """Ends the worker when the parent dies in the middle of a request."""
    poll = select.poll()
    poll.register(SOCKET, select.POLLHUP)
    poll.poll()
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    faulthandler.enable()  # a crash leaves its Python stack in the log
    sys.stdout.reconfigure(line_buffering=True)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # code that asks for input gets the end of it
    sys.dont_write_bytecode = True  # no __pycache__ beside the user's files
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of compiler processes beside this one
    try:
        worker = Worker(Channel(), Inbox(), Outbox())
    except OSError:
        sys.exit("portwright.worker is started by portwright, with descriptors 3, 4 and 5 open")
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    worker.serve()


if __name__ == "__main__":
    main()
