"""`report verify`: what is genuine, and everything that is not."""
import base64
import json
import subprocess
import unittest

from harness import EXAMPLE, FAILED, INCOMPLETE, NOT_TRUSTWORTHY, OK, USAGE, Case


class Verify(Case):
    def evidence(self, kind="p256", policy=EXAMPLE / "policy.yaml", expect=OK, config=EXAMPLE / "dlc-check.yaml", name="out"):
        key, public = self.keys(kind)
        out = self.dir / f"{name}-{kind}"
        self.run_cli("cluster", "-c", config, "--policy", policy, "--only", "image,gpu,nccl", "--sign-key", key, "--out", out, expect=expect)
        return out / "evidence.sigstore.json", public, key

    def verify(self, path, public, *more, expect):
        return self.run_cli("report", "verify", path, "--key", public, *more, expect=expect)

    def resign(self, path, key, edit):
        """The statement with an edit, signed anew by the rightful key: what only the replay can catch."""
        bundle = json.loads(path.read_text())
        statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        edit(statement)
        payload = json.dumps(statement, indent=2).encode() + b"\n"
        pae = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload
        message = self.dir / "pae"
        message.write_bytes(pae)
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(key), str(message)], capture_output=True, check=True).stdout
        bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
        bundle["dsseEnvelope"]["signatures"][0]["sig"] = base64.b64encode(signature).decode()
        return self.write("resigned.json", json.dumps(bundle))

    def test_0_both_key_types_and_both_forms(self):
        for kind in ["p256", "ed25519"]:
            bundle, public, _ = self.evidence(kind)
            for path in [bundle, bundle.with_name("evidence.dsse.json")]:
                with self.subTest(kind=kind, path=path.name):
                    self.assertIn("GENUINE, PASSED", self.verify(path, public, expect=OK).stdout)

    def test_1_a_genuine_report_of_a_failure_is_no_success(self):
        policy = self.write("policy.yaml", (EXAMPLE / "policy.yaml").read_text().replace("perWorkerPod: 4", "perWorkerPod: 8"))
        bundle, public, _ = self.evidence(policy=policy, expect=FAILED)
        self.assertIn("GENUINE, FAILED", self.verify(bundle, public, expect=FAILED).stdout)

    def test_2_usage(self):
        bundle, public, key = self.evidence()
        for arguments, text in [
            (["report", "verify", bundle], "no key given"),
            (["report", "verify", bundle, "--key", "absent.pub"], "absent.pub"),
            (["report", "verify", bundle, "--key", key], "private"),
            (["report", "verify", "absent.json", "--key", public], "absent.json"),
            (["report", "verify", bundle, "--key", public, "--max-age", "soon"], "not an age"),
            (["report", "verify", bundle, "--key", public, "--digest", "sha256:1"], "not a digest"),
            (["report", "verify", bundle, "--key", public, "--image", "r.example/x:1"], "not pinned"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(text, self.run_cli(*arguments, expect=USAGE).stderr)

    def test_3_incomplete_and_too_old(self):
        config = self.example() / "dlc-check.yaml"
        config.write_text("\n".join(l for l in config.read_text().splitlines() if "nodes.json" not in l) + "\n")
        bundle, public, _ = self.evidence(config=config, expect=INCOMPLETE)
        self.assertIn("GENUINE, INCOMPLETE", self.verify(bundle, public, expect=INCOMPLETE).stdout)

    def test_4_one_flipped_byte_anywhere(self):
        bundle, public, _ = self.evidence()
        data = bytearray(bundle.read_bytes())
        payload_at = data.index(b'"payload"') + 400
        signature_at = data.index(b'"sig"') + 20
        for at in [payload_at, signature_at]:
            with self.subTest(at=at):
                damaged = bytearray(data)
                damaged[at] = ord("A") if damaged[at] != ord("A") else ord("B")
                path = self.dir / "flipped.json"
                path.write_bytes(damaged)
                self.assertIn("NOT TRUSTWORTHY", self.verify(path, public, expect=NOT_TRUSTWORTHY).stdout)

    def test_4_wrong_key_and_wrong_image(self):
        bundle, public, _ = self.evidence()
        _, other = self.keys("ed25519")
        self.verify(bundle, other, expect=NOT_TRUSTWORTHY)
        self.verify(bundle, public, "--digest", "sha256:" + "0" * 64, expect=NOT_TRUSTWORTHY)
        self.verify(bundle, public, "--image", "registry.example/ray@sha256:" + "0" * 64, expect=NOT_TRUSTWORTHY)
        digest = json.loads((EXAMPLE / "image" / "index.json").read_text())["manifests"][0]["digest"]
        self.verify(bundle, public, "--image", f"registry.example/ray@{digest}", "--max-age", "1h", expect=OK)

    def test_4_an_edit_that_the_rightful_key_signed(self):
        bundle, public, key = self.evidence()
        checks = lambda s: s["predicate"]["checks"]
        failing = next(i for i, c in enumerate(json.loads((bundle.with_name("evidence.statement.json")).read_text())["predicate"]["checks"]) if c["assertions"])

        def swap_subject(s):
            s["subject"][0]["digest"]["sha256"] = "0" * 64

        def edit_policy(s):
            s["predicate"]["policy"]["text"] = s["predicate"]["policy"]["text"].replace("perWorkerPod: 4", "perWorkerPod: 8")

        def edit_verdict(s):
            checks(s)[failing]["verdict"] = "fail"

        def edit_limit(s):
            checks(s)[failing]["assertions"][0]["limit"] = "something else"

        def edit_result(s):
            s["predicate"]["result"] = "FAILED"

        def drop_finding(s):
            checks(s).pop()

        def edit_observation(s):
            s["predicate"]["observations"]["cluster"]["pods"]["value"].pop()

        for edit in [swap_subject, edit_policy, edit_verdict, edit_limit, edit_result, drop_finding, edit_observation]:
            with self.subTest(edit=edit.__name__):
                self.verify(self.resign(bundle, key, edit), public, expect=NOT_TRUSTWORTHY)
        # The way of signing itself is sound: without an edit it verifies.
        self.verify(self.resign(bundle, key, lambda s: None), public, expect=OK)

    def test_an_encrypted_key_signs_with_its_passphrase_and_not_without(self):
        self.run_cli("keygen", "--out-dir", self.dir / "enc", "--encrypt", env=dict(self.env, DLC_CHECK_KEY_PASSPHRASE="open sesame"), expect=OK)
        key = self.dir / "enc" / "dlc-check.key"
        self.assertIn("ENCRYPTED", key.read_text())
        common = ["cluster", "-c", EXAMPLE / "dlc-check.yaml", "--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl", "--sign-key", key]
        self.run_cli(*common, "--out", self.dir / "a", env=dict(self.env, DLC_CHECK_KEY_PASSPHRASE="open sesame"), expect=OK)
        for env in [self.env, dict(self.env, DLC_CHECK_KEY_PASSPHRASE="wrong")]:
            done = self.run_cli(*common, "--out", self.dir / "b", env=env, expect=USAGE)
            self.assertNotIn("sesame", done.stderr)
            self.assertFalse((self.dir / "b").exists())
        self.verify(self.dir / "a" / "evidence.sigstore.json", self.dir / "enc" / "dlc-check.pub", expect=OK)

    def test_a_key_from_the_environment_and_a_signing_command(self):
        key, public = self.keys()
        common = ["cluster", "-c", EXAMPLE / "dlc-check.yaml", "--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl"]
        self.run_cli(*common, "--sign-key", "env:SIGNING_KEY", "--out", self.dir / "a", env=dict(self.env, SIGNING_KEY=key.read_text()), expect=OK)
        self.verify(self.dir / "a" / "evidence.sigstore.json", public, expect=OK)
        command = f"openssl pkeyutl -sign -inkey '{key}' -in $DLC_CHECK_DIGEST_FILE -pkeyopt digest:sha256"
        self.run_cli(*common, "--sign-cmd", command, "--sign-pub", public, "--out", self.dir / "b", expect=OK)
        self.verify(self.dir / "b" / "evidence.sigstore.json", public, expect=OK)


if __name__ == "__main__":
    unittest.main(verbosity=2)
