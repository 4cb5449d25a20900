"""`target: local`: real processes on this host, started by dlc-check, looking at a shared path."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest

from harness import BIN, DLC_CHECK, FAILED, INCOMPLETE, LEFTOVERS, NOT_WRITTEN, OK, ROOT, Case

sys.path.append(str(ROOT / "tests" / "probe"))

from ranks import leftover_processes


class Ranks(Case):
    def config(self, ranks, path, extra=""):
        return self.write("ranks.yaml", f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {{type: local, ranks: {ranks}}}\ncheckpoint: {{path: {path}}}\n{extra}")

    def shared(self):
        path = self.dir / "shared"
        path.mkdir(exist_ok=True)
        return path

    def checkpoint(self, config, expect, name="out"):
        done = self.run_cli("checkpoint", "-c", config, "--no-sign", "--format", "json", "--out", self.dir / name, expect=expect)
        return json.loads(done.stdout), done

    def test_any_number_of_ranks_and_nothing_left_behind(self):
        for ranks in [1, 3, 4, 7]:
            with self.subTest(ranks=ranks):
                path = self.shared()
                report, _ = self.checkpoint(self.config(ranks, path), OK, f"out{ranks}")
                statement = json.loads((self.dir / f"out{ranks}" / "evidence.statement.json").read_text())
                seen = statement["predicate"]["observations"]["checkpointRanks"]
                self.assertEqual(seen["state"], "seen")
                self.assertEqual(len(seen["value"]["ranks"]), ranks)
                self.assertEqual(list(path.iterdir()), [])
                # One kernel: the tool may not claim that nodes share the path.
                between = [f for f in report["findings"] if f["rule"].endswith("between-nodes")]
                self.assertTrue(between)
                self.assertNotIn("pass", [f["verdict"] for f in between])

    def test_a_missing_path_fails_and_is_named(self):
        _, done = self.checkpoint(self.config(2, self.dir / "absent"), FAILED)
        self.assertIn("ENOENT", done.stdout)

    def test_without_a_target_the_stage_is_not_looked_at(self):
        config = self.write("c.yaml", "apiVersion: dlc-check/v1\nkind: Config\ncheckpoint: {path: /tmp}\n")
        _, done = self.checkpoint(config, INCOMPLETE)
        self.assertIn("no target", done.stdout)

    def test_an_interruption_stops_the_ranks_and_keeps_what_was_seen(self):
        path = self.shared()
        process = subprocess.Popen([str(DLC_CHECK), "checkpoint", "-c", str(self.config(4, path)), "--no-sign", "--out", str(self.dir / "out")],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.dir)
        # The first word of a rank on stderr: the ranks run.
        told = ""
        while "rank " not in told:
            line = process.stderr.readline()
            self.assertTrue(line, "dlc-check ended before a rank spoke")
            told += line
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=90)
        self.assertIn(process.returncode, (130,))
        self.assertEqual(list(path.iterdir()), [])
        self.assertTrue((self.dir / "out" / "evidence.statement.json").exists())
        self.assertEqual(leftover_processes(str(self.dir)), [])

    def run_that_leaves_something(self, command, *more, out="out"):
        """(the finished dlc-check, the path that its ranks could not clean)."""
        # Whoever may do everything can remove everything: the run is nobody's, from a place that nobody can reach.
        self.dir.chmod(0o755)
        programs = [shutil.copy(BIN / name, self.dir) for name in ("dlc-check", "dlc-probe")]
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        path = self.shared()
        home = self.dir / "home"
        home.mkdir()
        for directory in (path, home):
            directory.chmod(0o777)
        planted, ended = threading.Event(), threading.Event()

        def plant():
            """Into the run's directory, as soon as there is one, puts what its owner may not take out again."""
            while not planted.is_set() and not ended.is_set():
                for run in path.glob(".dlc-check-*"):
                    try:
                        (run / "held").mkdir()
                        (run / "held" / "file").touch()
                        (run / "held").chmod(0o500)
                        if (run / "held" / "file").exists():
                            planted.set()
                    except OSError:
                        pass  # gone again already: the next step makes another

        config = self.config(4, path, "policy: {stages: [checkpoint]}\n")
        planter = threading.Thread(target=plant)
        planter.start()
        try:
            done = subprocess.run([*as_nobody, programs[0], command, "-c", config, *more, "--out", home / out], capture_output=True,
                                  text=True, timeout=120, env=self.env | {"HOME": str(home)}, cwd=home)
        finally:
            ended.set()
            planter.join()
        self.assertTrue(planted.is_set(), "no directory of the run was seen")
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", path])
        return done, path

    def test_6_what_cannot_be_removed_is_named_with_the_command_that_removes_it(self):
        done, path = self.run_that_leaves_something("checkpoint", "--no-sign")
        self.assertEqual(done.returncode, LEFTOVERS, done.stdout + done.stderr)
        self.assertIn("PASSED", done.stdout)  # what was asked was answered; only the cleaning failed
        left = list(path.iterdir())
        self.assertEqual(len(left), 1)
        told = re.search(r"left behind: (.*) is still there.*: (rm -rf '.*')$", done.stderr, re.MULTILINE)
        self.assertTrue(told, done.stderr)
        self.assertEqual(told[1], str(left[0]))
        self.assertRegex(done.stderr, re.compile(rf"left behind: ranks 0, 1, 2 and 3: {left[0]}: EACCES$", re.MULTILINE))
        subprocess.run(["chmod", "-R", "u+w", path], check=True)
        subprocess.run(told[2], shell=True, check=True)
        self.assertEqual(list(path.iterdir()), [])

    def test_a_snapshot_that_cannot_be_written_names_what_is_left_behind(self):
        done, path = self.run_that_leaves_something("snapshot", out="/dev/null/snapshot")
        self.assertEqual(done.returncode, NOT_WRITTEN, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(f"left behind: {path}/.dlc-check-", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
