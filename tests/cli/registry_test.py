"""End to end: which image does this reference name? Run as: registry_test.py OBSERVE_IMAGE [unittest arguments]"""

import base64
import gzip
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

import registry_servers as servers
from registry_servers import Fake, Layout, Registry, Reply, on, run, sha256

PROGRAM = os.environ.get("DLC_OBSERVE_IMAGE", "")
USER, PASSWORD = "grace", "correct-horse:battery"
# Must never be seen in any output; `observe` looks at all of it.
SECRETS = [PASSWORD, base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode(), "SECRET", "eyJ"]


class Result:
    def __init__(self, done):
        self.exit = done.returncode
        self.log = done.stderr
        document = json.loads(done.stdout)
        self.error = document if self.exit == 1 else None
        self.image = document["servedImage"]["value"] if self.exit == 0 else None

    def config(self):
        assert self.image["config"]["state"] == "seen", self.image["config"]
        return self.image["config"]["value"]


def observe(reference, *flags, config=None, env=None, deadline_ms=20000):
    argv = [PROGRAM, reference, "--deadline-ms", str(deadline_ms), *flags]
    if config:
        argv += ["--docker-config", config]
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environment | (env or {}))
    result = Result(done) if done.returncode in (0, 1) else None
    assert result, f"{argv} ended with {done.returncode}: {done.stderr}"
    for secret in SECRETS:
        assert secret not in done.stdout + done.stderr, f"a secret was printed:\n{done.stdout}{done.stderr}"
    return result


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="dlc-registry-test-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def fake(self, answer, tls=None):
        server = Fake(answer, tls)
        self.addCleanup(server.stop)
        return server

    def docker_config(self, content):
        directory = tempfile.mkdtemp(dir=self.directory)
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return directory

    def helper(self, script):
        """PATH with docker-credential-test in front."""
        directory = tempfile.mkdtemp(dir=self.directory)
        name = os.path.join(directory, "docker-credential-test")
        with open(name, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(name, stat.S_IRWXU)
        return {"PATH": directory + ":" + os.environ["PATH"]}

    def check_error(self, result, code, *parts):
        self.assertEqual(result.exit, 1, result.image)
        self.assertEqual(result.error["code"], code, result.error)
        text = result.error["message"] + " " + result.error["hint"]
        for part in parts:
            self.assertIn(part, text)


def auth_entry():
    return {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}


class Shared:
    """Made once: layouts, certificates, registries with images in them."""


def setUpModule():
    servers.require_tools()
    Shared.directory = tempfile.mkdtemp(prefix="dlc-registry-test-")
    unittest.addModuleCleanup(shutil.rmtree, Shared.directory)
    where = lambda name: os.path.join(Shared.directory, name)

    Shared.layout = layout = Layout(where("layout"))
    labels = {"framework": "ray", "framework_version": "2.58.0", "dlc_minor_version": "1"}
    Shared.amd64, Shared.amd64_config = layout.image("amd64", labels, ["PATH=/opt/venv/bin", "EMPTY="])
    Shared.arm64, Shared.arm64_config = layout.image("arm64")
    Shared.attestation = layout.attestation(Shared.amd64["digest"])
    # arm64 first: taking the first entry would be wrong.
    Shared.index = layout.index([on(Shared.arm64, "arm64"), on(Shared.amd64, "amd64"), Shared.attestation])
    Shared.plain_index = layout.index([on(Shared.arm64, "arm64"), on(Shared.amd64, "amd64")])
    for descriptor, tag in ((Shared.amd64, "single"), (Shared.index, "index"), (Shared.plain_index, "plain")):
        layout.tag(descriptor, tag)

    Shared.authority = servers.Authority(Shared.directory, "ca")
    Shared.stranger = servers.Authority(Shared.directory, "stranger")
    loopback = "IP:127.0.0.1,DNS:localhost"
    Shared.certificate = Shared.authority.issue("good", loopback)
    Shared.expired = Shared.authority.issue("expired", loopback, days="-1")
    Shared.wrong_host = Shared.authority.issue("wrong-host", "DNS:registry.example")

    def start(name, **kwargs):
        registry = Registry(where(name), **kwargs)
        unittest.addModuleCleanup(registry.stop)
        return registry

    Shared.open = start("open")
    Shared.tls = start("tls", tls=Shared.certificate)
    run("htpasswd", "-Bbc", where("htpasswd"), USER, PASSWORD)
    Shared.basic = start("basic", auth=f"auth: {{htpasswd: {{realm: test, path: {where('htpasswd')}}}}}\n")
    Shared.open.push(layout, "single", "team/app:single", "--preserve-digests")
    Shared.open.push(layout, "plain", "team/app:plain", "--preserve-digests")
    Shared.open.push(layout, "single", "team/app:schema2", "--format", "v2s2")
    Shared.open.push(layout, "plain", "team/app:list", "--format", "v2s2")
    Shared.tls.push(layout, "single", "app:v1", "--preserve-digests")
    Shared.basic.push(layout, "single", "app:v1", "--preserve-digests", "--dest-creds", f"{USER}:{PASSWORD}")


class RealRegistry(Case):
    def test_single_manifest(self):
        result = observe(f"{Shared.open.host}/team/app:single")
        image = result.image
        self.assertEqual(image["digest"], Shared.amd64["digest"])
        self.assertEqual(image["headerDigest"], Shared.amd64["digest"])
        self.assertEqual(image["sizeBytes"], Shared.amd64["size"])
        self.assertEqual(image["mediaType"], servers.OCI_MANIFEST)
        self.assertEqual(image["source"], "registry")
        self.assertNotIn("isIndex", image)
        config = result.config()
        self.assertEqual(config["digest"], Shared.amd64_config)
        self.assertEqual((config["os"], config["architecture"]), ("linux", "amd64"))
        self.assertEqual(config["labels"]["framework_version"], "2.58.0")
        self.assertEqual(config["env"], {"PATH": "/opt/venv/bin", "EMPTY": ""})
        self.assertEqual(config["entrypoint"], ["/usr/local/bin/entrypoint.sh"])
        self.assertEqual(config["created"], "1970-01-01T00:00:00Z")
        # A loopback registry without TLS is found without a flag.
        self.assertIn("does not speak TLS", result.log)

    def test_index(self):
        result = observe(f"{Shared.open.host}/team/app:plain")
        image = result.image
        self.assertEqual(image["digest"], Shared.plain_index["digest"])
        self.assertTrue(image["isIndex"])
        members = {member["architecture"]: member for member in image["members"]}
        self.assertEqual(members["amd64"]["digest"], Shared.amd64["digest"])
        self.assertEqual(members["arm64"]["digest"], Shared.arm64["digest"])
        self.assertEqual(members["amd64"]["configDigest"]["value"], Shared.amd64_config)
        self.assertEqual(members["arm64"]["configDigest"]["value"], Shared.arm64_config)
        self.assertTrue(members["amd64"]["runnable"])
        self.assertEqual(result.config()["digest"], Shared.amd64_config)

    def test_attestation_member_pushed_by_hand(self):
        # skopeo 1.9 refuses in-toto layers; the registry itself does not mind.
        host = Shared.open.host
        put_image(host, "attested", Shared.layout, Shared.index, "v1")
        image = observe(f"{host}/attested:v1").image
        self.assertEqual(image["digest"], Shared.index["digest"])
        attestation = image["members"][2]
        self.assertEqual(attestation["digest"], Shared.attestation["digest"])
        self.assertNotIn("runnable", attestation)
        self.assertEqual(attestation["configDigest"]["state"], "not_looked_at")

    def test_docker_schema2_and_manifest_list_agree_with_skopeo(self):
        for tag, media_type in (("schema2", servers.DOCKER_MANIFEST), ("list", servers.DOCKER_LIST)):
            with self.subTest(tag):
                result = observe(f"{Shared.open.host}/team/app:{tag}")
                raw = run("skopeo", "inspect", "--raw", "--tls-verify=false",
                          f"docker://{Shared.open.host}/team/app:{tag}")
                self.assertEqual(result.image["digest"], sha256(raw))
                self.assertEqual(result.image["mediaType"], media_type)
                self.assertEqual(result.config()["architecture"], "amd64")

    def test_pinned_by_digest(self):
        name = f"{Shared.open.host}/team/app"
        digest = Shared.arm64["digest"]
        self.assertEqual(observe(f"{name}@{digest}").image["digest"], digest)
        # The digest decides; a tag beside it is not asked for.
        self.assertEqual(observe(f"{name}:no-such-tag@{digest}").image["digest"], digest)
        missing = "sha256:" + "0" * 64
        self.check_error(observe(f"{name}@{missing}"), "not_found", missing, "MANIFEST_UNKNOWN")

    def test_no_tag_is_asked_back(self):
        self.check_error(observe(f"{Shared.open.host}/team/app"), "invalid_input", "neither tag nor digest")

    def test_missing_tag_and_missing_repository_are_told_apart(self):
        self.check_error(observe(f"{Shared.open.host}/team/app:nope"), "not_found",
                         "has no tag 'nope' in 'team/app'", "MANIFEST_UNKNOWN")
        gone = self.fake(lambda _: Reply(404, {"errors": [{"code": "NAME_UNKNOWN", "message": "x"}]}))
        self.check_error(observe(f"{gone.host}/team/app:v1", "--plain-http"), "not_found",
                         "has no repository 'team/app'")
        other = self.fake(lambda _: Reply(404, b"<html>"))
        self.check_error(observe(f"{other.host}/team/app:v1", "--plain-http"), "not_found",
                         "check that a registry is served there")

    def test_registry_down(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound, not listening: refused
            result = observe(f"127.0.0.1:{unused.getsockname()[1]}/app:v1")
        self.check_error(result, "unavailable", "refused", "nothing listens there")

    def test_no_host_at_all(self):
        for host in ("a.example#b", "a.example?b", "a.example:port", "a.example:99999"):
            self.check_error(observe(f"{host}/app:v1"), "invalid_input", "is not a registry host")

    def test_a_host_written_in_another_way(self):
        port = Shared.basic.host.split(":")[1]
        config = self.docker_config({"auths": {f"127.1:{port}": auth_entry()}})
        self.assertEqual(observe(f"127.1:{port}/app:v1", config=config).image["digest"], Shared.amd64["digest"])

    def test_no_such_host(self):
        self.check_error(observe("no-such-host.invalid/app:v1", deadline_ms=15000), "unavailable",
                         "'no-such-host.invalid' does not resolve")


def put_image(host, name, layout, index, tag):
    """Pushes an index and all that it names, as the distribution-spec has it."""
    import http.client
    connection = http.client.HTTPConnection(host, timeout=10)

    def call(method, target, body=b"", content_type="application/octet-stream"):
        connection.request(method, target, body, {"Content-Type": content_type})
        response = connection.getresponse()
        response.read()
        assert response.status in (201, 202), (method, target, response.status)
        return response

    def put_blob(digest):
        location = urllib.parse.urlsplit(call("POST", f"/v2/{name}/blobs/uploads/").headers["Location"])
        call("PUT", f"{location.path}?{location.query}&digest={digest}", layout.read(digest))

    for member in json.loads(layout.read(index["digest"]))["manifests"]:
        manifest = layout.read(member["digest"])
        for blob in [json.loads(manifest)["config"], *json.loads(manifest)["layers"]]:
            put_blob(blob["digest"])
        call("PUT", f"/v2/{name}/manifests/{member['digest']}", manifest, servers.OCI_MANIFEST)
    call("PUT", f"/v2/{name}/manifests/{tag}", layout.read(index["digest"]), servers.OCI_INDEX)
    connection.close()


class Tls(Case):
    def test_own_authority(self):
        for host in (Shared.tls.host, Shared.tls.host.replace("127.0.0.1", "localhost")):
            image = observe(f"{host}/app:v1", "--ca-file", Shared.authority.pem).image
            self.assertEqual(image["digest"], Shared.amd64["digest"])

    def test_unknown_authority(self):
        self.check_error(observe(f"{Shared.tls.host}/app:v1"), "unavailable",
                         "signed by a certificate authority that is not trusted", "CA file")
        self.check_error(observe(f"{Shared.tls.host}/app:v1", "--ca-file", Shared.stranger.pem),
                         "unavailable", "not trusted", f"CA file in use is '{Shared.stranger.pem}'")

    def test_expired(self):
        server = self.fake(lambda _: Reply(), tls=Shared.expired)
        self.check_error(observe(f"{server.host}/app:v1", "--ca-file", Shared.authority.pem),
                         "unavailable", "has expired")
        self.assertEqual(server.requests, [])

    def test_other_host_name(self):
        server = self.fake(lambda _: Reply(), tls=Shared.wrong_host)
        self.check_error(observe(f"{server.host}/app:v1", "--ca-file", Shared.authority.pem),
                         "unavailable", "is for another host name")
        self.assertEqual(server.requests, [])

    def test_bad_ca_file(self):
        empty = self.path("empty.pem")
        open(empty, "w", encoding="ascii").close()
        for name in (empty, self.path("absent.pem")):
            self.check_error(observe(f"{Shared.tls.host}/app:v1", "--ca-file", name), "invalid_input", name)

    def test_other_hosts_are_asked_in_https_only(self):
        proxy = self.fake(lambda _: Reply(502))
        url = f"http://{proxy.host}"
        result = observe("registry.example/app:v1", env={"https_proxy": url, "http_proxy": url},
                         deadline_ms=1000)
        self.assertEqual(result.exit, 1)
        self.assertEqual({request["target"] for request in proxy.requests}, {"registry.example:443"})

    def test_plain_http_flag_allows_another_host(self):
        proxy = self.fake(image_at("/v2/app/"))
        result = observe("registry.example/app:v1", "--plain-http", env={"http_proxy": f"http://{proxy.host}"})
        self.assertEqual(result.image["digest"], Shared.amd64["digest"])
        self.assertEqual(proxy.requests[0]["target"], "http://registry.example/v2/app/manifests/v1")


def image_at(_prefix, descriptor=None):
    return servers.image_routes(Shared.layout, descriptor or Shared.amd64)


class Logins(Case):
    def test_basic_without_credentials(self):
        reference = f"{Shared.basic.host}/app:v1"
        self.check_error(observe(reference), "permission_denied", Shared.basic.host, "none were looked for")
        absent = self.path("absent")
        self.check_error(observe(reference, config=absent), "permission_denied",
                         f"'{absent}/config.json' does not exist", "docker login")
        other = self.docker_config({"auths": {"registry.example": auth_entry()}})
        self.check_error(observe(reference, config=other), "permission_denied",
                         f"no entry for '{Shared.basic.host}' in '{other}/config.json'")

    def test_basic_from_auths(self):
        for key in (Shared.basic.host, f"https://{Shared.basic.host}/v2/"):
            result = observe(f"{Shared.basic.host}/app:v1",
                             config=self.docker_config({"auths": {key: auth_entry()}}))
            self.assertEqual(result.image["digest"], Shared.amd64["digest"])
            self.assertEqual(result.config()["digest"], Shared.amd64_config)

    def test_wrong_password(self):
        config = self.docker_config({"auths": {Shared.basic.host: {"username": USER, "password": "SECRET"}}})
        self.check_error(observe(f"{Shared.basic.host}/app:v1", config=config), "permission_denied",
                         "UNAUTHORIZED", f"credentials used: auths in '{config}/config.json'")

    def test_malformed_config(self):
        for text in ("{", '{"auths": []}', '{"auths": {"h": {"auth": "%%%"}}}', '{"credsStore": "a/b"}'):
            config = self.docker_config(text)
            self.check_error(observe(f"{Shared.basic.host}/app:v1", config=config), "invalid_input",
                             f"{config}/config.json")

    def test_credential_helper(self):
        answer = json.dumps({"ServerURL": Shared.basic.host, "Username": USER, "Secret": PASSWORD})
        asked = self.path("asked")
        env = self.helper(f"echo \"$1 $(cat)\" > {asked}\necho '{answer}'\n")
        stores = ({"credHelpers": {Shared.basic.host: "test"}, "credsStore": "absent"},
                  {"credsStore": "test", "auths": {Shared.basic.host: {}}})
        for store in stores:
            result = observe(f"{Shared.basic.host}/app:v1", config=self.docker_config(store), env=env)
            self.assertEqual(result.image["digest"], Shared.amd64["digest"])
            with open(asked, encoding="utf-8") as file:
                self.assertEqual(file.read(), f"get {Shared.basic.host}\n")

    def test_credential_helper_without_credentials(self):
        env = self.helper("echo 'credentials not found in native keychain'; exit 1")
        config = self.docker_config({"credsStore": "test"})
        self.check_error(observe(f"{Shared.basic.host}/app:v1", config=config, env=env),
                         "permission_denied", "docker-credential-test has none and no entry")

    def test_credential_helper_fails(self):
        config = self.docker_config({"credsStore": "test"})
        reference = f"{Shared.basic.host}/app:v1"
        env = self.helper("echo 'token has  expired' >&2; exit 3")
        self.check_error(observe(reference, config=config, env=env), "unavailable",
                         "docker-credential-test", "exit code 3: token has expired", config)
        env = self.helper("echo '{\"Username\": \"u\", \"Secret\": \"SECRET\"'")
        self.check_error(observe(reference, config=config, env=env), "unavailable", "did not answer with JSON")

    def test_credential_helper_hangs(self):
        env = self.helper("sleep 600")
        result = observe(f"{Shared.basic.host}/app:v1", config=self.docker_config({"credsStore": "test"}),
                         env=env, deadline_ms=1000)
        self.check_error(result, "timed_out", "docker-credential-test", "killed")

    def test_credential_helper_missing(self):
        config = self.docker_config({"credsStore": "absent"})
        self.check_error(observe(f"{Shared.basic.host}/app:v1", config=config), "not_found",
                         "'docker-credential-absent' is not in PATH (" + os.environ["PATH"], config)


class PrivateEcr(Case):
    """A server of ours under an ECR's name, through a proxy; `aws` is a script that says what AWS's does."""

    HOST = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    PASSWORD_OF_AWS = "eyJwYXlsb2FkIjoiU0VDUkVUIn0="

    def registry(self, host, expired=""):
        """`expired` is a password that was good once."""
        good = "Basic " + base64.b64encode(f"AWS:{self.PASSWORD_OF_AWS}".encode()).decode()
        old = "Basic " + base64.b64encode(f"AWS:{expired}".encode()).decode()
        image = image_at("/v2/app/")

        def answer(request):
            given = request["headers"].get("Authorization")
            if given == good:
                return image(request)
            if given == old and expired:
                return Reply(403, {"errors": [{"code": "DENIED", "message":
                    "Your authorization token has expired. Reauthenticate and try again."}]})
            return Reply(401, b"Not Authorized\n", {"Www-Authenticate": f'Basic realm="https://{host}/",service="ecr.amazonaws.com"'})

        fake = self.fake(answer, Shared.authority.issue("ecr-" + host.replace(".", "-")[:40], "DNS:" + host))
        tunnel = servers.Tunnel(fake.port)
        self.addCleanup(tunnel.stop)
        return fake, tunnel

    def look(self, script, host=HOST, config=None, expired="", deadline_ms=20000):
        """PATH holds `aws` if there is a script for it, and nothing else."""
        fake, tunnel = self.registry(host, expired)
        bin_directory = tempfile.mkdtemp(dir=self.directory)
        self.asked = os.path.join(bin_directory, "asked")
        if script:
            name = os.path.join(bin_directory, "aws")
            with open(name, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{self.asked}"\n' + script)
            os.chmod(name, stat.S_IRWXU)
        result = observe(f"{host}/app:v1", "--ca-file", Shared.authority.pem, config=config or self.path("absent"), deadline_ms=deadline_ms,
                         env={"https_proxy": tunnel.url, "PATH": bin_directory + ("" if not script else ":/usr/bin:/bin")})
        self.assertLessEqual(set(tunnel.targets), {("CONNECT", f"{host}:443")})
        self.requests = fake.requests
        return result

    def calls(self):
        try:
            with open(self.asked, encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def test_aws_gives_the_password(self):
        for host, region in ((self.HOST, "us-east-1"), ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
                             ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
                             ("123456789012.dkr-ecr.eu-west-1.on.aws", "eu-west-1")):
            result = self.look(f"echo {self.PASSWORD_OF_AWS}", host)
            self.assertEqual(result.exit, 0, result.error)
            self.assertEqual(result.image["digest"], Shared.amd64["digest"])
            self.assertEqual(result.config()["digest"], Shared.amd64_config)
            self.assertEqual(self.calls(), [f"ecr get-login-password --region {region}"])  # once for all documents
            self.assertIn("from aws ecr get-login-password", result.log)

    def test_docker_comes_first(self):
        entry = {"auth": base64.b64encode(f"AWS:{self.PASSWORD_OF_AWS}".encode()).decode()}
        result = self.look("exit 1", config=self.docker_config({"auths": {self.HOST: entry}}))
        self.assertEqual(result.exit, 0, result.error)
        self.assertEqual(self.calls(), [])

    def test_no_aws_program(self):
        result = self.look(None)
        self.check_error(result, "permission_denied", f"{self.HOST} refuses access to 'app'", "no anonymous access",
                         "'aws' is not in PATH", "config.json' does not exist", "--region us-east-1", "docker-credential-ecr-login")

    def test_no_aws_credentials(self):
        result = self.look('echo "Unable to locate credentials. You can configure credentials by running \\"aws configure\\"." >&2; exit 253')
        self.check_error(result, "permission_denied", "exit code 253", "Unable to locate credentials", "us-east-1")

    def test_expired_aws_credentials(self):
        result = self.look('echo "An error occurred (ExpiredTokenException) when calling the GetAuthorizationToken operation: '
                           'The security token included in the request is expired" >&2; exit 254')
        self.check_error(result, "permission_denied", "ExpiredTokenException", "exit code 254", "renew the AWS credentials")

    def test_expired_docker_login(self):
        entry = {"auth": base64.b64encode(b"AWS:SECRET-OF-YESTERDAY").decode()}
        result = self.look("exit 1", config=self.docker_config({"auths": {self.HOST: entry}}), expired="SECRET-OF-YESTERDAY")
        self.check_error(result, "permission_denied", "authorization token has expired", "credentials used: auths in",
                         "aws ecr get-login-password --region us-east-1")

    def test_no_password_in_the_answer(self):
        for script in ("true", "echo", "echo two SECRET words", "printf 'SECRET\\001'"):
            self.check_error(self.look(script), "unavailable", "gave no password")

    def test_a_password_that_the_registry_refuses(self):
        self.check_error(self.look("echo SECRET"), "permission_denied", "credentials used: aws ecr get-login-password")

    def test_aws_that_hangs(self):
        result = self.look("sleep 600", deadline_ms=1500)
        self.assertEqual(result.error["code"], "timed_out", result.error)

    def test_other_hosts_get_no_password_of_ecr(self):
        for host in ("123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.example", "12345.dkr.ecr.us-east-1.amazonaws.com"):
            self.check_error(self.look(f"echo {self.PASSWORD_OF_AWS}", host), "permission_denied", "no anonymous access")
            self.assertEqual(self.calls(), [])
            self.assertEqual([r for r in self.requests if "Authorization" in r["headers"]], [])


class Tokens(Case):
    def token_server(self, give):
        return self.fake(lambda request: Reply(200, give(request)))

    def test_real_registry_with_signed_tokens(self):
        signer = servers.TokenSigner(*Shared.authority.issue("signer", "DNS:signer"))
        service = "test, registry"  # a comma inside quotes

        def give(request):
            known = request["headers"].get("Authorization") == "Basic " + auth_entry()["auth"]
            name = request["query"]["scope"][0].split(":")[1]
            return {"token": signer.sign(name if known else "nothing", service, USER)}

        tokens = self.token_server(give)
        registry = Registry(self.path("registry"), auth=(
            f"auth: {{token: {{realm: 'http://{tokens.host}/token', service: '{service}', "
            f"issuer: test-issuer, rootcertbundle: {signer.certificate}}}}}\n"))
        self.addCleanup(registry.stop)
        registry.push(Shared.layout, "plain", "team/app:v1", "--preserve-digests",
                      "--dest-creds", f"{USER}:{PASSWORD}")
        del tokens.requests[:]
        config = self.docker_config({"auths": {registry.host: auth_entry()}})
        result = observe(f"{registry.host}/team/app:v1", config=config)
        self.assertEqual(result.image["digest"], Shared.plain_index["digest"])
        self.assertEqual(result.config()["digest"], Shared.amd64_config)
        self.assertEqual(tokens.requests[0]["query"],
                         {"service": [service], "scope": ["repository:team/app:pull"]})
        self.assertEqual(len(tokens.requests), 1)  # one token serves all requests
        self.check_error(observe(f"{registry.host}/team/app:v1"), "permission_denied", "none were looked for")

    def protected(self, challenge, accepted="Bearer eyJtoken", serve=None):
        serve = serve or servers.image_routes(Shared.layout, Shared.amd64)

        def answer(request):
            if request["headers"].get("Authorization") != accepted:
                return Reply(401, {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]},
                             {"WWW-Authenticate": challenge() if callable(challenge) else challenge})
            return serve(request)

        return self.fake(answer)

    def test_anonymous_token_as_public_ecr_gives_it(self):
        tokens = self.token_server(lambda _: {"access_token": "eyJtoken", "expires_in": 60})
        server = self.protected(f'Bearer scope="aws",SERVICE="public.ecr.aws", realm="http://{tokens.host}/token/"')
        result = observe(f"{server.host}/app:v1", "--plain-http")
        self.assertEqual(result.image["digest"], Shared.amd64["digest"])
        self.assertEqual(tokens.requests[0]["path"], "/token/")
        self.assertEqual(tokens.requests[0]["query"], {"service": ["public.ecr.aws"], "scope": ["aws"]})
        self.assertNotIn("Authorization", tokens.requests[0]["headers"])

    def test_several_challenges(self):
        tokens = self.token_server(lambda _: {"token": "eyJtoken"})
        bearer = f'bearer realm="http://{tokens.host}/t?from=realm",service="a"'
        for challenge in ([f'Basic realm="x", {bearer}'], ["Negotiate YII=", 'Basic realm="x"', bearer]):
            server = self.protected(lambda challenge=challenge: challenge)
            result = observe(f"{server.host}/app:v1", "--plain-http")
            self.assertEqual(result.image["digest"], Shared.amd64["digest"])
        self.assertEqual(tokens.requests[0]["query"]["from"], ["realm"])
        self.assertEqual(tokens.requests[0]["query"]["scope"], ["repository:app:pull"])

    def test_identity_token(self):
        tokens = self.token_server(lambda _: {"access_token": "eyJtoken"})
        server = self.protected(f'Bearer realm="http://{tokens.host}/t",service="a&b"')
        config = self.docker_config({"auths": {server.host: {"identitytoken": "SECRET+refresh"}}})
        env = self.helper("cat >/dev/null; echo '{\"Username\": \"<token>\", \"Secret\": \"SECRET+refresh\"}'")
        helped = self.docker_config({"credsStore": "test"})
        for where in (config, helped):
            result = observe(f"{server.host}/app:v1", "--plain-http", config=where, env=env)
            self.assertEqual(result.image["digest"], Shared.amd64["digest"])
        for request in tokens.requests:
            self.assertEqual(request["method"], "POST")
            self.assertEqual(request["form"], {
                "grant_type": ["refresh_token"], "client_id": ["dlc-check"], "service": ["a&b"],
                "scope": ["repository:app:pull"], "refresh_token": ["SECRET+refresh"]})

    def test_token_refused(self):
        tokens = self.fake(lambda _: Reply(401, {"errors": [{"code": "UNAUTHORIZED", "message": "bad login"}]}))
        server = self.protected(f'Bearer realm="http://{tokens.host}/t"')
        config = self.docker_config({"auths": {server.host: auth_entry()}})
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http", config=config), "permission_denied",
                         f"token server http://{tokens.host}/t", "bad login", "auths in")

    def test_token_that_the_registry_refuses(self):
        tokens = self.token_server(lambda _: {"token": "other"})
        server = self.protected(f'Bearer realm="http://{tokens.host}/t"')
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "permission_denied", server.host)
        self.assertEqual(len(server.requests), 2)

    def test_token_expires_between_requests(self):
        given = iter(["eyJ1", "eyJ2"])
        tokens = self.token_server(lambda _: {"token": next(given)})
        image = servers.image_routes(Shared.layout, Shared.amd64)

        def answer(request):
            wanted = "Bearer eyJ1" if "/manifests/" in request["path"] else "Bearer eyJ2"
            if request["headers"].get("Authorization") != wanted:
                return Reply(401, b"", {"WWW-Authenticate": f'Bearer realm="http://{tokens.host}/t"'})
            return image(request)

        self.assertEqual(observe(f"{self.fake(answer).host}/app:v1", "--plain-http").config()["digest"],
                         Shared.amd64_config)

    def test_unusable_tokens(self):
        for body in (b"{}", b"<html>", b'{"token": "a\\r\\nX-Injected: SECRET"}', b'{"token": 5}'):
            tokens = self.fake(lambda _, body=body: Reply(200, body))
            server = self.protected(f'Bearer realm="http://{tokens.host}/t"')
            self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unavailable",
                             "without a usable token")

    def test_plain_http_token_server_elsewhere_is_refused(self):
        server = self.protected('Bearer realm="http://192.0.2.1/token"')
        self.check_error(observe(f"{server.host}/app:v1"), "unsupported", "plain http (192.0.2.1)", "refused")

    def test_unknown_scheme(self):
        server = self.protected("Negotiate")
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unsupported",
                         "neither Bearer nor Basic")

    def test_forbidden(self):
        server = self.fake(lambda _: Reply(403, {"errors": [{"code": "DENIED", "message": "not yours"}]}))
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "permission_denied",
                         "DENIED: not yours", server.host)


class Retries(Case):
    def serve_after(self, failures):
        image = servers.image_routes(Shared.layout, Shared.amd64)
        left = list(failures)
        return self.fake(lambda request: left.pop(0) if left else image(request))

    def test_429_then_success_honours_retry_after(self):
        server = self.serve_after([Reply(429, b"", {"Retry-After": "1"})])
        result = observe(f"{server.host}/app:v1", "--plain-http")
        self.assertEqual(result.image["digest"], Shared.amd64["digest"])
        self.assertGreaterEqual(server.requests[1]["at"] - server.requests[0]["at"], 0.99)

    def test_429_until_the_deadline(self):
        server = self.fake(lambda _: Reply(429, {"errors": [{"code": "TOOMANYREQUESTS", "message": "rate"}]}))
        result = observe(f"{server.host}/app:v1", "--plain-http", deadline_ms=2000)
        self.check_error(result, "unavailable", "429", "TOOMANYREQUESTS", "requests")
        self.assertGreater(len(server.requests), 1)

    def test_retry_after_beyond_the_deadline_is_not_waited_for(self):
        server = self.fake(lambda _: Reply(429, b"", {"Retry-After": "3600"}))
        result = observe(f"{server.host}/app:v1", "--plain-http")
        self.check_error(result, "unavailable", "429", "Retry-After: 3600")
        self.assertEqual(len(server.requests), 1)

    def test_500s(self):
        server = self.serve_after([Reply(500), Reply(503)])
        self.assertEqual(observe(f"{server.host}/app:v1", "--plain-http").image["digest"],
                         Shared.amd64["digest"])
        server = self.fake(lambda _: Reply(503))
        result = observe(f"{server.host}/app:v1", "--plain-http")
        self.check_error(result, "unavailable", "503 to each of 5 requests", "tag 'v1' in 'app'")
        self.assertEqual(len(server.requests), 5)

    def test_truncated_body(self):
        body = Shared.layout.read(Shared.amd64["digest"])
        truncated = Reply(200, body[:100], announce=len(body))
        result = observe(f"{self.fake(lambda _: truncated).host}/app:v1", "--plain-http")
        self.check_error(result, "unavailable", "transfer from 127.0.0.1", "failed")
        server = self.serve_after([truncated])
        self.assertEqual(observe(f"{server.host}/app:v1", "--plain-http").image["digest"],
                         Shared.amd64["digest"])

    def test_slow_body(self):
        server = self.fake(lambda _: Reply(200, b"{", announce=1000, stall=True))
        result = observe(f"{server.host}/app:v1", "--plain-http", deadline_ms=1000)
        self.check_error(result, "timed_out", server.host, "did not send its whole answer in time")
        # The deadline is far beyond what this waits for: the limit of one transfer has to end it.
        result = observe(f"{server.host}/app:v1", "--plain-http", "--timeout-ms", "500", deadline_ms=600_000)
        self.check_error(result, "timed_out", server.host)

    def test_huge_body(self):
        size = (4 << 20) + 1
        announced = self.fake(lambda _: Reply(200, b"{", announce=size, stall=True))
        result = observe(f"{announced.host}/app:v1", "--plain-http")
        self.check_error(result, "unsupported", "longer than the limit of 4194304 bytes")
        zipped = gzip.compress(b" " * size, 1)
        packed = self.fake(lambda _: Reply(200, zipped, {"Content-Encoding": "gzip"}))
        self.check_error(observe(f"{packed.host}/app:v1", "--plain-http"), "unsupported", "longer than the limit")

    def test_huge_body_of_a_failure(self):
        server = self.fake(lambda _: Reply(404, b"x" * (8 << 20)))
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "not_found", "404")


class Lies(Case):
    def with_top(self, headers=None, body=None, descriptor=None):
        image = servers.image_routes(Shared.layout, descriptor or Shared.amd64)

        def answer(request):
            reply = image(request)
            if request["path"].endswith("/manifests/v1"):
                reply.headers.update(headers or {})
                reply.headers = {name: value for name, value in reply.headers.items() if value}
                reply.body = reply.body if body is None else body
            return reply

        return self.fake(answer)

    def test_wrong_docker_content_digest(self):
        claim = "sha256:" + "1" * 64
        server = self.with_top({"Docker-Content-Digest": claim})
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unavailable",
                         Shared.amd64["digest"], f"Docker-Content-Digest says {claim}")

    def test_no_docker_content_digest(self):
        server = self.with_top({"Docker-Content-Digest": ""})
        image = observe(f"{server.host}/app:v1", "--plain-http").image
        self.assertEqual(image["digest"], Shared.amd64["digest"])
        self.assertNotIn("headerDigest", image)

    def test_another_image_under_a_digest(self):
        wanted = Shared.arm64["digest"]
        server = self.fake(lambda _: Reply(200, Shared.layout.read(Shared.amd64["digest"])))
        self.check_error(observe(f"{server.host}/app@{wanted}", "--plain-http"), "unavailable",
                         Shared.amd64["digest"], f"{wanted} was asked for")

    def test_content_coding_is_undone_before_hashing(self):
        body = gzip.compress(Shared.layout.read(Shared.amd64["digest"]))
        server = self.with_top({"Content-Encoding": "gzip"}, body)
        self.assertEqual(observe(f"{server.host}/app:v1", "--plain-http").image["digest"],
                         Shared.amd64["digest"])

    def test_all_manifest_types_are_accepted_and_the_tool_names_itself(self):
        server = self.with_top()
        observe(f"{server.host}/app:v1", "--plain-http")
        headers = server.requests[0]["headers"]
        self.assertEqual({entry.strip() for entry in headers["Accept"].split(",")},
                         {servers.OCI_INDEX, servers.OCI_MANIFEST, servers.DOCKER_LIST, servers.DOCKER_MANIFEST})
        self.assertRegex(headers["User-Agent"], r"^dlc-check/\d+\.\d+\.\d+$")

    def test_index_served_as_a_manifest(self):
        # By the body it is an index, whatever the header says.
        server = self.with_top({"Content-Type": servers.OCI_MANIFEST}, descriptor=Shared.index)
        image = observe(f"{server.host}/app:v1", "--plain-http").image
        self.assertTrue(image["isIndex"])
        self.assertEqual([member.get("runnable", False) for member in image["members"]], [True, True, False])
        self.assertEqual(len([path for path in server.paths() if "/blobs/" in path]), 1)

    def test_no_manifest_at_all(self):
        for body in (b"<html>log in</html>", b"{}", b"[]", b'{"manifests": [], "config": {}}',
                     b'{"config": {"digest": "sha256:../../x"}}'):
            server = self.fake(lambda _, body=body: Reply(200, body))
            self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unavailable",
                             "is not an image manifest")
        server = self.fake(lambda _: Reply(200, b'{"schemaVersion": 1, "fsLayers": []}'))
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unsupported", "schema 1")

    def test_index_inside_an_index(self):
        layout = Layout(self.path("nested"))
        amd64, _ = layout.image("amd64")
        outer = layout.index([on(layout.index([on(amd64, "amd64")]), "amd64")])
        server = self.fake(servers.image_routes(layout, outer))
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unsupported",
                         "index inside an index")

    def without(self, digest, reply):
        image = servers.image_routes(Shared.layout, Shared.index)
        return self.fake(lambda request: reply if request["path"].endswith(digest) else image(request))

    def test_what_cannot_be_seen_inside_is_an_error_inside(self):
        server = self.without(Shared.amd64_config, Reply(404, {"errors": [{"code": "BLOB_UNKNOWN"}]}))
        image = observe(f"{server.host}/app:v1", "--plain-http").image
        self.assertEqual(image["digest"], Shared.index["digest"])
        self.assertEqual(image["config"]["error"]["code"], "not_found")
        self.assertEqual(image["members"][1]["configDigest"]["value"], Shared.amd64_config)
        server = self.without(Shared.arm64["digest"], Reply(200, b"{}"))
        image = observe(f"{server.host}/app:v1", "--plain-http").image
        self.assertIn("was asked for", image["members"][0]["configDigest"]["error"]["message"])
        self.assertEqual(image["config"]["state"], "seen")
        server = self.without(Shared.amd64_config, Reply(200, b'{"os": "linux", "architecture": "amd64"}'))
        image = observe(f"{server.host}/app:v1", "--plain-http").image
        self.assertIn(f"{Shared.amd64_config} was asked for", image["config"]["error"]["message"])

    def test_index_without_linux_amd64(self):
        layout = Layout(self.path("arm"))
        arm64, _ = layout.image("arm64")
        server = self.fake(servers.image_routes(layout, layout.index([on(arm64, "arm64")])))
        image = observe(f"{server.host}/app:v1", "--plain-http").image
        self.assertEqual(image["config"]["error"]["code"], "not_found")
        self.assertIn("linux/arm64", image["config"]["error"]["hint"])

    def test_artifact_member_is_not_runnable(self):
        layout = Layout(self.path("soci"))
        amd64, config = layout.image("amd64")
        soci, _ = layout.manifest({}, "application/vnd.amazon.soci.index.v2+json", [])
        declared = on(soci, "amd64") | {"artifactType": "application/vnd.amazon.soci.index.v2+json"}
        for member in (declared, on(soci, "amd64")):  # by its entry, or only by its own manifest
            index = layout.index([member, on(amd64, "amd64")])
            image = observe(f"{self.fake(servers.image_routes(layout, index)).host}/app:v1", "--plain-http").image
            self.assertNotIn("runnable", image["members"][0])
            self.assertEqual(image["config"]["value"]["digest"], config)


class Redirects(Case):
    def redirecting(self, location, code=307):
        """Protected by basic; blobs are elsewhere."""
        image = servers.image_routes(Shared.layout, Shared.amd64)

        def answer(request):
            if "Authorization" not in request["headers"]:
                return Reply(401, b"", {"WWW-Authenticate": 'Basic realm="x"'})
            if "/blobs/" in request["path"]:
                return Reply(code, b"", {"Location": location})
            return image(request)

        server = self.fake(answer)
        return server, self.docker_config({"auths": {server.host: auth_entry()}})

    def test_the_credential_stays_with_its_origin(self):
        blob = Shared.layout.read(Shared.amd64_config)
        elsewhere = self.fake(lambda _: Reply(200, blob))
        for code in (301, 302, 303, 307, 308):
            server, config = self.redirecting(f"http://{elsewhere.host}/bucket?X-Amz-Signature=SECRET", code)
            result = observe(f"{server.host}/app:v1", "--plain-http", config=config)
            self.assertEqual(result.config()["digest"], Shared.amd64_config)
        for request in elsewhere.requests:
            self.assertNotIn("Authorization", request["headers"])
            self.assertEqual(request["query"], {"X-Amz-Signature": ["SECRET"]})
        self.assertEqual(len(elsewhere.requests), 5)

    def test_it_is_not_sent_back_after_a_detour(self):
        seen = []
        detour = self.fake(lambda _: Reply(307, b"", {"Location": back[0]}))
        image = servers.image_routes(Shared.layout, Shared.amd64)

        def answer(request):
            if request["path"] == "/back":
                seen.append("Authorization" in request["headers"])
                return Reply(200, Shared.layout.read(Shared.amd64_config))
            if "Authorization" not in request["headers"]:
                return Reply(401, b"", {"WWW-Authenticate": 'Basic realm="x"'})
            if "/blobs/" in request["path"]:
                return Reply(307, b"", {"Location": f"http://{detour.host}/"})
            return image(request)

        server = self.fake(answer)
        back = [f"http://{server.host}/back"]
        config = self.docker_config({"auths": {server.host: auth_entry()}})
        self.assertEqual(observe(f"{server.host}/app:v1", "--plain-http", config=config).config()["digest"],
                         Shared.amd64_config)
        self.assertEqual(seen, [False])

    def test_same_origin_keeps_it(self):
        server, config = self.redirecting("/v2/app/manifests/v1")
        result = observe(f"{server.host}/app:v1", "--plain-http", config=config)
        # What came was the manifest, and so not the config asked for.
        self.assertIn("was asked for", result.image["config"]["error"]["message"])
        self.assertIn("Authorization", server.requests[-1]["headers"])

    def test_never_from_https_to_http(self):
        target = self.fake(lambda _: Reply(200))
        server = self.fake(lambda _: Reply(307, b"", {"Location": f"http://{target.host}/x?SECRET"}),
                           tls=Shared.certificate)
        self.check_error(observe(f"{server.host}/app:v1", "--ca-file", Shared.authority.pem), "unavailable",
                         "from https to plain http")
        self.assertEqual(target.requests, [])

    def test_plain_http_elsewhere(self):
        server, config = self.redirecting("http://192.0.2.1/x?SECRET")
        result = observe(f"{server.host}/app:v1", config=config)
        self.assertEqual(result.image["config"]["error"]["code"], "unsupported")
        self.assertIn("plain http to 192.0.2.1 is refused", result.image["config"]["error"]["message"])

    def test_in_circles(self):
        server = self.fake(lambda _: Reply(302, b"", {"Location": "/round"}))
        self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unavailable", "more than 5 times")
        self.assertEqual(len(server.requests), 6)

    def test_to_nowhere(self):
        for location in ("", "file:///etc/passwd", "http://u:SECRET@127.0.0.1/", "ftp://127.0.0.1/"):
            server = self.fake(lambda _, location=location: Reply(307, b"", {"Location": location}))
            self.check_error(observe(f"{server.host}/app:v1", "--plain-http"), "unavailable", "to nowhere")

    def test_refused_where_it_leads(self):
        elsewhere = self.fake(lambda _: Reply(401, b"", {"WWW-Authenticate": 'Basic realm="give"'}))
        server, config = self.redirecting(f"http://{elsewhere.host}/x")
        result = observe(f"{server.host}/app:v1", "--plain-http", config=config)
        self.assertEqual(result.image["config"]["error"]["code"], "permission_denied")
        self.assertEqual(len(elsewhere.requests), 1)
        self.assertNotIn("Authorization", elsewhere.requests[0]["headers"])


class LayoutOnDisk(Case):
    def test_by_tag(self):
        result = observe(f"oci:{Shared.layout.directory}:single")
        self.assertEqual(result.image["digest"], Shared.amd64["digest"])
        self.assertEqual(result.image["source"], "oci-layout")
        self.assertEqual(result.config()["digest"], Shared.amd64_config)
        image = observe(f"oci:{Shared.layout.directory}:index").image
        self.assertEqual(image["digest"], Shared.index["digest"])
        self.assertEqual([member.get("runnable", False) for member in image["members"]], [True, True, False])

    def test_several_without_a_tag(self):
        self.check_error(observe(f"oci:{Shared.layout.directory}"), "invalid_input", "single, index, plain")
        self.check_error(observe(f"oci:{Shared.layout.directory}:nope"), "not_found",
                         "no tag 'nope'", "single, index, plain")

    def test_one_without_a_tag(self):
        layout = Layout(self.path("one"))
        amd64, _ = layout.image("amd64")
        layout.tag(amd64, None)
        self.assertEqual(observe(f"oci:{layout.directory}").image["digest"], amd64["digest"])

    def test_written_by_skopeo(self):
        target = self.path("copied")
        run("skopeo", "--insecure-policy", "copy", "--all", "--src-tls-verify=false", "--preserve-digests",
            f"docker://{Shared.open.host}/team/app:plain", f"oci:{target}:v1")
        result = observe(f"oci:{target}:v1")
        self.assertEqual(result.image["digest"], Shared.plain_index["digest"])
        self.assertEqual(result.config()["digest"], Shared.amd64_config)

    def test_damaged(self):
        copy = self.path("damaged")
        shutil.copytree(Shared.layout.directory, copy)
        blob = os.path.join(copy, "blobs", "sha256", Shared.amd64["digest"][7:])
        with open(blob, "ab") as file:
            file.write(b" ")
        self.check_error(observe(f"oci:{copy}:single"), "invalid_input", blob, "damaged")

    def test_damaged_config(self):
        copy = self.path("damaged")
        shutil.copytree(Shared.layout.directory, copy)
        os.unlink(os.path.join(copy, "blobs", "sha256", Shared.amd64_config[7:]))
        image = observe(f"oci:{copy}:single").image
        self.assertEqual(image["config"]["error"]["code"], "not_found")

    def test_symbolic_links_are_followed(self):
        link = self.path("link")
        os.symlink(Shared.layout.directory, link)
        self.assertEqual(observe(f"oci:{link}:single").image["digest"], Shared.amd64["digest"])

    def test_no_layout(self):
        self.check_error(observe(f"oci:{self.path('absent')}:v1"), "not_found", "not an OCI image layout")
        layout = Layout(self.path("future"))
        layout.write("oci-layout", b'{"imageLayoutVersion": "2.0.0"}')
        self.check_error(observe(f"oci:{layout.directory}"), "unsupported", "version '2.0.0' is not 1.0.0")

    def test_no_name_leads_out_of_the_layout(self):
        layout = Layout(self.path("evil"))
        layout.tag({"digest": "sha256:../../../etc/passwd", "mediaType": servers.OCI_MANIFEST, "size": 1}, "v1")
        self.check_error(observe(f"oci:{layout.directory}:v1"), "invalid_input", "is not a digest")

    def test_a_pipe_in_place_of_a_blob_does_not_hang(self):
        layout = Layout(self.path("pipe"))
        os.mkfifo(self.path("pipe", "blobs", "sha256", "1" * 64))
        layout.tag({"digest": "sha256:" + "1" * 64, "mediaType": servers.OCI_MANIFEST, "size": 1}, "v1")
        self.check_error(observe(f"oci:{layout.directory}:v1"), "invalid_input", "not a regular file")


class Harness(Case):
    def test_a_leaked_secret_would_be_noticed(self):
        with self.assertRaisesRegex(AssertionError, "a secret was printed"):
            observe("127.0.0.1:1/SECRET:v1")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
