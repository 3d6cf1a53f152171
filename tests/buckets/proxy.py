"""A server between a client and the server of a bucket, which is slow, fails, cuts connections, or goes away."""

import http.client
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from buckets.servers import Server

CUT, LOST = "cut", "lost"
"""Half of an answer arrives; nothing of it does, though what was asked is done."""
Fault = Callable[[str, str], int | str | None]


def error_body(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><AWSAccessKeyId>AKIDSECRET</AWSAccessKeyId></Error>".encode()


class Proxy:
    """What it does with a request is decided by `fault`, from the method and the path: None forwards it.

    A number is a status to answer with, and `code` is the error code in its body.
    """

    def __init__(self, server: Server) -> None:
        self.latency, self.code = 0.0, "SlowDown"
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

            def log_message(self, *_: object) -> None:
                pass

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                time.sleep(proxy.latency)
                proxy.requests.append((self.command, self.path))
                what = proxy.fault(self.command, self.path)
                if isinstance(what, int):
                    self.reply(what, [("Content-Type", "application/xml")], error_body(proxy.code))
                    return
                upstream_connection = http.client.HTTPConnection(*server.address, timeout=60)
                upstream_connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in server.asked(self.headers.items()):
                    if name.lower() not in ("connection",):
                        upstream_connection.putheader(name, value)
                upstream_connection.endheaders(body)
                found = upstream_connection.getresponse()
                content = found.read()
                upstream_connection.close()
                if what == LOST:
                    self.close_connection = True
                    self.connection.close()
                    return
                own = ("connection", "transfer-encoding", "content-length", "server", "date")
                headers = [(k, v) for k, v in server.answered(found.getheaders()) if k.lower() not in own]
                length = int(found.getheader("Content-Length") or 0) if self.command == "HEAD" else len(content)
                self.reply(found.status, headers, content[: len(content) // 2] if what == CUT else content, length)

            def reply(self, status: int, headers: list[tuple[str, str]], content: bytes, length: int | None = None):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content) if length is None else length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)
                self.wfile.flush()
                if length is not None and len(content) < length and self.command != "HEAD":
                    self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def forward(self) -> None:
        self.fault, self.latency = lambda method, path: None, 0.0

    def fall_silent_after(self, n_writes: int) -> list[str]:
        """Refuse all from the PUT or DELETE after so many on; return the list of those that come."""
        said: list[str] = []

        def silent(method: str, path: str) -> int | None:
            if method in ("PUT", "DELETE", "POST") or len(said) > n_writes:
                said.append(path)
            return 400 if len(said) > n_writes else None

        self.fault = silent
        return said

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
