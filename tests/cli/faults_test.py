"""Ranks of this host through the nccl and checkpoint stages: right verdicts for any number of them, and for every planted
fault a verdict that names the rank that has it."""
import json
import unittest

from harness import FAILED, INCOMPLETE, OK, USAGE, Case

HEAD = "apiVersion: dlc-check/v1\nkind: Config\n"
POLICY = "policy: {stages: [nccl, checkpoint], fabric: {efa: no}, gpu: {devices: no}}\n"


class Ranks(Case):
    patience = 300  # seconds: every wait in a run has its own deadline, this is for a busy machine

    def setUp(self):
        super().setUp()
        self.shared = self.dir / "shared"
        self.shared.mkdir()

    def config(self, ranks, faults=(), policy=POLICY, timeout=None, name="ranks.yaml"):
        target = {"type": "local", "ranks": ranks}
        if faults:
            target["plantedFaults"] = list(faults)
        if timeout:
            target["timeoutSeconds"] = timeout
        return self.write(name, f"{HEAD}target: {json.dumps(target)}\ncheckpoint: {{path: {self.shared}}}\n{policy}")

    def cluster(self, config, expect, *more, command="cluster"):
        """Findings by rule of a run; the evidence is in self.dir/out."""
        out = self.dir / f"out{len(list(self.dir.glob('out*')))}"
        done = self.run_cli(command, "-c", config, "--no-sign", "--format", "json", "--out", out, *more, expect=expect)
        self.evidence = json.loads((out / "evidence.statement.json").read_text())["predicate"]
        self.assertEqual(list(self.shared.iterdir()), [], "left behind")
        table = {}
        for finding in json.loads(done.stdout)["findings"]:
            table.setdefault(finding["rule"], []).append(finding)
        return table

    def verdicts(self, table, rule):
        return [f["verdict"] for f in table.get(rule, [])]


class AnyNumber(Ranks):
    def test_the_stages_pass_and_claim_nothing_of_a_fabric_on_one_host(self):
        for ranks in [1, 3, 4, 7]:
            with self.subTest(ranks=ranks):
                table = self.cluster(self.config(ranks), OK)
                expected = ["not_applicable"] if ranks == 1 else ["pass", "pass"]
                self.assertEqual(self.verdicts(table, "fabric-bandwidth/right-data"), expected)
                if ranks > 1:
                    self.assertEqual(self.verdicts(table, "fabric-bandwidth/same-library"), ["pass"])
                    for rule in ("pair-latency", "pair-bandwidth"):
                        finding, = table[f"fabric-bandwidth/{rule}"]
                        self.assertEqual(finding["verdict"], "not_applicable")
                        self.assertIn("loopback is no fabric", finding["reason"]["message"])
                        self.assertIn("libfabric", finding["notes"][0])
                self.assertNotIn("fail", [f["verdict"] for some in table.values() for f in some if f["severity"] == "required"])
                self.assertEqual(self.verdicts(table, "coverage/no-planted-faults"), ["pass"])
                for run in ("ncclRanks", "checkpointRanks"):
                    self.assertEqual(len(self.evidence["observations"][run]["value"]["ranks"]), ranks)

    def test_the_stage_alone(self):
        table = self.cluster(self.config(2, policy="policy: {fabric: {efa: no}, gpu: {devices: no}}\n"), OK, command="nccl")
        self.assertEqual(self.verdicts(table, "fabric-bandwidth/right-data"), ["pass", "pass"])
        self.assertNotIn("storage-shared/files-visible", table)
        # One rank moves nothing: that is no pass.
        self.cluster(self.config(1, policy="policy: {fabric: {efa: no}, gpu: {devices: no}}\n"), INCOMPLETE, command="nccl")

    def test_a_limit_that_loopback_cannot_show_is_unknown(self):
        policy = "policy: {stages: [nccl], gpu: {devices: no}, fabric: {efa: no, minPairBandwidth: {sizeBytes: 131072, bytesPerSecond: 1}}}\n"
        table = self.cluster(self.config(2, policy=policy), INCOMPLETE)
        shown, limit = table["fabric-bandwidth/pair-bandwidth"]
        self.assertEqual((shown["verdict"], limit["verdict"]), ("not_applicable", "unknown"))
        # It was measured at the policy's size all the same.
        self.assertTrue(any("131072 bytes" in note for note in shown["notes"]), shown["notes"])

    def test_a_provider_that_the_policy_demands_and_nobody_used_fails(self):
        policy = "policy: {stages: [nccl], gpu: {devices: no}, fabric: {efa: no, provider: efa}}\n"
        table = self.cluster(self.config(2, policy=policy), FAILED)
        finding, = table["fabric-bandwidth/provider"]
        self.assertRegex(finding["reason"]["message"], r"expected efa, found ranks 0 and 1: \w")

    def test_without_a_target_nothing_is_measured_and_the_report_says_so(self):
        config = self.write("c.yaml", HEAD + "policy: {gpu: {devices: no}, fabric: {efa: no, provider: efa}}\n")
        table = self.cluster(config, INCOMPLETE, command="nccl")
        finding, = table["fabric-bandwidth/right-data"]
        self.assertEqual(finding["verdict"], "unknown")
        self.assertIn("no target to run ranks on", finding["reason"]["message"])


class Planted(Ranks):
    def planted(self, expect, fault, rule, rank=1, ranks=3, subject=None, **more):
        """Runs with the fault; gives the findings of the rule that found it, having seen that they name the rank."""
        table = self.cluster(self.config(ranks, [dict({"rank": rank}, **fault)], **more), expect)
        self.assertEqual(self.verdicts(table, "coverage/no-planted-faults"), ["unknown"])
        found = [f for f in table[rule] if f["verdict"] in ("fail", "unknown") and subject in (None, f["subject"]["name"])]
        self.assertTrue(found, table[rule])
        for finding in found:
            text = finding["reason"]["message"]
            self.assertRegex(text, rf"\brank {rank}\b", text)
            others = [r for r in range(ranks) if r != rank]
            # Named first: the others are where it was seen, not who did it.
            self.assertFalse(any(text.find(f"rank {r}") in range(text.find(f"rank {rank}")) for r in others), text)
        return table, found

    def test_a_flipped_bit_between_pairs(self):
        _, found = self.planted(FAILED, {"step": "fabric-pairs", "kind": "flip-bit"}, "fabric-bandwidth/right-data")
        self.assertRegex(found[0]["reason"]["message"], r"^what rank 1 on \S+ sent arrived wrong at ranks 0 and 2")

    def test_a_flipped_bit_in_collectives(self):
        _, found = self.planted(FAILED, {"step": "fabric-collectives", "kind": "flip-bit"}, "fabric-bandwidth/right-data")
        self.assertRegex(found[0]["reason"]["message"], r"^elements of rank 1 on \S+ arrived wrong at ranks 0, 1 and 2")

    def test_a_flipped_bit_in_storage(self):
        _, found = self.planted(FAILED, {"step": "storage-shared", "kind": "flip-bit"}, "storage-shared/files-visible")
        self.assertEqual(found[0]["verdict"], "fail")

    def test_another_directory_at_the_path(self):
        other = self.dir / "other"
        other.mkdir()
        table = self.cluster(self.config(3, [{"rank": 1, "step": "storage-shared", "kind": "other-directory", "path": str(other)}]), None)
        if any("cannot plant" in f["reason"]["message"] for some in table.values() for f in some):
            self.skipTest("no mount namespaces here")
        finding, = table["storage-shared/files-visible"]
        self.assertEqual(finding["verdict"], "fail")
        self.assertRegex(finding["reason"]["message"], r"^rank 1 on \S+ stands apart from ranks 0 and 2")
        self.assertEqual(list(other.iterdir()), [])

    def test_a_rank_that_exits(self):
        for step in ("fabric-pairs", "fabric-collectives"):
            with self.subTest(step=step):
                _, found = self.planted(INCOMPLETE, {"step": step, "kind": "exit"}, "fabric-bandwidth/right-data")
                self.assertIn("exited with code 1", found[0]["reason"]["message"])

    def test_a_rank_that_exits_at_the_start(self):
        self.planted(INCOMPLETE, {"kind": "exit"}, "fabric-bandwidth/right-data", timeout=8)

    def test_a_rank_that_dies_as_a_whole(self):
        self.planted(INCOMPLETE, {"step": "fabric-pairs", "kind": "exit-rank"}, "fabric-bandwidth/right-data")

    def test_a_rank_that_sleeps_for_ever_ends_by_the_deadline(self):
        # What the other steps do within this time on a busy machine is not the question.
        _, found = self.planted(INCOMPLETE, {"step": "fabric-pairs", "kind": "sleep"}, "fabric-bandwidth/right-data",
                                subject="pairs of ranks", timeout=8)
        self.assertIn("did not end before its deadline", found[0]["reason"]["message"])
        for rank in self.evidence["observations"]["ncclRanks"]["value"]["ranks"]:
            self.assertLess(rank["seen"]["value"]["fabricPairs"][0]["end"]["seconds"], 20)

    def test_a_rank_with_a_wrong_secret(self):
        table, found = self.planted(INCOMPLETE, {"kind": "wrong-secret"}, "fabric-bandwidth/right-data", timeout=8)
        self.assertIn("did not know the secret", found[0]["reason"]["message"])
        self.assertIn("unknown", self.verdicts(table, "storage-shared/files-visible"))

    def test_a_fault_that_would_not_be_planted_is_an_error(self):
        for fault, more, text in [
            ({"rank": 0, "step": "fabric-pears", "kind": "exit"}, [], "no selected stage has a step 'fabric-pears' to plant a fault in"),
            ({"rank": 0, "step": "storage-shared", "kind": "exit"}, ["--only", "nccl"], "the steps are meet, fabric-node, fabric-pairs"),
            ({"rank": 0, "kind": "exit"}, ["--only", "image"], "no selected stage starts ranks"),
            ({"rank": 3, "kind": "exit"}, [], "'target.plantedFaults[0].rank' must be a whole number from 0 to 2"),
        ]:
            with self.subTest(text=text):
                done = self.run_cli("cluster", "-c", self.config(3, [fault]), "--no-sign", "--out", self.dir / "never", *more, expect=USAGE)
                self.assertIn("ranks.yaml: line 3: ", done.stderr)
                self.assertIn(text, done.stderr)
                self.assertFalse((self.dir / "never").exists())

    def test_such_a_run_is_genuine_and_never_passed(self):
        key, public = self.keys()
        config = self.config(2, [{"rank": 1, "step": "meet", "kind": "flip-bit"}])  # which does nothing at all
        self.run_cli("cluster", "-c", config, "--sign-key", key, "--out", self.dir / "signed", expect=INCOMPLETE)
        done = self.run_cli("report", "verify", self.dir / "signed" / "evidence.sigstore.json", "--key", public, expect=INCOMPLETE)
        self.assertIn("INCOMPLETE", done.stdout)
        lenient = self.write("p.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nstages: [nccl, checkpoint]\nfabric: {efa: no}\ngpu: {devices: no}\n")
        done = self.run_cli("judge", self.dir / "signed" / "evidence.statement.json", "--policy", lenient, expect=INCOMPLETE)
        self.assertIn("judges the tool, not the cluster", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
