"""What registry_test.py runs against: Debian's docker-registry, fake servers, certificates, OCI layouts."""

import base64
import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

TOOLS = {
    "docker-registry": "docker-registry",
    "skopeo": "skopeo",
    "htpasswd": "apache2-utils",
    "openssl": "openssl",
}

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def require_tools():
    missing = sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)
    if missing:
        raise RuntimeError("these tests need real programs: apt-get install " + " ".join(missing))


def run(*argv, **kwargs):
    done = subprocess.run(argv, capture_output=True, timeout=30, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]} failed: {done.stderr.decode(errors='replace')}")
    return done.stdout


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


# Images ----------------------------------------------------------------------------------------


class Layout:
    """An OCI image layout, written by hand so that each digest is known before any tool sees it."""

    def __init__(self, directory):
        self.directory = directory
        self.entries = []
        os.makedirs(os.path.join(directory, "blobs", "sha256"))
        self.write("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        self.save()

    def write(self, name, data):
        with open(os.path.join(self.directory, name), "wb") as file:
            file.write(data)

    def save(self):
        index = {"schemaVersion": 2, "manifests": self.entries}
        self.write("index.json", json.dumps(index).encode())

    def blob(self, data):
        digest = sha256(data)
        self.write("blobs/sha256/" + digest[7:], data)
        return {"digest": digest, "size": len(data)}

    def image(self, architecture, labels=None, env=None):
        """A manifest's descriptor, with `config` (its digest) beside it."""
        tar = b"\0" * 10240
        layer = self.blob(gzip.compress(tar, mtime=0)) | {
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}
        config = {
            "created": "1970-01-01T00:00:00Z", "architecture": architecture, "os": "linux",
            "config": {"Labels": labels or {}, "Env": env or ["PATH=/usr/bin"],
                       "Entrypoint": ["/usr/local/bin/entrypoint.sh"]},
            "rootfs": {"type": "layers", "diff_ids": [sha256(tar)]},
            "history": [{"created_by": "test"}]}
        return self.manifest(config, OCI_CONFIG, [layer])

    def manifest(self, config, config_type, layers):
        config_blob = self.blob(json.dumps(config).encode()) | {"mediaType": config_type}
        body = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config_blob, "layers": layers}
        descriptor = self.blob(json.dumps(body, indent=2).encode()) | {"mediaType": OCI_MANIFEST}
        return descriptor, config_blob["digest"]

    def attestation(self, of):
        layer = self.blob(b'{"predicateType": "https://slsa.dev/provenance/v0.2"}') | {
            "mediaType": "application/vnd.in-toto+json"}
        config = {"architecture": "unknown", "os": "unknown", "config": {},
                  "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
        descriptor, _ = self.manifest(config, OCI_CONFIG, [layer])
        return descriptor | {
            "platform": {"architecture": "unknown", "os": "unknown"},
            "annotations": {"vnd.docker.reference.type": "attestation-manifest",
                            "vnd.docker.reference.digest": of}}

    def index(self, members):
        body = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": members}
        return self.blob(json.dumps(body, indent=2).encode()) | {"mediaType": OCI_INDEX}

    def tag(self, descriptor, name):
        entry = dict(descriptor)
        if name:
            entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        self.entries.append(entry)
        self.save()

    def read(self, digest):
        with open(os.path.join(self.directory, "blobs", "sha256", digest[7:]), "rb") as file:
            return file.read()


def on(descriptor, architecture):
    return descriptor | {"platform": {"os": "linux", "architecture": architecture}}


# Certificates ----------------------------------------------------------------------------------


class Authority:
    def __init__(self, directory, name):
        self.directory = directory
        self.key = os.path.join(directory, name + ".key")
        self.pem = os.path.join(directory, name + ".pem")
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key)
        run("openssl", "req", "-x509", "-new", "-key", self.key, "-subj", "/CN=" + name,
            "-days", "2", "-out", self.pem)

    def issue(self, name, alternative_names, days="2"):
        """(certificate, key) files. Negative days: already expired."""
        base = os.path.join(self.directory, name)
        run("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", base + ".key",
            "-subj", "/CN=" + name, "-out", base + ".csr")
        with open(base + ".ext", "w", encoding="ascii") as file:
            file.write("subjectAltName=" + alternative_names)
        run("openssl", "x509", "-req", "-in", base + ".csr", "-CA", self.pem, "-CAkey", self.key,
            "-CAcreateserial", "-days", days, "-extfile", base + ".ext", "-out", base + ".pem")
        return base + ".pem", base + ".key"


# The real registry -----------------------------------------------------------------------------


class Registry:
    """docker-registry on a port that the kernel chose."""

    def __init__(self, directory, auth="", tls=None):
        os.makedirs(directory)
        tls_lines = f"  tls: {{certificate: {tls[0]}, key: {tls[1]}}}\n" if tls else ""
        config = os.path.join(directory, "config.yml")
        with open(config, "w", encoding="ascii") as file:
            file.write("version: 0.1\nlog: {level: info}\n"
                       f"storage: {{filesystem: {{rootdirectory: {directory}/data}}}}\n"
                       f"{auth}http:\n  addr: 127.0.0.1:0\n{tls_lines}")
        self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if match := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                break
        else:
            raise RuntimeError("docker-registry did not start:\n" + "".join(seen))
        self.host = "127.0.0.1:" + match[1]
        self.drain = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.drain.start()

    def push(self, layout, tag, name, *flags):
        run("skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "--all", *flags,
            f"oci:{layout.directory}:{tag}", f"docker://{self.host}/{name}")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        self.drain.join(10)
        self.process.stderr.close()


# Fake servers ----------------------------------------------------------------------------------


class Reply:
    """`announce` differs from the body's length for a truncated body; `stall` keeps the connection open."""

    def __init__(self, status=200, body=b"", headers=None, announce=None, stall=False):
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = headers or {}
        self.announce = announce
        self.stall = stall


class Fake:
    """`answer(request)` gives a Reply; `requests` records what came: method, path, query, headers, form."""

    def __init__(self, answer, tls=None, bind="127.0.0.1"):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 20

            def do_GET(self):
                self.respond()

            def do_POST(self):
                self.respond()

            def do_CONNECT(self):
                self.respond()

            def respond(self):
                form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                url = urllib.parse.urlsplit(self.path)
                request = {"method": self.command, "target": self.path, "path": url.path,
                           "query": urllib.parse.parse_qs(url.query), "headers": dict(self.headers.items()),
                           "form": urllib.parse.parse_qs(form), "at": time.monotonic()}
                with fake.lock:
                    fake.requests.append(request)
                reply = answer(request)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    for one in value if isinstance(value, list) else [value]:
                        self.send_header(name, one)
                length = len(reply.body) if reply.announce is None else reply.announce
                self.send_header("Content-Length", str(length))
                self.end_headers()
                try:
                    self.wfile.write(reply.body)
                    self.wfile.flush()
                except OSError:
                    fake.hung_up.set()
                if reply.stall:
                    fake.stopping.wait(20)
                if reply.announce is not None:
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.requests = []
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.hung_up = threading.Event()

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a refused handshake or a client that hangs up is the test
                pass

        self.server = Server((bind, 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.host = f"{bind}:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)

    def paths(self):
        return [request["path"] for request in self.requests]


class Tunnel:
    """A proxy that takes every CONNECT to one local port, so that a server of ours stands in for any host; `targets`
    records which hosts were meant."""

    def __init__(self, port):
        self.targets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.to = port
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            more = client.recv(4096)
            if not more:
                return client.close()
            head += more
        method, target = head.split(b" ")[:2]
        self.targets.append((method.decode(), target.decode()))
        if method != b"CONNECT":
            client.sendall(b"HTTP/1.1 502 X\r\nContent-Length: 0\r\n\r\n")
            return client.close()
        server = socket.create_connection(("127.0.0.1", self.to))
        client.sendall(b"HTTP/1.1 200 X\r\n\r\n")
        back = threading.Thread(target=self.pump, args=(server, client), daemon=True)
        back.start()
        self.pump(client, server)
        back.join()
        client.close()
        server.close()

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def image_routes(layout, descriptor, tag="v1"):
    """An answer function that serves one image of the layout as repository "app"."""

    def answer(request):
        parts = request["path"].split("/")
        if parts[:3] != ["", "v2", "app"] or len(parts) != 5:
            return Reply(404, {"errors": [{"code": "NAME_UNKNOWN", "message": "repository name not known"}]})
        digest = descriptor["digest"] if parts[4] == tag else parts[4]
        try:
            body = layout.read(digest)
        except OSError:
            return Reply(404, {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]})
        headers = {}
        if parts[3] == "manifests":
            headers = {"Content-Type": json.loads(body).get("mediaType", OCI_MANIFEST),
                       "Docker-Content-Digest": digest}
        return Reply(200, body, headers)

    return answer


class TokenSigner:
    """Tokens as docker-registry accepts them: RS256, the certificate chain in the header (x5c)."""

    def __init__(self, certificate, key):
        self.key = key
        self.certificate = certificate
        self.chain = run("openssl", "x509", "-in", certificate, "-outform", "DER")

    def sign(self, repository, service, subject):
        def part(value):
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

        now = int(time.time())
        header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(self.chain).decode()]}
        claims = {"iss": "test-issuer", "sub": subject, "aud": service, "exp": now + 300, "nbf": now - 10,
                  "iat": now, "jti": "1",
                  "access": [{"type": "repository", "name": repository, "actions": ["pull", "push"]}]}
        signed = part(header) + b"." + part(claims)
        signature = run("openssl", "dgst", "-sha256", "-sign", self.key, input=signed)
        return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()
