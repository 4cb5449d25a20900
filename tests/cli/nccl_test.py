"""The nccl stage over a NCCL and a libcuda that are fakes (tests/fakes/nccl): real processes, the real launcher and
rendezvous, and libfabric's tcp provider beside them. Each trouble has its verdict, its exit code and its rule."""
import hashlib
import json
import os
import unittest

from harness import FAILED, INCOMPLETE, OK, Case

FAKES = os.environ["DLC_FAKE_NCCL_DIR"]
ASKS_EFA = "transport: EFA_LOGGED"


class Nccl(Case):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def nccl(self, expect, *, ranks=2, policy="", gpu="", libraries=FAKES, faults=(), timeout=None, config="", **fake):
        """Findings by rule. `policy`: keys below nccl; the sizes are small, for the fake moves no more than 1 MiB."""
        self.runs += 1
        target = {"type": "local", "ranks": ranks}
        if faults:
            target["plantedFaults"] = list(faults)
        if timeout:
            target["timeoutSeconds"] = timeout
        keys = ", ".join(["sizes: [8, 65536]", *([policy] if policy else [])])
        text = (f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {json.dumps(target)}\n{config}"
                f"policy: {{fabric: {{efa: no}}, gpu: {{{gpu}}}, nccl: {{{keys}}}}}\n")
        self.out = self.dir / f"out{self.runs}"
        env = dict(self.env, LD_LIBRARY_PATH=str(libraries), VIRTUAL_ENV="", PYTHONPATH="", PATH="/usr/bin:/bin", **fake)
        done = self.run_cli("nccl", "-c", self.write(f"c{self.runs}.yaml", text), "--no-sign", "--format", "json", "--out", self.out, env=env)
        table = {}
        for finding in json.loads(done.stdout)["findings"] if done.stdout.startswith("{") else []:
            table.setdefault(finding["rule"], []).append(finding)
        told = [f"{f['verdict']} {f['rule']}: {f['reason']['message']}" for some in table.values() for f in some if f["verdict"] in ("fail", "unknown")]
        self.assertEqual(done.returncode, expect, "\n".join([*told, done.stderr]))
        return table

    def verdicts(self, table, rule):
        return [f["verdict"] for f in table.get("nccl-" + rule, [])]

    def message(self, table, rule, verdict="fail"):
        return "\n".join(f["reason"]["message"] for f in table.get("nccl-" + rule, []) if f["verdict"] == verdict)


class Good(Nccl):
    def test_efa_in_the_log_of_every_rank(self):
        table = self.nccl(OK, policy=ASKS_EFA, FAKE_NCCL_NETWORK="Libfabric")
        self.assertEqual(self.verdicts(table, "transport/level"), ["pass", "pass"])  # float32 and bfloat16
        self.assertEqual(self.verdicts(table, "transport/forced-network"), ["pass"])
        self.assertEqual(self.verdicts(table, "collectives/right-results"), ["pass", "pass"])
        self.assertEqual(self.verdicts(table, "collectives/completes"), ["pass", "pass"])
        self.assertIn("EFA counters", json.dumps(table["nccl-transport/level"][0]["notes"]))

    def test_inside_a_node(self):
        """Connected GPU to GPU, through host memory, and each with an NCCL_HOSTID of its own."""
        table = self.nccl(OK, ranks=3, policy="insideNode: P2P", FAKE_NCCL_INSIDE="P2P/CUMEM")
        self.assertEqual(self.verdicts(table, "transport/inside-node"), ["pass"] * 2)
        self.assertEqual(self.verdicts(table, "transport/level"), ["not_applicable"] * 2)
        self.assertIn("one node", self.message(table, "transport/level", "not_applicable"))
        table = self.nccl(FAILED, ranks=2, policy="insideNode: P2P", FAKE_NCCL_INSIDE="SHM/direct/direct")
        self.assertEqual(self.verdicts(table, "transport/inside-node"), ["fail"] * 2)
        self.assertIn("SHM/direct/direct (", self.message(table, "transport/inside-node"))
        table = self.nccl(OK, ranks=2, policy="insideNode: P2P", FAKE_NCCL_INSIDE="P2P/CUMEM", config="nccl: {hostIdPerRank: true}\n")
        self.assertEqual(self.verdicts(table, "transport/inside-node"), ["not_applicable"] * 2)
        self.assertIn("TCP_PROVEN", self.message(table, "transport/level", "not_applicable"))

    def test_sockets_where_nobody_asks_for_efa_are_named(self):
        table = self.nccl(OK, ranks=3)
        self.assertEqual(self.verdicts(table, "transport/level"), ["not_applicable"] * 2)
        self.assertIn("ranks 0, 1 and 2: TCP_PROVEN", self.message(table, "transport/level", "not_applicable"))

    def test_the_evidence_gives_the_same_findings(self):
        self.nccl(OK, policy=ASKS_EFA, FAKE_NCCL_NETWORK="Libfabric")
        again = self.run_cli("judge", self.out / "evidence.statement.json", "--format", "json", expect=OK)
        stricter = self.write("stricter.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfabric: {efa: no}\nnccl: {transport: EFA_PROVEN}\n")
        self.run_cli("judge", self.out / "evidence.statement.json", "--policy", stricter, expect=INCOMPLETE)
        self.assertIn("EFA_LOGGED", again.stdout)

    def test_the_control_over_sockets_is_run_and_told(self):
        table = self.nccl(OK, policy="tcpControl: true")
        self.assertIn("times as fast as sockets", self.message(table, "bandwidth/tcp-control", "not_applicable"))

    def test_a_host_id_for_each_rank_is_a_recorded_setting(self):
        self.nccl(OK, config="nccl: {hostIdPerRank: true}\n")
        observations = json.loads((self.out / "evidence.statement.json").read_text())
        self.assertIn('"NCCL_HOSTID"', json.dumps(observations))

    def test_raw_logs_are_kept_where_asked_and_are_those_that_were_judged(self):
        logs = self.dir / "logs"
        logs.mkdir()
        table = self.nccl(OK, policy=ASKS_EFA, config=f"nccl: {{logDirectory: {logs}}}\n", FAKE_NCCL_NETWORK="Libfabric")
        self.assertEqual(self.verdicts(table, "transport/logs-kept"), ["pass"] * 3)
        notes = sorted(note for finding in table["nccl-transport/logs-kept"] for note in finding["notes"])
        kept = sorted(f"{path} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in logs.iterdir())
        self.assertEqual(notes, kept)
        self.assertEqual(len(kept), 6)  # two types and the forced network, on two ranks
        own = self.dir / "own"
        own.mkdir()
        for path in logs.glob("*-nccl-float32-*"):
            path.rename(own / path.name)
        policy = self.write("p.yaml", f"apiVersion: dlc-check/v1\nkind: Policy\nnccl: {{{ASKS_EFA}}}\n")
        self.run_cli("nccl", "--from-nccl-log", own, "--policy", policy, "--no-sign", "--out", self.dir / "again", expect=OK)

    def test_raw_logs_that_cannot_be_kept_are_told(self):
        table = self.nccl(INCOMPLETE, config=f"nccl: {{logDirectory: {self.dir}/nowhere}}\n")
        self.assertIn("No such file or directory", self.message(table, "transport/logs-kept", "unknown"))

    def test_none_is_run_where_none_is_asked_for(self):
        for more in ({"policy": "measure: no"}, {"gpu": "devices: no"}):
            table = self.nccl(OK, **more)
            self.assertEqual(self.verdicts(table, "collectives/right-results"), ["not_applicable"])


class Bad(Nccl):
    def test_a_silent_fallback_fails_and_the_forced_run_says_why(self):
        table = self.nccl(FAILED, policy=ASKS_EFA)
        self.assertEqual(self.verdicts(table, "transport/level"), ["fail", "fail"])
        self.assertIn("ranks 0 and 1: TCP_PROVEN", self.message(table, "transport/level"))
        self.assertIn("Failed to initialize any NET plugin", self.message(table, "transport/forced-network"))
        self.assertEqual(self.verdicts(table, "collectives/right-results"), ["pass", "pass"])  # right, over the wrong way

    def test_a_wrong_element_names_its_rank(self):
        table = self.nccl(FAILED, FAKE_NCCL_CORRUPT_RANK="1")
        self.assertIn("at rank 1", self.message(table, "collectives/right-results"))

    def test_another_version_on_one_rank(self):
        table = self.nccl(FAILED, ranks=3, FAKE_NCCL_OLD_RANK="2")
        self.assertIn("rank 2", self.message(table, "collectives/same-library"))

    def test_a_hang_ends_by_the_deadline_and_fails(self):
        table = self.nccl(FAILED, timeout=8, FAKE_NCCL_STOP_RANK="1", FAKE_NCCL_AFTER="3")
        self.assertIn("fail", self.verdicts(table, "collectives/completes"))
        self.assertIn("unknown", self.verdicts(table, "collectives/right-results"))

    def test_a_rank_that_dies_is_named_and_nothing_passes_on_its_behalf(self):
        table = self.nccl(INCOMPLETE, timeout=8, policy=ASKS_EFA, FAKE_NCCL_NETWORK="Libfabric", FAKE_NCCL_DIE_RANK="1", FAKE_NCCL_AFTER="3")
        self.assertIn("rank 1", self.message(table, "collectives/right-results", "unknown"))
        self.assertNotIn("pass", self.verdicts(table, "transport/level"))

    def test_no_log_is_no_evidence(self):
        table = self.nccl(INCOMPLETE, policy=ASKS_EFA, FAKE_NCCL_NETWORK="Libfabric", FAKE_NCCL_WITHOUT_LOG="1")
        self.assertEqual(self.verdicts(table, "transport/level"), ["unknown", "unknown"])

    def test_no_nccl_is_incomplete_with_the_reason(self):
        table = self.nccl(INCOMPLETE, libraries=self.dir)
        self.assertRegex(self.message(table, "collectives/right-results", "unknown"), r"cannot load lib(nccl|cuda)\.so")

    def test_a_planted_bit_is_found(self):
        table = self.nccl(FAILED, ranks=3, faults=[{"rank": 1, "step": "nccl-float32", "kind": "flip-bit"}])
        self.assertEqual(self.verdicts(table, "collectives/right-results"), ["fail", "pass"])
        self.assertIn("unknown", [f["verdict"] for f in table["coverage/no-planted-faults"]])


if __name__ == "__main__":
    unittest.main()
