"""Checks checkpoint-reload and checkpoint-resume with `target: local`: real processes train, save, and others go on."""
import json
import unittest

from harness import FAILED, INCOMPLETE, OK, ROOT, USAGE, Case

RELOAD = ["saved", "same-state", "other-world-sizes", "refusals"]
RESUME = ["losses", "state"]


class Checkpoints(Case):
    runs = 0

    def run_ranks(self, expect, ranks, faults=(), policy="", path=None):
        """(rule -> finding of the two checks, the ranks' observations by rank)."""
        self.runs += 1
        if path is None:
            path = self.dir / "shared"
            path.mkdir(exist_ok=True)
        target = {"type": "local", "ranks": ranks}
        if faults:
            target["plantedFaults"] = list(faults)
        # Speed is another check's: no small files here.
        config = self.write(f"c{self.runs}.yaml", f"""apiVersion: dlc-check/v1
kind: Config
target: {json.dumps(target)}
checkpoint: {{path: {path}}}
policy: {{stages: [checkpoint], storage: {{metadataFiles: 0, maxBytesPerRank: 4194304}}, checkpoint: {{{policy}}}}}
""")
        out = self.dir / f"out{self.runs}"
        done = self.run_cli("checkpoint", "-c", config, "--no-sign", "--format", "json", "--out", out, expect=expect)
        report = json.loads(done.stdout)
        self.statement = out / "evidence.statement.json"
        seen = json.loads(self.statement.read_text())["predicate"]["observations"]["checkpointRanks"]["value"]["ranks"]
        self.assertEqual(list(path.iterdir()), [], "something is left behind")
        return self.findings(report), [rank["seen"].get("value") for rank in seen]

    def findings(self, report):
        return {f["rule"]: f for f in report["findings"] if f["check"] in ("checkpoint-reload", "checkpoint-resume")}

    def verdicts(self, findings):
        return {rule.split("/")[1]: f["verdict"] for rule, f in findings.items() if "not-cached" not in rule}

    def save(self, ranks, rank):
        return ranks[rank]["checkpointSave"][0]["seen"]["value"]

    def load(self, ranks, rank):
        return ranks[rank]["checkpointLoad"][0]["seen"]["value"]


class Good(Checkpoints):
    def test_any_number_of_ranks_goes_on_as_if_nothing_had_happened(self):
        for count in [1, 2, 4, 7]:
            with self.subTest(ranks=count):
                findings, ranks = self.run_ranks(OK, count)
                self.assertEqual(self.verdicts(findings), dict.fromkeys(RELOAD + RESUME, "pass"))
                saves = [self.save(ranks, rank) for rank in range(count)]
                loads = [self.load(ranks, rank) for rank in range(count)]
                # Other processes, in other roles.
                self.assertTrue({s["training"]["process"] for s in saves}.isdisjoint({l["training"]["process"] for l in loads}))
                self.assertEqual(sorted(l.get("role", 0) for l in loads), list(range(count)))
                if count > 1:
                    self.assertTrue(all(l.get("role", 0) != rank for rank, l in enumerate(loads)))
                # Training has changed the state, and both runs came to the same.
                self.assertNotEqual(saves[0]["hash"], saves[0]["continuedHash"])
                self.assertEqual({l["hash"] for l in loads}, {saves[0]["hash"]})
                self.assertEqual({l["resumedHash"] for l in loads}, {saves[0]["continuedHash"]})
                self.assertEqual([r["ranks"] for r in loads[0]["reshards"]], {1: [2, 3, 5], 2: [1, 3, 5], 4: [2, 1, 3, 5], 7: [3, 1, 2, 5]}[count])
                self.assertEqual([r["name"] for r in saves[0]["refusals"]], ["partial", "damaged", "swapped", "stale", "mixed-run"])
                self.assertEqual(sum(s["bytes"] for s in saves) > 12 * saves[0]["training"]["parameters"], True)

    def test_more_steps_and_judged_again(self):
        findings, ranks = self.run_ranks(OK, 2, policy="steps: 3")
        self.assertEqual(len(self.load(ranks, 0)["losses"]), 3)
        again = json.loads(self.run_cli("judge", self.statement, "--format", "json", expect=OK).stdout)
        self.assertEqual({rule: f["verdict"] for rule, f in self.findings(again).items()}, {rule: f["verdict"] for rule, f in findings.items()})
        other = self.write("other.yaml", "apiVersion: dlc-check/v1\nkind: Policy\ncheckpoint: {backend: cuda}\n")
        again = json.loads(self.run_cli("judge", self.statement, "--policy", other, "--format", "json", expect=INCOMPLETE).stdout)
        self.assertEqual(self.verdicts(self.findings(again))["same-state"], "unknown")
        self.assertEqual(self.verdicts(self.findings(again))["state"], "unknown")

    def test_the_example_passes(self):
        example = (ROOT / "examples/local/checkpoint.yaml").read_text()
        path = self.dir / "shared"
        path.mkdir()
        config = self.write("example.yaml", example.replace("/tmp/dlc-check-shared", str(path)))
        report = json.loads(self.run_cli("checkpoint", "-c", config, "--no-sign", "--format", "json", "--out", self.dir / "example", expect=OK).stdout)
        self.assertEqual(self.verdicts(self.findings(report)), dict.fromkeys(RELOAD + RESUME, "pass"))
        commented = [line.split("# ", 1)[1].split("#")[0].strip() for line in example.splitlines() if line.startswith("    # ") and ":" in line]
        policy = self.write("all.yaml", "apiVersion: dlc-check/v1\nkind: Policy\ncheckpoint:\n" +
                            "".join(f"  {line}\n" for line in commented if line.split(":")[0] in ("measure", "backend", "model")))
        self.run_cli("policy", "check", policy, expect=OK)

    def test_not_where_the_policy_wants_none(self):
        findings, ranks = self.run_ranks(OK, 2, policy="measure: no")
        self.assertEqual({f["verdict"] for f in findings.values()}, {"not_applicable"})
        self.assertEqual(ranks[0].get("checkpointSave", []), [])

    def test_bad_policy(self):
        for text, message in [("model: gpt", "model"), ("steps: 0", "steps"), ("backend: tpu", "backend"), ("stepz: 1", "did you mean 'steps'")]:
            done = self.run_cli("policy", "check", self.write("bad.yaml", f"apiVersion: dlc-check/v1\nkind: Policy\ncheckpoint: {{{text}}}\n"), expect=USAGE)
            self.assertIn("bad.yaml: line 3: ", done.stderr)
            self.assertIn(message, done.stderr)


class Bad(Checkpoints):
    def plant(self, step, kind, rank=1, expect=FAILED, ranks=3):
        return self.run_ranks(expect, ranks, [{"rank": rank, "step": step, "kind": kind}])

    def test_a_bit_that_flips_on_the_way_to_the_file(self):
        """The file's sha256 is right: only the comparison with what was in memory tells."""
        findings, _ = self.plant("checkpoint-save", "flip-bit")
        same = findings["checkpoint-reload/same-state"]
        self.assertEqual(same["verdict"], "fail")
        self.assertIn("1 tensor not as saved: model.layers.0.self_attn.q_proj.weight", same["reason"]["message"])
        self.assertEqual(findings["checkpoint-reload/other-world-sizes"]["verdict"], "fail")
        self.assertEqual(findings["checkpoint-resume/state"]["verdict"], "fail")

    def test_a_bit_that_flips_after_the_load(self):
        findings, _ = self.plant("checkpoint-load", "flip-bit")
        self.assertIn("1 tensor not as saved: ", findings["checkpoint-reload/same-state"]["reason"]["message"])
        self.assertEqual(findings["checkpoint-reload/other-world-sizes"]["verdict"], "pass")
        self.assertEqual(findings["checkpoint-resume/state"]["verdict"], "fail")

    def test_a_file_that_changed_on_the_disk_is_refused(self):
        findings, ranks = self.plant("checkpoint-save", "corrupt-shard")
        same = findings["checkpoint-reload/same-state"]
        self.assertEqual(same["verdict"], "fail")
        self.assertIn("damaged: ", same["reason"]["message"])
        self.assertIn("rank-00001-of-00003.safetensors", same["reason"]["message"])
        # Nobody trained on what was refused.
        self.assertEqual(findings["checkpoint-resume/losses"]["verdict"], "unknown")
        self.assertEqual([self.load(ranks, rank).get("losses", []) for rank in range(3)], [[], [], []])

    def test_moments_that_were_not_loaded(self):
        findings, _ = self.plant("checkpoint-load", "lost-moments")
        self.assertIn("exp_avg.model.", findings["checkpoint-reload/same-state"]["reason"]["message"])
        self.assertEqual(findings["checkpoint-resume/state"]["verdict"], "fail")

    def test_a_step_count_that_is_behind(self):
        """The tensors are right, and training still goes another way."""
        findings, _ = self.plant("checkpoint-load", "stale-step")
        self.assertEqual(findings["checkpoint-reload/same-state"]["verdict"], "pass")
        self.assertEqual(findings["checkpoint-resume/losses"]["verdict"], "fail")
        self.assertEqual(findings["checkpoint-resume/state"]["verdict"], "fail")

    def test_a_rank_that_dies(self):
        for step, unknown in [("checkpoint-save", RELOAD[:3] + RESUME), ("checkpoint-load", ["same-state", "other-world-sizes"] + RESUME)]:
            with self.subTest(step=step):
                findings, _ = self.plant(step, "kill", expect=INCOMPLETE, ranks=2)
                verdicts = self.verdicts(findings)
                self.assertEqual({rule: verdicts[rule] for rule in unknown}, dict.fromkeys(unknown, "unknown"))

    def test_one_rank_that_looks_at_another_directory(self):
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        findings, _ = self.run_ranks(FAILED, 2, [{"rank": 1, "step": "checkpoint-load", "kind": "other-directory", "path": str(elsewhere)}])
        same = findings["checkpoint-reload/same-state"]
        self.assertEqual(same["verdict"], "fail")
        self.assertIn("partial: ", same["reason"]["message"])


if __name__ == "__main__":
    unittest.main()
