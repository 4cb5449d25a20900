"""A way to a dashboard that sees, and may change, what passes."""
import http.client
import http.server
import threading
import time


class Relay:
    """`seen`: (monotonic clock at its beginning, method, path, bytes of the body, seconds until it is answered) of each request.
    `change(path, body)`: what the client gets in the place of an answer of 200."""

    def __init__(self, port, change=lambda path, body: body):
        self.seen = seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def relay(self):
                began = time.monotonic()
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                there = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
                headers = {name: self.headers[name] for name in ("Content-Type", "User-Agent") if name in self.headers}
                there.request(self.command, self.path, body or None, headers)
                answer = there.getresponse()
                data = answer.read()
                there.close()
                seen.append((began, self.command, self.path, len(body), time.monotonic() - began))
                if answer.status == 200:
                    data = change(self.path, data)
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = relay

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
