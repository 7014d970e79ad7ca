"""Posts webhooks byte by byte, as no client would."""

import socket

from tests.services.ingress.webhooks.posting import PATH, Change, Door, signed


def raw(door: Door, head: str, body: bytes, *, close: bool) -> bytes:
    """Sends bytes as they are and returns the answer; `close` ends the sending side then."""
    host, port = door.ingress.webhooks.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head.encode() + body)
        if close:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def head_of(body: bytes, length: int, **changes: Change) -> str:
    """A request's head that says so many bytes follow, whatever does."""
    lines = [f"POST {PATH} HTTP/1.1", "host: x", f"content-length: {length}"]
    lines += [f"{name.decode()}: {value.decode()}" for name, value in signed(body, **changes)]
    return "\r\n".join([*lines, "", ""])
