"""Receives OTLP over gRPC, gives spans back over HTTP: python -m examples.trace_receiver."""

import argparse
import asyncio
import socket
import sys

from examples.serving import exit_zero_on_signals, http_server, listen, parse_address, shown
from examples.trace_receiver.collector import grpc_server
from examples.trace_receiver.misbehaviour import Misbehaviour
from examples.trace_receiver.reading import build_app
from examples.trace_receiver.spans import SpanMemory


def main() -> None:
    """Serves until SIGTERM; prints one line when ready."""
    exit_zero_on_signals()
    parser = argparse.ArgumentParser(prog="python -m examples.trace_receiver", description=__doc__)
    parser.add_argument("--grpc", type=parse_address, default=("127.0.0.1", 7121))
    parser.add_argument("--http", type=parse_address, default=("127.0.0.1", 7122))
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.grpc, listen(arguments.http)))


async def _serve(grpc_address: tuple[str, int], listener: socket.socket) -> None:
    memory, misbehaviour = SpanMemory(), Misbehaviour()
    host, port = grpc_address
    host = f"[{host}]" if ":" in host else host
    try:
        collector, bound_port = grpc_server(memory, misbehaviour, f"{host}:{port}")
    except RuntimeError as error:
        sys.exit(f"cannot listen on {host}:{port}: {error}")
    await collector.start()
    ready = f"trace receiver ready at {host}:{bound_port} http://{shown(listener)}"
    app = build_app(memory, misbehaviour)
    server = http_server(app, announce=lambda: print(ready, flush=True))
    try:
        await server.serve(sockets=[listener])
    finally:
        await collector.stop(grace=None)


if __name__ == "__main__":
    main()
