"""A fake S3, for uploads of the training image."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Store:
    """A fake S3 that stores uploads, or responds with another status."""

    def __init__(self) -> None:
        self.puts: list[tuple[str, bytes]] = []
        self.status = 200
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                if self.headers.get("Expect") == "100-continue":
                    self.send_response_only(100)
                    self.end_headers()
                store.puts.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(store.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
