"""`dlc-check fsdp` with `target: local`: real processes that cut a model, gather it and reduce it."""
import json
import pathlib
import unittest

from harness import FAILED, INCOMPLETE, OK, ROOT, USAGE, Case

LAYOUTS = ["fsdp2", "hsdp", "fsdp1", "fsdp1-aligned", "zero3"]
TINY = "models: [qwen2-tiny]"


class Fsdp(Case):
    runs = 0

    def fsdp(self, expect, ranks, policy="", faults=(), command=("fsdp",)):
        """(the report, the ranks' observations)."""
        self.runs += 1
        target = {"type": "local", "ranks": ranks}
        if faults:
            target["plantedFaults"] = list(faults)
        text = f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {json.dumps(target)}\npolicy: {{stages: [fsdp], fsdp: {{{policy}}}}}\n"
        out = self.dir / f"out{self.runs}"
        done = self.run_cli(*command, "-c", self.write(f"c{self.runs}.yaml", text), "--no-sign", "--format", "json", "--out", out, expect=expect)
        statement = json.loads((out / "evidence.statement.json").read_text())
        self.out = out
        return json.loads(done.stdout), statement["predicate"]["observations"]["fsdpRanks"]

    def of(self, report, rule):
        return [f for f in report["findings"] if f["rule"] == "fsdp-layout/" + rule]

    def proofs(self, seen, rank):
        return seen["value"]["ranks"][rank]["seen"]["value"]["fsdpLayout"][0]["seen"]["value"]["proofs"]


class Good(Fsdp):
    def test_every_layout_over_any_number_of_ranks(self):
        for ranks in [1, 3, 4, 7]:
            with self.subTest(ranks=ranks):
                report, seen = self.fsdp(OK, ranks, TINY)
                elements = self.of(report, "right-elements")
                self.assertEqual([f["subject"]["name"] for f in elements], ["layout " + layout for layout in LAYOUTS])
                self.assertEqual({f["verdict"] for f in elements}, {"pass"})
                self.assertEqual([f["verdict"] for f in self.of(report, "verifier")], ["pass"])
                self.assertEqual([f["verdict"] for f in self.of(report, "sent-bytes")], ["pass" if ranks > 1 else "not_applicable"])
                for rank in range(ranks):
                    for proof in self.proofs(seen, rank):
                        self.assertEqual(proof["movedElements"], proof["modelElements"])
                        self.assertGreaterEqual(proof["comparedElements"], proof["movedElements"])
                        for control in proof["controls"]:
                            self.assertEqual(control.get("caught", False), control.get("planted", False), control)

    def test_a_real_layer_is_moved_whole_and_padded_by_three_ranks(self):
        report, seen = self.fsdp(OK, 3, "models: [qwen2.5-0.5b], layouts: [zero3]")
        finding, = self.of(report, "right-elements")
        self.assertIn("of 2 of 25 units (1 whole, else around the cuts), over 3 ranks", finding["actual"])
        proof, = self.proofs(seen, 0)
        self.assertGreater(proof["movedElements"], 14_912_384)  # a layer, and more
        self.assertGreater(proof["fillingElements"], 0)

    @unittest.skipIf(pathlib.Path("/dev/nvidiactl").exists(), "this host has a GPU; it trains there")
    def test_training_on_gpus_that_no_rank_has_is_not_looked_at(self):
        """No GPU is a missing observation, and the CPU is not taken in its place."""
        report, seen = self.fsdp(INCOMPLETE, 2, TINY + ", training: {backend: cuda}")
        plan = seen["value"]["ranks"][0]["seen"]["value"]["fsdpTraining"][0]
        self.assertNotIn("value", plan["seen"])
        unsharded, = [f for f in report["findings"] if f["rule"] == "fsdp-training/unsharded-model"]
        self.assertEqual(unsharded["verdict"], "unknown")
        self.assertEqual(plan["seen"]["state"], "error", plan)
        self.assertEqual({f["verdict"] for f in self.of(report, "right-elements")}, {"pass"})

    def test_the_example_passes_and_moves_real_shapes(self):
        example = ROOT / "examples/local/fsdp.yaml"
        report = json.loads(self.run_cli("fsdp", "-c", example, "--no-sign", "--format", "json", "--out", self.dir / "example", expect=OK).stdout)
        elements = self.of(report, "right-elements")
        self.assertEqual([f["subject"]["name"] for f in elements], ["layout " + layout for layout in LAYOUTS])
        self.assertIn("qwen2-tiny: ", elements[0]["actual"])
        self.assertIn("of 2 of 29 units (1 whole, else around the cuts), over 4 ranks", elements[0]["actual"])
        self.assertIn("a training step of qwen2.5-1.5b cut as fsdp2 sends 6.60 GB per rank", self.of(report, "sent-bytes")[0]["notes"][0])
        commented = [line.split("# ", 1)[1].split("#")[0].strip() for line in example.read_text().splitlines() if line.startswith("    # ")]
        self.assertEqual(len(commented), 4)
        policy = self.write("all.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfsdp:\n" + "".join(f"  {line}\n" for line in commented))
        self.run_cli("policy", "check", policy, expect=OK)

    def test_the_readme_names_every_key(self):
        text = (ROOT / "README.md").read_text()
        block = text[text.index("    fsdp:\n      measure"):].split("\n\n")[0]
        policy = self.write("readme.yaml", "apiVersion: dlc-check/v1\nkind: Policy\n" + "".join(line[4:] + "\n" for line in block.splitlines()))
        self.run_cli("policy", "check", policy, expect=OK)

    def test_it_is_a_stage_of_cluster_and_judged_again_from_the_evidence(self):
        self.fsdp(OK, 2, TINY, command=("cluster", "--only", "fsdp"))
        again = json.loads(self.run_cli("judge", self.out / "evidence.statement.json", "--format", "json", expect=OK).stdout)
        self.assertEqual({f["verdict"] for f in self.of(again, "right-elements")}, {"pass"})
        more = self.write("more.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfsdp: {models: [qwen2.5-0.5b]}\n")
        again = json.loads(self.run_cli("judge", self.out / "evidence.statement.json", "--policy", more, "--format", "json", expect=INCOMPLETE).stdout)
        self.assertEqual({f["verdict"] for f in self.of(again, "right-elements")}, {"unknown"})


class Training(Fsdp):
    def trained(self, report, rule):
        return [f for f in report["findings"] if f["rule"] == "fsdp-training/" + rule][0]

    def test_four_ranks_train_as_one_would(self):
        report, seen = self.fsdp(OK, 4, TINY + ", layouts: [fsdp2]")
        for rule in ["whole-numbers", "unsharded-model", "finite", "ranks-agree", "sent-bytes", "verifier"]:
            self.assertEqual(self.trained(report, rule)["verdict"], "pass", rule)
        notes = "\n".join(self.trained(report, "finite")["notes"])
        self.assertRegex(notes, r"step of .* s: .* s computing, .* s waiting for communication, .* s optimizer; \d+ tokens/s over 4 ranks")
        self.assertIn("communication of a step of qwen2.5-1.5b, with nothing to hide it behind: ", notes)
        experiment = seen["value"]["ranks"][3]["seen"]["value"]["fsdpTraining"][0]["seen"]["value"]
        self.assertEqual([run["name"] for run in experiment["runs"]], ["exact", "training"])

    def test_one_rank_has_nobody_to_send_to(self):
        report, _ = self.fsdp(OK, 1, TINY + ", layouts: [fsdp2]")
        self.assertEqual(self.trained(report, "unsharded-model")["verdict"], "pass")
        self.assertEqual(self.trained(report, "sent-bytes")["verdict"], "not_applicable")

    def test_each_planted_fault_is_named(self):
        for kind, part in [("wrong-average", "wrong-average: "), ("skipped-shard", "skipped-shard: "), ("padding-leak", "padding-leak: "),
                           ("stale-gather", "stale-gather: "), ("dropped-micro-batch", "dropped-micro-batch: of rank 1 "),
                           ("flip-bit", "flipped-bit: ")]:
            with self.subTest(kind=kind):
                report, _ = self.fsdp(FAILED, 3, TINY + ", layouts: [fsdp2]", faults=[{"rank": 1, "step": "fsdp-training", "kind": kind}])
                exact = self.trained(report, "whole-numbers")
                self.assertEqual(exact["verdict"], "fail")
                self.assertIn(part, exact["reason"]["message"])

    def test_no_training_where_the_policy_asks_for_none(self):
        report, _ = self.fsdp(OK, 2, TINY + ", layouts: [fsdp2], training: {measure: no}")
        self.assertEqual(self.trained(report, "unsharded-model")["verdict"], "not_applicable")


class WorkloadModel(Fsdp):
    """The user's own config.json."""
    # As transformers 4 writes it; sizes that nothing divides.
    MODEL = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "intermediate_size": 100, "vocab_size": 301, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_scaling": None,
             "tie_word_embeddings": False, "hidden_act": "silu", "use_sliding_window": False, "sliding_window": 32768, "attention_dropout": 0.0,
             "torch_dtype": "bfloat16"}
    PARAMETERS = 2 * (48 * 48 + 48 + 2 * (24 * 48 + 24) + 48 * 48 + 3 * 48 * 100 + 2 * 48) + 2 * 301 * 48 + 48

    def config(self, model, policy, ranks=2):
        self.runs += 1
        name = f"config{self.runs}.json"
        self.write(name, model if isinstance(model, str) else json.dumps(model))
        return self.write(f"w{self.runs}.yaml", f"""apiVersion: dlc-check/v1
kind: Config
target: {{type: local, ranks: {ranks}}}
workload: {{modelConfig: {name}}}
policy: {{stages: [fsdp], fsdp: {{{TINY}, layouts: [fsdp2], training: {{{policy}}}}}}}
""")

    def train(self, model, policy, expect=OK):
        config = self.config(model, policy)
        out = self.dir / f"wout{self.runs}"
        done = self.run_cli("fsdp", "-c", config, "--no-sign", "--format", "json", "--out", out, expect=expect)
        statement = json.loads((out / "evidence.statement.json").read_text())["predicate"]
        self.statement = out / "evidence.statement.json"
        return json.loads(done.stdout), statement

    def test_it_is_trained_and_judged(self):
        newer = {k: v for k, v in self.MODEL.items() if k != "rope_theta"} | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
        hashes = set()
        for model in (self.MODEL, newer, self.MODEL | {"head_dim": 12}):
            report, statement = self.train(model, "model: workload, rows: 1, sequence: 16")
            self.assertEqual({f["verdict"] for f in report["findings"] if f["check"] == "fsdp-training"}, {"pass"})
            experiment = statement["observations"]["fsdpRanks"]["value"]["ranks"][0]["seen"]["value"]["fsdpTraining"][0]["seen"]["value"]
            self.assertEqual({(run["model"], run["parameters"]) for run in experiment["runs"]}, {("workload", self.PARAMETERS)})
            hashes.add(experiment["runs"][1]["hash"])
            self.assertIn("model-config", [i["role"] for i in statement["observations"]["run"]["inputs"]])
        self.assertEqual(len(hashes), 1)
        wider = self.train(self.MODEL | {"head_dim": 14}, "model: workload, rows: 1, sequence: 16")[1]
        experiment = wider["observations"]["fsdpRanks"]["value"]["ranks"][0]["seen"]["value"]["fsdpTraining"][0]["seen"]["value"]
        self.assertGreater(experiment["runs"][1]["parameters"], self.PARAMETERS)

    def test_a_policy_for_another_model_sees_nothing(self):
        self.train(self.MODEL, "model: workload, rows: 1, sequence: 16")
        other = self.write("other.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfsdp: {models: [qwen2-tiny], layouts: [fsdp2]}\n")
        report = json.loads(self.run_cli("judge", self.statement, "--policy", other, "--format", "json", expect=INCOMPLETE).stdout)
        self.assertEqual({f["verdict"] for f in report["findings"] if f["rule"] == "fsdp-training/unsharded-model"}, {"unknown"})

    def test_its_communication_is_told_where_another_is_trained(self):
        report, _ = self.train(self.MODEL, "rows: 1, sequence: 16")
        notes = "\n".join(note for f in report["findings"] for note in f.get("notes", []))
        self.assertIn("communication of a step of workload, with nothing to hide it behind: ", notes)

    def test_what_is_another_computation_is_refused(self):
        for change, message in [({"model_type": "llama"}, 'model_type: is "llama", and must be "qwen2"'), ({"model_type": None}, "model_type: is missing"),
                                ({"hidden_size": None}, "hidden_size: is missing"), ({"vocab_size": 0}, "vocab_size: must be a whole number from 1"),
                                ({"hidden_size": 48.5}, "hidden_size: must be a whole number"), ({"num_key_value_heads": 3}, "does not divide num_attention_heads, 4"),
                                ({"hidden_size": 50}, "does not divide hidden_size, 50"), ({"head_dim": 7}, "head_dim: must be even"),
                                ({"rope_scaling": {"type": "yarn"}}, "rope_scaling: only positions"), ({"rope_theta": "1e6"}, "rope_theta: must be a number"),
                                ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, 'rope_parameters.rope_type: is "yarn"'),
                                ({"hidden_act": "gelu"}, 'hidden_act: is "gelu"'), ({"use_sliding_window": True}, "use_sliding_window: "),
                                ({"attention_dropout": 0.1}, "attention_dropout: must be 0"), ({"rms_norm_eps": -1}, "rms_norm_eps: must be a number greater than 0"),
                                ({"tie_word_embeddings": 1}, "tie_word_embeddings: must be true or false")]:
            with self.subTest(change=change):
                config = self.config(self.MODEL | change, "model: workload")
                done = self.run_cli("fsdp", "-c", config, "--no-sign", "--out", self.dir / "refused", expect=USAGE)
                self.assertIn(f"config{self.runs}.json: ", done.stderr)
                self.assertIn(message, done.stderr)
                self.assertFalse((self.dir / "refused").exists())
        for text, message in [("[]", "must be an object"), ("{", "config"), ('{"model_type": "qwen2", "model_type": "qwen2"}', "model_type")]:
            done = self.run_cli("fsdp", "-c", self.config(text, "model: workload"), "--no-sign", "--out", self.dir / "refused", expect=USAGE)
            self.assertIn(message, done.stderr)

    def test_a_policy_that_asks_for_it_needs_it(self):
        for stage, policy, key in [("fsdp", "fsdp: {training: {model: workload}}", "fsdp.training.model"),
                                   ("checkpoint", "checkpoint: {model: workload}", "checkpoint.model")]:
            with self.subTest(stage=stage):
                text = f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {{type: local, ranks: 1}}\ncheckpoint: {{path: {self.dir}}}\npolicy: {{{policy}}}\n"
                done = self.run_cli(stage, "-c", self.write("none.yaml", text), "--no-sign", "--out", self.dir / "none", expect=USAGE)
                self.assertIn(f"none.yaml: the policy trains the workload's model ({key}: workload)", done.stderr)
                self.assertIn("workload: {modelConfig: config.json}", done.stderr)


class Bad(Fsdp):
    def test_a_flipped_bit_fails_and_names_rank_and_place(self):
        for ranks, rank in [(3, 1), (4, 3), (1, 0)]:
            with self.subTest(ranks=ranks):
                report, _ = self.fsdp(FAILED, ranks, TINY, faults=[{"rank": rank, "step": "fsdp-layout", "kind": "flip-bit"}])
                elements = self.of(report, "right-elements")
                self.assertEqual([f["verdict"] for f in elements], ["fail"] + ["pass"] * 4)
                message = elements[0]["reason"]["message"]
                self.assertRegex(message, rf"^{ranks} wrong elements of qwen2-tiny at ranks? 0")
                self.assertRegex(message, rf"the first: model\.layers\.0\.self_attn\.q_proj\.weight\[\d+, \d+\] of rank {rank} on ")
                self.assertEqual([f["verdict"] for f in self.of(report, "verifier")], ["pass"])
                self.assertIn("unknown", [f["verdict"] for f in report["findings"] if f["rule"] == "coverage/no-planted-faults"])

    def test_a_rank_that_dies_is_named_and_nothing_passes(self):
        report, _ = self.fsdp(INCOMPLETE, 3, TINY, faults=[{"rank": 2, "step": "fsdp-layout", "kind": "kill"}])
        for finding in self.of(report, "right-elements"):
            self.assertEqual(finding["verdict"], "unknown")
            self.assertIn("rank 2", finding["reason"]["message"])

    def test_without_ranks_it_depends_on_the_policy(self):
        for policy, verdict in [("measure: required", "unknown"), ("measure: with-ranks", "not_applicable"), ("measure: no", "not_applicable")]:
            with self.subTest(policy=policy):
                config = self.write("none.yaml", f"apiVersion: dlc-check/v1\nkind: Config\npolicy: {{stages: [fsdp], fsdp: {{{policy}}}}}\n")
                done = self.run_cli("fsdp", "-c", config, "--no-sign", "--format", "json", "--out", self.dir / policy[9:], expect=INCOMPLETE)
                self.assertEqual([f["verdict"] for f in self.of(json.loads(done.stdout), "right-elements")], [verdict])

    def test_ranks_are_started_for_none_that_the_policy_does_not_ask_for(self):
        report, seen = self.fsdp(INCOMPLETE, 2, "measure: no")
        self.assertEqual(seen["state"], "not_looked_at")
        self.assertIn("fsdp.measure: no", self.of(report, "right-elements")[0]["reason"]["message"])

    def test_an_unknown_layout_is_an_error_of_the_policy(self):
        config = self.write("c.yaml", "apiVersion: dlc-check/v1\nkind: Config\ntarget: {type: local, ranks: 2}\npolicy: {fsdp: {layouts: [fsdp3]}}\n")
        self.assertIn("not 'fsdp3'", self.run_cli("fsdp", "-c", config, expect=USAGE).stderr)


if __name__ == "__main__":
    unittest.main()
