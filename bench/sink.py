"""A trace receiver that keeps nothing: `python -m bench.sink` prints its address and serves."""

import asyncio
import sys

import grpc
from grpc import aio

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Drop(grpc.GenericRpcHandler):
    """Answers every export with an empty message, and reads none."""

    def service(
        self, call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """The one method."""
        if call_details.method != EXPORT:
            return None
        return grpc.unary_unary_rpc_method_handler(_answer)


async def _answer(_request: bytes, _context: object) -> bytes:
    return b""


async def main() -> None:
    """Serves until killed."""
    server = aio.server()
    server.add_generic_rpc_handlers([Drop()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"127.0.0.1:{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
