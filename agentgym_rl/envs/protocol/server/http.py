"""Limits on what one connection may send, and for how long."""

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD = 16 << 10
"""Most bytes of a request's line and headers."""
WAITING = 16
"""Most requests of a connection that wait for their turn; each takes some kilobytes."""
RECEIVE_S = 15.0
"""Seconds within which a request must have arrived, from when the connection opened or its first bytes came."""

SEND_S = 15.0
"""Seconds within which a client must take what waits for it."""


class TooLarge(Exception):
    """The head of a request is larger than :data:`HEAD`, or more than :data:`WAITING` requests wait."""


class Protocol(HttpToolsProtocol):
    """Uvicorn's protocol, which has no such limits, with those above.

    A request with too large a head is answered with 431, one too many with 400. One that does not arrive in time ends
    its connection, and so does one that has not arrived when the server stops, and an answer that the client does not
    take.
    """

    _in_head = False
    _arrived = True
    """Whether nothing of a request is outstanding."""
    _told = 0
    """Bytes of the head that the parser has told of."""
    _segments = 0
    """Bytes of the segments that hold nothing but a part of the head; a header without an end is in these only."""
    _too_large = False
    _deadline: asyncio.TimerHandle | None = None
    """Of the request."""
    _stuck: asyncio.TimerHandle | None = None
    """Of what the client has not taken yet."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # writing pauses as soon as the client is behind
        self._deadline = self.loop.call_later(RECEIVE_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._unstick()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        in_head = self._in_head
        super().data_received(data)
        if in_head and self._in_head:
            self._segments += len(data)
            if self._segments > HEAD:
                self._too_large = True
                self.send_400_response("")
        if self._arrived:
            self._disarm()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(RECEIVE_S, self.transport.abort)

    def pause_writing(self) -> None:
        self._stuck = self.loop.call_later(SEND_S, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unstick()
        super().resume_writing()

    def shutdown(self) -> None:
        if self._arrived:
            super().shutdown()
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        if not self._too_large:
            return super().send_400_response(msg)
        if not self.transport.is_closing():
            self.transport.write(STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
        return None

    # the parser's callbacks

    def on_message_begin(self) -> None:
        if len(self.pipeline) == WAITING:
            raise TooLarge
        self._in_head, self._arrived, self._told, self._segments = True, False, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._grow(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arrived = True
        super().on_message_complete()

    def _grow(self, size: int) -> None:
        self._told += size
        if self._told > HEAD:
            self._too_large = True
            raise TooLarge

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
