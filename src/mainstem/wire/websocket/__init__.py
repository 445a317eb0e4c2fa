"""WebSocket, RFC 6455, the side of the server."""
