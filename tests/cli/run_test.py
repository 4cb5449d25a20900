"""The command line as a person or a script meets it: exit codes, streams, files."""
import json
import os
import signal
import subprocess
import threading
import unittest

from harness import (BIN, DLC_CHECK, EXAMPLE, FAILED, INCOMPLETE, NOT_TRUSTWORTHY, NOT_WRITTEN, OK, ROOT, USAGE, Case, Server, interrupt_when)


class ExitCodes(Case):
    def cluster(self, directory, *more, **kwargs):
        return self.run_cli("cluster", "-c", directory / "dlc-check.yaml", "--policy", directory / "policy.yaml",
                            "--only", "image,gpu,nccl", "--no-sign", "--out", self.dir / "out", *more, **kwargs)

    def test_0_the_example_passes(self):
        done = self.cluster(EXAMPLE, expect=OK)
        self.assertIn("PASSED", done.stdout)

    def test_1_another_digest_on_one_pod_fails_and_names_the_pod(self):
        copy = self.example()
        pods = json.loads((copy / "pods.json").read_text())
        pods["items"][2]["status"]["containerStatuses"][0]["imageID"] = "registry.example/ray@sha256:" + "0" * 64
        (copy / "pods.json").write_text(json.dumps(pods))
        done = self.cluster(copy, expect=FAILED)
        self.assertIn("FAILED", done.stdout)
        self.assertIn("ray-train-cluster-gpu-workers-worker-9qmtn", done.stdout)

    def test_2_usage(self):
        for arguments, text in [
            ([], "no command given"),
            (["clutser"], "did you mean 'cluster'?"),
            (["cluster", "--polcy", "x"], "did you mean '--policy'?"),
            (["report"], "no subcommand of 'report' given"),
            (["report", "veryfy"], "did you mean 'verify'?"),
            (["cluster", "--format", "yaml"], "text"),
            (["cluster", "-c", "absent.yaml"], "absent.yaml"),
            (["cluster", "-c", EXAMPLE / "dlc-check.yaml", "--only", "image,gpus"], "unknown stage 'gpus'"),
            (["cluster", "-c", EXAMPLE / "dlc-check.yaml", "--sign-key", "absent.key"], "absent.key"),
            (["checks", "image-digets"], "did you mean 'image-digest'?"),
            (["judge", "absent.json"], "absent.json"),
        ]:
            with self.subTest(arguments=arguments):
                done = self.run_cli(*arguments, expect=USAGE)
                self.assertEqual(done.stdout, "")
                self.assertIn(text, done.stderr)
                self.assertTrue(done.stderr.startswith("dlc-check: "), done.stderr)
                self.assertFalse(list(self.dir.glob("dlc-check-*")), "something was written")

    def test_2_in_json_form(self):
        done = self.run_cli("cluster", "-c", "absent.yaml", "--format", "json", expect=USAGE)
        self.assertEqual(json.loads(done.stderr.splitlines()[-1])["error"]["code"], "not_found")

    def test_3_a_stage_without_checks_is_incomplete(self):
        done = self.run_cli("fsdp", "-c", EXAMPLE / "dlc-check.yaml", "--no-sign", "--out", self.dir / "out", expect=INCOMPLETE)
        self.assertIn("INCOMPLETE", done.stdout)

    def test_3_what_was_not_looked_at_is_incomplete(self):
        copy = self.example()
        text = (copy / "dlc-check.yaml").read_text()
        (copy / "dlc-check.yaml").write_text("\n".join(l for l in text.splitlines() if "pods.json" not in l) + "\n")
        done = self.cluster(copy, expect=INCOMPLETE)
        self.assertIn("not looked at", done.stdout)

    def test_5_a_signer_that_fails(self):
        _, public = self.keys()
        done = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl",
                            "--sign-cmd", "false", "--sign-pub", public, "--out", self.dir / "out", expect=NOT_WRITTEN)
        self.assertIn("sign", done.stderr)
        self.assertEqual(sorted(p.name for p in (self.dir / "out").iterdir()), ["ctrf.json", "evidence.statement.json", "junit.xml"])
        self.assertIn("evidence: unsigned", done.stdout)

    def interrupted(self, number, code):
        asked = threading.Event()

        def hang(request):
            asked.set()
            threading.Event().wait(60)

        server = Server(hang)
        self.addCleanup(server.close)
        copy = self.example()
        text = (copy / "dlc-check.yaml").read_text()
        (copy / "dlc-check.yaml").write_text(text.replace("oci:image:train-ml-cuda-v1.1.0", f"127.0.0.1:{server.port}/ray:1") + "")
        out = self.dir / "out"
        process = subprocess.Popen([str(DLC_CHECK), "cluster", "-c", str(copy / "dlc-check.yaml"), "--no-sign", "--out", str(out)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.dir)
        interrupt_when(asked, process, number)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, stdout + stderr)
        statement = json.loads((out / "evidence.statement.json").read_text())
        self.assertEqual(statement["predicate"]["result"], "INCOMPLETE")
        self.assertTrue(statement["predicate"]["observations"]["run"]["interrupted"])
        self.assertIn("INCOMPLETE", stdout)

    def test_130_sigint(self):
        self.interrupted(signal.SIGINT, 130)

    def test_143_sigterm(self):
        self.interrupted(signal.SIGTERM, 143)


class Streams(Case):
    def test_stdout_is_the_report_alone(self):
        done = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl",
                            "--no-sign", "--format", "json", "--out", self.dir / "out", expect=OK)
        self.assertEqual(json.loads(done.stdout)["outcome"], "PASSED")
        self.assertNotIn("{", done.stderr)

    def test_quiet_says_nothing_on_stderr(self):
        done = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl",
                            "--no-sign", "-q", "--out", self.dir / "out", expect=OK)
        self.assertEqual(done.stderr, "")

    def test_a_closed_pipe_does_not_lose_the_evidence(self):
        out = self.dir / "out"
        command = f"'{DLC_CHECK}' cluster -c '{EXAMPLE}/dlc-check.yaml' --no-sign -q --out '{out}' | head -c 1 >/dev/null"
        subprocess.run(["bash", "-c", command], env=self.env, cwd=self.dir, timeout=60, check=True)
        self.assertTrue((out / "evidence.statement.json").exists())

    def test_every_help_ends_with_exit_codes(self):
        for command in ["cluster", "image", "gpu", "nccl", "fsdp", "checkpoint", "snapshot", "judge", "report verify", "report show",
                        "keygen", "policy check", "checks", "schema"]:
            with self.subTest(command=command):
                done = self.run_cli(*command.split(), "--help", expect=OK)
                tail = done.stdout[done.stdout.index("Exit codes:"):]
                self.assertIn("  0    ", tail)
                self.assertIn("Example: dlc-check " + command, done.stdout)

    def test_version_names_the_features(self):
        done = self.run_cli("--version", expect=OK)
        self.assertIn("built with:", done.stdout)
        self.assertIn("built without:", done.stdout)


class Files(Case):
    def test_the_files_of_a_signed_run(self):
        key, _ = self.keys()
        out = self.dir / "out"
        self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl",
                     "--sign-key", key, "--out", out, expect=OK)
        self.assertEqual(sorted(p.name for p in out.iterdir()),
                         ["ctrf.json", "evidence.dsse.json", "evidence.sigstore.json", "evidence.statement.json", "junit.xml"])

    def test_the_default_directory_is_named_after_the_run(self):
        self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--no-sign")
        made = list(self.dir.glob("dlc-check-*"))
        self.assertEqual(len(made), 1)
        statement = json.loads((made[0] / "evidence.statement.json").read_text())
        self.assertEqual(made[0].name, "dlc-check-" + statement["predicate"]["run"]["id"])

    def test_unsigned_says_so_everywhere(self):
        out = self.dir / "out"
        done = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--no-sign", "--out", out)
        self.assertIn("unsigned", done.stdout)
        self.assertFalse((out / "evidence.sigstore.json").exists())
        verify = self.run_cli("report", "verify", out / "evidence.statement.json", "--key", self.keys()[1], expect=NOT_TRUSTWORTHY)
        self.assertIn("not signed", verify.stdout + verify.stderr)

    def test_evidence_of_another_run_is_not_overwritten(self):
        out = self.dir / "out"
        self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--no-sign", "--out", out)
        before = (out / "evidence.statement.json").read_bytes()
        done = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--no-sign", "--out", out, expect=USAGE)
        self.assertIn("evidence.statement.json", done.stderr)
        self.assertEqual((out / "evidence.statement.json").read_bytes(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
