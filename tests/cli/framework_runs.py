"""What the tests of `fsdp-framework` share: runs with `target: local`, and their findings and processes."""
import json
import os
import pathlib

from harness import Case

RULES = ["runs", "losses", "finite", "steps-per-second", "checkpoint"]


class FrameworkCase(Case):
    patience = 400
    runs = 0

    def framework(self, expect, ranks, python, framework="engine: torch", checkpoint=True, faults=(), timeout=None, training="rows: 1, sequence: 16"):
        """(findings by rule, by rank what was seen of the step)."""
        self.runs += 1
        target = {"type": "local", "ranks": ranks}
        if faults:
            target["plantedFaults"] = list(faults)
        if timeout:
            target["timeoutSeconds"] = timeout
        storage = self.dir / f"shared{self.runs}"
        storage.mkdir()
        self.storage = storage
        text = f"""apiVersion: dlc-check/v1
kind: Config
target: {json.dumps(target)}
framework: {{python: {json.dumps(str(python))}}}
{f"checkpoint: {{path: {storage}}}" if checkpoint else ""}
policy: {{stages: [fsdp], fsdp: {{models: [qwen2-tiny], layouts: [fsdp2], training: {{{training}}}, framework: {{{framework}}}}}}}
"""
        self.out = self.dir / f"out{self.runs}"
        done = self.run_cli("fsdp", "-c", self.write(f"c{self.runs}.yaml", text), "--no-sign", "--format", "json", "--out", self.out, expect=expect)
        statement = json.loads((self.out / "evidence.statement.json").read_text())
        reports = statement["predicate"]["observations"]["fsdpRanks"]["value"]["ranks"]
        self.assertEqual(list(storage.iterdir()), [], "what the run made in the checkpoint path is gone")
        self.assertEqual(self.still_running(), [])
        self.report = json.loads(done.stdout)
        return self.of(self.report), [report["seen"]["value"]["fsdpFramework"][0] for report in reports]

    def still_running(self):
        """Command lines that name this test's directory."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = pathlib.Path("/proc", pid, "cmdline").read_bytes()
            except OSError:
                continue
            if str(self.dir).encode() in line:
                found.append(line)
        return found

    def of(self, report):
        self.assertEqual([f["verdict"] for f in report["findings"] if f["rule"] == "fsdp-framework/transport"], ["not_applicable"], "no NCCL on CPUs")
        return {f["rule"].split("/")[1]: f for f in report["findings"] if f["check"] == "fsdp-framework"}

    def verdicts(self, findings):
        return [findings[rule]["verdict"] for rule in RULES]

    def process(self, step, name="train"):
        return [p for p in step["seen"]["value"]["processes"] if p["name"] == name][0]
