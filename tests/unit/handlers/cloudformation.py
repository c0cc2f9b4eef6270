"""CloudFormation: an HTTP server that receives the responses of custom resources."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any


class CloudFormation:
    """A fake of CloudFormation's response endpoint. Pass `url` to a request as its ResponseURL."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.status = 200
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if endpoint.status == 200:
                    endpoint.answers.append(json.loads(body) | {"content-type": self.headers["content-type"]})
                self.send_response(endpoint.status)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Suppress log output."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/answer?signature=x"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
