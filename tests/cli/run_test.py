"""The command line as a person or a script meets it: exit codes, streams, files."""
import json
import os
import re
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

    def test_3_a_stage_that_nothing_was_seen_of_is_incomplete(self):
        done = self.run_cli("fsdp", "-c", EXAMPLE / "dlc-check.yaml", "--no-sign", "--out", self.dir / "out", expect=INCOMPLETE)
        self.assertIn("INCOMPLETE", done.stdout)

    def test_3_why_no_image_was_asked_for_in_a_registry(self):
        """None is named, or the manifests show several: one of them is not picked."""
        copy = self.example()
        config = re.sub(r"  reference:.*\n", "", (copy / "dlc-check.yaml").read_text())
        several = (copy / "raycluster.yaml").read_text().replace("registry.example/ray:", "registry.example/other:", 1)
        (copy / "raycluster.yaml").write_text(several)
        for number, (text, why) in enumerate([
                (config, "the manifests show 2: registry.example/other:train"),
                (re.sub(r"image:\n  manifests:\n(    - .*\n)+", "", config), "the manifests show none")]):
            with self.subTest(why=why):
                (copy / "dlc-check.yaml").write_text(text)
                done = self.run_cli("image", "-c", copy / "dlc-check.yaml", "--policy", copy / "policy.yaml", "--no-sign", "--format", "json",
                                    "--out", self.dir / str(number))
                self.assertIn("no image reference given, and " + why, done.stdout)

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
        reference, asked = self.hanging_registry()
        copy = self.example()
        text = (copy / "dlc-check.yaml").read_text()
        (copy / "dlc-check.yaml").write_text(text.replace("oci:image:train-ml-cuda-v1.1.0", reference))
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

    def hanging_signer(self, reference=""):
        """A run whose --sign-cmd never ends, once that command runs: (process, pid of the command, directory)."""
        _, public = self.keys()
        told = self.dir / "told"
        os.mkfifo(told)
        copy = self.example()
        if reference:
            config = copy / "dlc-check.yaml"
            config.write_text(config.read_text().replace("oci:image:train-ml-cuda-v1.1.0", reference))
        out = self.dir / "out"
        process = subprocess.Popen([str(DLC_CHECK), "cluster", "-c", str(copy / "dlc-check.yaml"), "--policy", str(copy / "policy.yaml"),
                                    "--only", "image,gpu,nccl", "--sign-cmd", f"echo $$ >'{told}'; exec sleep 600", "--sign-pub", str(public), "--out", str(out)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.dir)
        self.addCleanup(process.kill)
        return process, told, out

    def ends_unsigned(self, process, told, out, number, code):
        signer = int(told.read_text())  # waits until the command has written it
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, stdout + stderr)
        self.assertIn("interrupted", stderr)
        self.assertIn("unsigned evidence in", stderr)
        with self.assertRaises(ProcessLookupError):
            os.kill(signer, 0)
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["ctrf.json", "evidence.statement.json", "junit.xml"])
        predicate = json.loads((out / "evidence.statement.json").read_text())["predicate"]
        self.assertEqual(predicate["result"], "INCOMPLETE")
        self.assertTrue(predicate["observations"]["run"]["interrupted"])
        self.assertIn("INCOMPLETE", stdout)
        self.assertIn("evidence: unsigned", stdout)

    def test_130_a_signing_command_that_hangs_is_ended(self):
        self.ends_unsigned(*self.hanging_signer(), signal.SIGINT, 130)

    def test_143_a_signing_command_that_hangs_is_ended(self):
        self.ends_unsigned(*self.hanging_signer(), signal.SIGTERM, 143)

    def hanging_registry(self):
        asked = threading.Event()

        def hang(request):
            asked.set()
            threading.Event().wait(60)

        server = Server(hang)
        self.addCleanup(server.close)
        return f"127.0.0.1:{server.port}/ray:1", asked

    def test_130_the_signing_of_partial_evidence_can_be_interrupted_too(self):
        reference, asked = self.hanging_registry()
        process, told, out = self.hanging_signer(reference)
        interrupt_when(asked, process)
        self.ends_unsigned(process, told, out, signal.SIGINT, 130)

    def test_130_what_was_seen_until_then_is_signed(self):
        reference, asked = self.hanging_registry()
        key, public = self.keys()
        copy = self.example()
        config = copy / "dlc-check.yaml"
        config.write_text(config.read_text().replace("oci:image:train-ml-cuda-v1.1.0", reference))
        command = f"openssl pkeyutl -sign -inkey '{key}' -in $DLC_CHECK_DIGEST_FILE -pkeyopt digest:sha256"
        process = subprocess.Popen([str(DLC_CHECK), "cluster", "-c", str(config), "--sign-cmd", command, "--sign-pub", str(public), "--out", str(self.dir / "out")],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.dir)
        interrupt_when(asked, process)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, stdout + stderr)
        done = self.run_cli("report", "verify", self.dir / "out" / "evidence.sigstore.json", "--key", public, expect=INCOMPLETE)
        self.assertIn("GENUINE, INCOMPLETE", done.stdout)


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

    def test_help_tells_what_there_is(self):
        for command, told in [("fsdp", "train a sharded model to the bit"), ("snapshot", "  6    "), ("snapshot", "  5    "),
                              ("keygen", "done whenever DLC_CHECK_KEY_PASSPHRASE is set")]:
            with self.subTest(command=command):
                done = self.run_cli(command, "--help", expect=OK)
                self.assertIn(told, re.sub(r"\n {20,}", " ", done.stdout))
        self.assertNotIn("synthetic tokens", self.run_cli("--help", expect=OK).stdout)

    def test_version_names_the_features(self):
        done = self.run_cli("--version", expect=OK)
        self.assertNotIn("nccl.h", done.stdout)  # nothing is built from it
        self.assertIn("built with:", done.stdout)
        self.assertIn("built without:", done.stdout)


class Secrets(Case):
    TOKEN = "ghp-never-to-be-seen"

    def test_the_credentials_of_a_url_are_in_no_file_and_no_stream(self):
        url = f"https://grace:{self.TOKEN}@mirror.example"
        packages = [f"--extra-index-url {url}/simple", f"--index-url={url}/simple", f"torch @ {url}/torch-2.9.0-cp313-none-any.whl",
                    f"-e git+{url}/tool.git#egg=tool", f"{url}/other-1.0-py3-none-any.whl", f"https://{self.TOKEN}@mirror.example/third.tar.gz", "requests"]
        environments = {
            "pip list": {"pip": packages},
            "pip map": {"pip": {"packages": packages, "pip_install_options": [f"--find-links={url}/wheels"]}},
            "pip file": {"pip": f"{url}/requirements.txt"},
            "uv": {"uv": {"packages": packages, "uv_pip_install_options": [f"--index {url}/simple"]}},
            "conda": {"conda": {"channels": [f"{url}/channel"], "dependencies": [f"{url}/channel::python=3.13", {"pip": packages}]}},
            "conda file": {"conda": f"{url}/environment.yml"},
            "places": {"working_dir": f"{url}/code.zip", "py_executable": f"uv run --index {url}/simple", "image_uri": f"{url}/image",
                       "env_vars": {"PIP_INDEX": f"{url}/simple", "GH_TOKEN": self.TOKEN}},
            "container": {"container": {"image": f"{url}/image"}},
        }
        jobs = [{"submission_id": f"job-{i}", "type": "SUBMISSION", "status": "RUNNING", "entrypoint": f"pip install {url}/x.whl && python train.py",
                 "runtime_env": environment} for i, environment in enumerate(environments.values())]
        copy = self.example()
        (copy / "ray" / "jobs.json").write_text(json.dumps(jobs))
        streams = ""
        for form in ["text", "json", "junit", "ctrf", "markdown"]:
            done = self.run_cli("cluster", "-c", copy / "dlc-check.yaml", "--policy", copy / "policy.yaml", "--only", "image", "--no-sign", "-v",
                                "--format", form, "--out", self.dir / form, expect=FAILED)
            streams += done.stdout + done.stderr
        self.run_cli("snapshot", "-c", copy / "dlc-check.yaml", "--out", self.dir / "snapshot", expect=OK)
        self.assertIn("mirror.example", streams)  # the place is told, how one gets in is not
        written = [p for name in ("text", "json", "junit", "ctrf", "markdown", "snapshot") for p in (self.dir / name).iterdir()]
        self.assertGreater(len(written), 10)
        self.assertIn("mirror.example", (self.dir / "snapshot" / "observations.json").read_text())
        for place, text in [("a stream", streams), *((str(p), p.read_text()) for p in written)]:
            self.assertNotIn(self.TOKEN, text, place)


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
