"""python -m portwright.view NAME [--port N] [--browse]: Netron on the model that standard input holds.

Without a file in between nothing is left behind, however the viewer ends.
"""

from __future__ import annotations

import argparse
import sys


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--port", type=int)
    parser.add_argument("--browse", action="store_true")
    options = parser.parse_args()
    try:
        import netron
    except ImportError:
        print("portwright: error: this Python has no netron", file=sys.stderr)
        print(f"hint: {sys.executable} -m pip install netron", file=sys.stderr)
        return 3
    model = bytearray(sys.stdin.buffer.read())
    try:
        host, port = netron.serve(options.name, model, address=("localhost", options.port), browse=options.browse)
    except OSError as problem:
        print(f"portwright: error: cannot serve on port {options.port}: {problem}", file=sys.stderr)
        print("hint: name another one with --port, or leave it out", file=sys.stderr)
        return 3
    print(f"{options.name} is shown at http://{host}:{port} (Ctrl-C ends)", flush=True)
    try:
        netron.wait()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
