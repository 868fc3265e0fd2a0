from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from client import Client, WorkerError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def worker(tmp_path_factory):
    """The one long-lived worker that most tests share, as a port does."""
    client = Client(tmp_path_factory.mktemp("worker") / "log")
    yield client
    assert client.close() == 0


@pytest.fixture
def fresh(tmp_path):
    """Starts workers of a test's own, for tests that end them."""
    clients = []

    def start(**options) -> Client:
        clients.append(Client(tmp_path / f"log{len(clients)}", **options))
        return clients[-1]

    yield start
    for client in clients:
        client.process.kill()
        client.process.wait()


@pytest.fixture
def source(tmp_path):
    """Writes a user's file and gives its path."""

    def write(text: str, name: str = "net.py") -> Path:
        file = tmp_path / "user" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("import torch\nfrom torch import nn\n\n\n" + textwrap.dedent(text).strip() + "\n")
        return file

    return write


@pytest.fixture
def failing():
    """Calls an operation that must fail, and gives the error."""

    def call(client: Client, op: str, **request) -> WorkerError:
        with pytest.raises(WorkerError) as caught:
            client.call(op, **request)
        error = caught.value
        assert "\n" not in error.message and "\n" not in error.hint
        assert error.stage
        return error

    return call
