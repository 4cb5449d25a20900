"""`dlc-check nccl` on what somebody else's run left: logs of NCCL (HX-06), output of nccl-tests (HX-08); and `policy init`."""
import json
import shutil
import unittest

from harness import FAILED, INCOMPLETE, OK, TESTDATA, USAGE, Case

NCCL = TESTDATA / "nccl"
ASKS_EFA = "apiVersion: dlc-check/v1\nkind: Policy\nnccl: {transport: EFA_LOGGED}\n"


class Imports(Case):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def judge(self, expect, *flags, policy="apiVersion: dlc-check/v1\nkind: Policy\n"):
        self.runs += 1
        done = self.run_cli("nccl", *flags, "--policy", self.write(f"policy{self.runs}.yaml", policy), "--no-sign", "--format", "json",
                            "--out", self.dir / f"out{self.runs}", expect=expect)
        return json.loads(done.stdout)

    def verdict(self, report, rule):
        return [(f["verdict"], f["reason"]["message"]) for f in report["findings"] if f["rule"] == rule]


class Logs(Imports):
    def test_provider_selected_then_sockets(self):
        report = self.judge(FAILED, "--from-nccl-log", NCCL / "provider_selected_then_sockets")
        [(verdict, message)] = self.verdict(report, "nccl-transport/level")
        self.assertEqual(verdict, "fail")
        self.assertTrue(message.startswith("ranks 0, 1, 2 and 3: TCP_PROVEN"), message)

    def test_bandwidth_does_not_rescue(self):
        """HX-06: the table's busbw is above the threshold, and the verdict stays."""
        limit = ("nccl:\n  transport: EFA_LOGGED\n  minBusBandwidth:\n"
                 "    - {collective: all_reduce, sizeBytes: 1073741824, bytesPerSecond: 7.0e+9}\n")
        report = self.judge(FAILED, "--from-nccl-log", NCCL / "provider_selected_then_sockets", "--from-nccl-tests",
                            NCCL / "nccl_tests" / "two_hosts.txt", policy="apiVersion: dlc-check/v1\nkind: Policy\n" + limit)
        self.assertEqual(self.verdict(report, "nccl-transport/level")[0][0], "fail")
        self.assertIn(("pass", ""), self.verdict(report, "nccl-bandwidth/bus-bandwidth"))

    def test_healthy_logs(self):
        for folder in ("new", "old", "no_gpu_direct", "collnet_symbols"):
            report = self.judge(OK, "--from-nccl-log", NCCL / folder, policy=ASKS_EFA)
            self.assertEqual(self.verdict(report, "nccl-transport/level"), [("pass", "")], folder)

    def test_no_gpu_direct_where_it_is_asked_for(self):
        report = self.judge(FAILED, "--from-nccl-log", NCCL / "no_gpu_direct",
                            policy=ASKS_EFA.replace("}", ", gpuDirect: required}"))
        self.assertEqual(self.verdict(report, "nccl-transport/gpu-direct")[0][0], "fail")

    def test_folded_by_ray_and_incomplete_sets_are_no_pass(self):
        report = self.judge(INCOMPLETE, "--from-nccl-log", NCCL / "folded_by_ray.log", policy=ASKS_EFA)
        self.assertEqual(self.verdict(report, "nccl-transport/level")[0][0], "unknown")
        some = self.dir / "some"
        some.mkdir()
        shutil.copy(NCCL / "new" / "rank0.log", some)
        report = self.judge(INCOMPLETE, "--from-nccl-log", some, policy=ASKS_EFA)
        self.assertIn("rank 1", self.verdict(report, "nccl-transport/level")[0][1])

    def test_the_evidence_is_judged_again(self):
        self.judge(FAILED, "--from-nccl-log", NCCL / "provider_selected_then_sockets")
        evidence = self.dir / "out1" / "evidence.statement.json"
        again = self.run_cli("judge", evidence, "--format", "json", expect=FAILED)
        self.assertIn("TCP_PROVEN", again.stdout)

    def test_bad_input(self):
        empty = self.dir / "empty"
        empty.mkdir()
        for path, needle in ((empty, "holds 0 files"), (self.dir / "none", "none"), (self.write("x/notes.txt", "hello\n").parent, "no line of NCCL")):
            done = self.run_cli("nccl", "--from-nccl-log", path, "--no-sign", "--out", self.dir / "never", expect=USAGE)
            self.assertIn(needle, done.stderr)
            self.assertFalse((self.dir / "never").exists())


class Tests(Imports):
    POLICY = ("apiVersion: dlc-check/v1\nkind: Policy\nnccl:\n  minBusBandwidth:\n"
              "    - {collective: all_reduce, sizeBytes: 1073741824, bytesPerSecond: %s}\n")

    def test_text_and_json(self):
        for name in ("two_hosts.txt", "two_hosts_tagged.txt", "two_hosts.json", "eight_gpus_a_process.json"):
            self.judge(OK, "--from-nccl-tests", NCCL / "nccl_tests" / name, policy=self.POLICY % "7.5e+9")
            self.judge(FAILED, "--from-nccl-tests", NCCL / "nccl_tests" / name, policy=self.POLICY % "7.6e+9")

    def test_separate_tests_are_an_invalid_measurement(self):
        """HX-08: two tests side by side, each with a rank 0; no bandwidth is reported."""
        report = self.judge(FAILED, "--from-nccl-tests", NCCL / "nccl_tests" / "two_tables.txt", policy=self.POLICY % "1.0e+9")
        [(verdict, message)] = self.verdict(report, "nccl-bandwidth/measurement-valid")
        self.assertEqual(verdict, "fail")
        self.assertIn("separate tests", message)
        self.assertEqual([v for v, _ in self.verdict(report, "nccl-bandwidth/bus-bandwidth")], ["unknown"])

    def test_other_invalid_ones(self):
        for name in ("not_finished.txt", "not_finished.json", "one_host.txt", "wrong.txt", "not_compared.txt"):
            self.judge(FAILED, "--from-nccl-tests", NCCL / "nccl_tests" / name)

    def test_no_secret_of_the_environment_dump_is_kept(self):
        self.judge(OK, "--from-nccl-tests", NCCL / "nccl_tests" / "two_hosts.json")
        self.assertNotIn("hunter2", (self.dir / "out1" / "evidence.statement.json").read_text())


class PolicyInit(Case):
    def test_every_policy_it_prints_is_valid(self):
        for kind in ("g6.12xlarge", "g6.xlarge", "g6e.16xlarge", "p4d.24xlarge", "p5.48xlarge", "p6-b300.48xlarge"):
            for nodes in ("1", "2", "16"):
                done = self.run_cli("policy", "init", "--instance-type", kind, "--nodes", nodes, expect=OK)
                self.run_cli("policy", "check", self.write("p.yaml", done.stdout), expect=OK)

    def test_thresholds_say_whether_they_are_calibrated(self):
        calibrated = self.run_cli("policy", "init", "--instance-type", "p5.48xlarge", "--nodes", "2", expect=OK).stdout
        self.assertIn("shareOfLineRate: 0.7", calibrated)
        self.assertIn("Calibrated", calibrated)
        self.assertIn("interfacesPerWorkerPod: 32", calibrated)
        self.assertIn("training: {backend: cuda}", calibrated)
        guess = self.run_cli("policy", "init", "--instance-type", "g6.12xlarge", expect=OK).stdout
        self.assertIn("Uncalibrated", guess)

    def test_bad_input(self):
        done = self.run_cli("policy", "init", "--instance-type", "g6.12xlrage", expect=USAGE)
        self.assertIn("did you mean 'g6.12xlarge'", done.stderr)
        self.run_cli("policy", "init", expect=USAGE)
        self.run_cli("policy", "init", "--instance-type", "g6.12xlarge", "--nodes", "0", expect=USAGE)
        self.run_cli("policy", expect=USAGE)


if __name__ == "__main__":
    unittest.main()
