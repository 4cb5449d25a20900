#!/usr/bin/env python3
"""Evidence against verifiers that are not ours: cosign 2 and 3, openssl with jq, and python3-jsonschema.

Everything runs without a network where `unshare -n` is allowed. cosign comes from tests/fetch_cosign.sh; a part that
cannot run is skipped with its reason, and the program ends with 77 (skipped) when cosign was not tried at all.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.environ.get("DLC_EVIDENCE_TOOL", "")
FETCH = os.environ.get("DLC_FETCH_COSIGN", "")
PREDICATE_TYPE = "urn:dlc-check:preflight:v1"
KEY_TYPES = ("p256", "ed25519")
TRUSTED_ROOT = '{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}'


def run(argv, env=None, timeout=60):
    return subprocess.run([str(a) for a in argv], env=env, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def have_network_namespace():
    return shutil.which("unshare") is not None and run(["unshare", "-rn", "true"]).returncode == 0


def fetch_cosign():
    """{major: program}, {major: why it is missing}."""
    try:
        result = subprocess.run([FETCH], text=True, capture_output=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return {}, {major: "fetch_cosign.sh took more than 10 minutes" for major in ("2", "3")}
    folder = pathlib.Path((result.stdout.split() or ["/nonexistent"])[-1])
    found, missing = {}, {}
    for major in ("2", "3"):
        program = folder / major / "cosign"
        if os.access(program, os.X_OK):
            found[major] = program
        else:
            lines = [line for line in result.stderr.splitlines() if f"cosign {major}:" in line]
            missing[major] = lines[0] if lines else "fetch_cosign.sh gave no reason"
    return found, missing


class Evidence(unittest.TestCase):
    """One directory for all tests: keys of both types, evidence that passed and that failed, tampered copies."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="dlc-evidence-")
        cls.root = pathlib.Path(cls.temporary.name)
        cls.offline = ["unshare", "-rn"] if have_network_namespace() else []
        cls.manifest = cls.root / "manifest.json"
        cls.manifest.write_text('{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}')
        cls.digest = hashlib.sha256(cls.manifest.read_bytes()).hexdigest()
        (cls.root / "other.json").write_text("{}")
        (cls.root / "trusted_root.json").write_text(TRUSTED_ROOT)
        cls.fingerprint = {}
        for key in KEY_TYPES:
            cls.fingerprint[key] = cls.tool("keygen", cls.root / key, key).stdout.strip()
            cls.tool("keygen", cls.root / f"stranger-{key}", key)
            for outcome in ("passed", "failed"):
                cls.tool("make", cls.root / f"{key}-{outcome}", cls.key(key), cls.manifest, outcome)
            cls.tamper(key)
        cls.tool("make", cls.root / "unsigned", "-", cls.manifest, "passed")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def tool(cls, *args, ok=True):
        result = run([TOOL, *args])
        if ok and result.returncode != 0:
            raise AssertionError(f"evidence_tool {args}: {result.stdout}")
        return result

    @classmethod
    def key(cls, key):
        return cls.root / key / "dlc-check.key"

    @classmethod
    def pub(cls, key):
        return cls.root / key / "dlc-check.pub"

    @classmethod
    def tamper(cls, key):
        """The evidence of a run that failed, its result turned to PASSED under the old signature."""
        good, bad = cls.root / f"{key}-failed", cls.root / f"{key}-tampered"
        bad.mkdir()
        for name in ("evidence.sigstore.json", "evidence.dsse.json"):
            document = json.loads((good / name).read_text())
            envelope = document.get("dsseEnvelope", document)
            payload = base64.b64decode(envelope["payload"])
            changed = payload.replace(b'"result": "FAILED"', b'"result": "PASSED"')
            assert changed != payload
            envelope["payload"] = base64.b64encode(changed).decode()
            (bad / name).write_text(json.dumps(document))


class OpensslTest(Evidence):
    """As facts say: jq takes payload and signature out, openssl verifies; nothing of ours is needed."""

    SCRIPT = r"""
        set -eu
        jq -r '(.dsseEnvelope//.).payload' "$1" | base64 -d >p
        jq -r '(.dsseEnvelope//.).signatures[0].sig' "$1" | base64 -d >s
        { printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c <p)"; cat p; } >m
        case $3 in
            p256) openssl dgst -sha256 -verify "$2" -signature s m ;;
            ed25519) openssl pkeyutl -verify -pubin -inkey "$2" -rawin -in m -sigfile s ;;
        esac
    """

    def verify(self, file, pub, key):
        with tempfile.TemporaryDirectory(dir=self.root) as scratch:
            return subprocess.run(["bash", "-c", self.SCRIPT, "sh", str(file), str(pub), key], cwd=scratch, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)

    @unittest.skipUnless(shutil.which("jq") and shutil.which("openssl"), "needs jq and openssl")
    def test_openssl_alone_verifies_and_refuses(self):
        for key in KEY_TYPES:
            for name in ("evidence.sigstore.json", "evidence.dsse.json"):
                with self.subTest(key=key, name=name):
                    good = self.verify(self.root / f"{key}-passed" / name, self.pub(key), key)
                    self.assertEqual(good.returncode, 0, good.stdout)
                    self.assertRegex(good.stdout, "Verified OK|Verified Successfully")
                    tampered = self.verify(self.root / f"{key}-tampered" / name, self.pub(key), key)
                    self.assertNotEqual(tampered.returncode, 0, tampered.stdout)
                    stranger = self.verify(self.root / f"{key}-passed" / name, self.pub(f"stranger-{key}"), key)
                    self.assertNotEqual(stranger.returncode, 0, stranger.stdout)

    def test_the_statement_file_is_the_signed_payload(self):
        for key in KEY_TYPES:
            folder = self.root / f"{key}-passed"
            statement = (folder / "evidence.statement.json").read_bytes()
            bundle = json.loads((folder / "evidence.sigstore.json").read_text())
            envelope = json.loads((folder / "evidence.dsse.json").read_text())
            self.assertEqual(base64.b64decode(bundle["dsseEnvelope"]["payload"], validate=True), statement)
            self.assertEqual(bundle["dsseEnvelope"], envelope)
            self.assertTrue(statement.endswith(b"}\n"))

    @unittest.skipUnless(shutil.which("ssh-keygen"), "needs ssh-keygen")
    def test_the_key_id_is_what_ssh_keygen_prints(self):
        # ssh-keygen reads PEM public keys of ECDSA; Ed25519 is held by a fixed key in the unit tests.
        converted = run(["ssh-keygen", "-i", "-m", "PKCS8", "-f", self.pub("p256")])
        self.assertEqual(converted.returncode, 0, converted.stdout)
        line = self.root / "key.ssh"
        line.write_text(converted.stdout)
        self.assertIn(self.fingerprint["p256"], run(["ssh-keygen", "-l", "-f", line]).stdout)

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl")
    def test_openssl_reads_our_keys_and_we_read_its(self):
        self.tool("keygen", self.root / "locked", "p256", "open sesame")
        locked = self.key("locked")
        self.assertIn("BEGIN ENCRYPTED PRIVATE KEY", locked.read_text())
        read = run(["openssl", "pkey", "-in", locked, "-passin", "pass:open sesame", "-pubout"])
        self.assertEqual(read.stdout, self.pub("locked").read_text())
        self.assertNotEqual(run(["openssl", "pkey", "-in", locked, "-passin", "pass:other", "-noout"]).returncode, 0)
        theirs = self.root / "openssl.key"
        run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-out", theirs])  # EC PARAMETERS, then SEC1
        self.assertIn("BEGIN EC PRIVATE KEY", theirs.read_text())
        self.tool("make", self.root / "by-openssl-key", theirs, self.manifest, "passed")


class VerifyTest(Evidence):
    def test_exit_codes(self):
        self.tool("make", self.root / "incomplete", self.key("p256"), self.manifest, "incomplete")
        rows = [("p256-passed", "p256", 0), ("ed25519-passed", "ed25519", 0), ("p256-failed", "p256", 1),
                ("incomplete", "p256", 3), ("p256-tampered", "p256", 4), ("p256-passed", "stranger-p256", 4),
                ("ed25519-passed", "p256", 4)]
        for folder, key, code in rows:
            for name in ("evidence.sigstore.json", "evidence.dsse.json"):
                with self.subTest(folder=folder, key=key, name=name):
                    result = self.tool("verify", self.root / folder / name, self.pub(key), self.digest, ok=False)
                    self.assertEqual(result.returncode, code, result.stdout)

    def test_unsigned_evidence_and_another_image_are_refused(self):
        statement = self.root / "unsigned" / "evidence.statement.json"
        self.assertEqual(sorted(p.name for p in statement.parent.iterdir()), ["evidence.statement.json"])
        result = self.tool("verify", statement, self.pub("p256"), ok=False)
        self.assertEqual(result.returncode, 4)
        self.assertIn("not signed", result.stdout)
        bundle = self.root / "p256-passed" / "evidence.sigstore.json"
        self.assertEqual(self.tool("verify", bundle, self.pub("p256"), "3" * 64, ok=False).returncode, 4)

    def test_evidence_is_not_overwritten(self):
        result = self.tool("make", self.root / "p256-passed", self.key("p256"), self.manifest, "failed", ok=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("another run's evidence", result.stdout)


class SchemaTest(Evidence):
    def test_python_jsonschema_agrees(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads(self.tool("schema").stdout)
        jsonschema.Draft7Validator.check_schema(schema)
        validator = jsonschema.Draft7Validator(schema)
        for folder in ("p256-passed", "p256-failed", "unsigned"):
            statement = json.loads((self.root / folder / "evidence.statement.json").read_text())
            self.assertEqual([e.message for e in validator.iter_errors(statement)], [])
        edits = [lambda s: s.update(more=1), lambda s: s["predicate"].update(result="OK"),
                 lambda s: s["predicate"]["checks"][0].update(assertions=[]),
                 lambda s: s["predicate"]["checks"][0].update(doesNotEstablish=[]),
                 lambda s: s["predicate"]["checks"][0]["assertions"][0].update(holds=False),
                 lambda s: s["subject"][0]["digest"].update(sha256="A" * 64)]
        for number, edit in enumerate(edits):
            statement = json.loads((self.root / "p256-passed" / "evidence.statement.json").read_text())
            edit(statement)
            self.assertFalse(validator.is_valid(statement), f"edit {number} passed")


class CosignTest(Evidence):
    tried = set()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cosign, cls.missing = fetch_cosign()

    def program(self, major):
        if major not in self.cosign:
            self.skipTest(f"cosign {major} was not tried: {self.missing[major]}")
        CosignTest.tried.add(major)
        return self.cosign[major]

    def at_home(self, argv):
        """With a home of its own: no trust root or configuration of this user's takes part."""
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        return run([*self.offline, *argv], env={"HOME": str(home), "PATH": os.environ["PATH"]})

    def verify(self, major, file, pub, manifest=None, predicate_type=PREDICATE_TYPE):
        argv = [self.cosign[major], "verify-blob-attestation", "--key", pub, "--insecure-ignore-tlog",
                "--type", predicate_type]
        if file.name == "evidence.dsse.json":
            argv += ["--signature", file]
        elif major == "2":
            argv += ["--new-bundle-format", "--trusted-root", self.root / "trusted_root.json", "--bundle", file]
        else:
            argv += ["--bundle", file]
        return self.at_home([*argv, manifest or self.manifest])

    def check_version(self, major):
        self.program(major)
        for key in KEY_TYPES:
            for name in ("evidence.sigstore.json", "evidence.dsse.json"):
                with self.subTest(key=key, name=name):
                    file = self.root / f"{key}-passed" / name
                    good = self.verify(major, file, self.pub(key))
                    self.assertEqual(good.returncode, 0, good.stdout)
                    self.assertIn("Verified OK", good.stdout)
                    for refused, why in (
                            (self.verify(major, self.root / f"{key}-tampered" / name, self.pub(key)), "tampered"),
                            (self.verify(major, file, self.pub(f"stranger-{key}")), "another key"),
                            (self.verify(major, file, self.pub(key), self.root / "other.json"), "another image")):
                        self.assertNotEqual(refused.returncode, 0, f"{why}: {refused.stdout}")
                        self.assertNotIn("Verified OK", refused.stdout)

    def test_cosign_2_verifies_and_refuses(self):
        self.check_version("2")

    def test_cosign_3_verifies_and_refuses(self):
        self.check_version("3")

    def test_cosign_3_takes_a_digest_instead_of_the_manifest(self):
        program = self.program("3")
        file = self.root / "p256-passed" / "evidence.sigstore.json"
        base = [program, "verify-blob-attestation", "--key", self.pub("p256"), "--insecure-ignore-tlog",
                "--bundle", file, "--type", PREDICATE_TYPE, "--digestAlg", "sha256", "--digest"]
        self.assertEqual(self.at_home([*base, self.digest]).returncode, 0)
        self.assertEqual(self.at_home([*base, "2" * 64]).returncode, 0, "the platform manifest is a subject too")
        self.assertNotEqual(self.at_home([*base, "3" * 64]).returncode, 0)

    def test_another_predicate_type_is_refused(self):
        # cosign 2.5.0 does not look at --type on a bundle: with 2.x the envelope file is the one to check.
        for major, name in (("2", "evidence.dsse.json"), ("3", "evidence.dsse.json"), ("3", "evidence.sigstore.json")):
            with self.subTest(major=major, name=name):
                self.program(major)
                file = self.root / "p256-passed" / name
                refused = self.verify(major, file, self.pub("p256"), predicate_type="urn:other")
                self.assertNotEqual(refused.returncode, 0, refused.stdout)

    def test_cosign_says_ok_to_a_failed_run_and_we_do_not(self):
        """Why `report verify` judges the verdict: a signature says nothing about it."""
        file = self.root / "p256-failed" / "evidence.dsse.json"
        majors = [major for major in ("2", "3") if major in self.cosign]
        if not majors:
            self.skipTest("no cosign was tried")
        for major in majors:
            self.assertEqual(self.verify(major, file, self.pub("p256")).returncode, 0)
        self.assertEqual(self.tool("verify", file, self.pub("p256"), ok=False).returncode, 1)


def main():
    if not (os.access(TOOL, os.X_OK) and os.access(FETCH, os.X_OK)):
        sys.exit("set DLC_EVIDENCE_TOOL and DLC_FETCH_COSIGN: see tests/evidence/CMakeLists.txt")
    program = unittest.main(exit=False, verbosity=2)
    skipped = [f"{test.id()}: {reason}" for test, reason in program.result.skipped]
    for line in skipped:
        print("NOT RUN", line, file=sys.stderr)
    if not have_network_namespace():
        print("NOTE no network namespace here: verifiers ran with the network they have", file=sys.stderr)
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(0 if CosignTest.tried else 77)


if __name__ == "__main__":
    main()
