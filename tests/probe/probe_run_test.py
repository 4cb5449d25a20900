"""dlc-probe as ranks of real runs: what they see, and what each planted fault does to them."""

import re

from ranks import *


class Run(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlc-probe-test-")
        self.other = tempfile.mkdtemp(prefix="dlc-probe-test-")
        self.addCleanup(self.no_files)

    def no_files(self):
        """Whatever a test did, the run leaves nothing in the shared directory."""
        for directory in (self.dir, self.other):
            left = os.listdir(directory)
            if left and directory == self.dir:
                self.fail(f"left behind: {left}")
            for name in left:
                subprocess.run(["rm", "-rf", os.path.join(directory, name)], check=True)
            os.rmdir(directory)

    def shared(self, deadline_ms=20000, visible=5000, **more):
        return step("storage-shared", deadline_ms, path=self.dir, visibleWithinMs=visible, **more)

    def result(self, rank, kind, of=None):
        return rank.seen(of)[kind][0]

    def error(self, rank, kind):
        seen = self.result(rank, kind)["seen"]
        self.assertEqual(seen["state"], "error", seen)
        return seen["error"]["message"]

    def test_every_rank_sees_every_other(self):
        for size in (1, 2, 4, 7):
            with self.subTest(size=size):
                ranks = run(size, plan([step("meet"), self.shared()]))
                for rank in ranks:
                    self.assertEqual(rank.code, 0, rank.err)
                    self.assertEqual(rank.err, "")
                    self.assertEqual(len(self.result(rank, "meet")["seen"]["value"]["hosts"]), size)
                    shared = self.result(rank, "storageShared")["seen"]["value"]
                    self.assertFalse([o for o in shared["operations"] if "error" in o])
                    peers = shared.get("peers")["value"]
                    self.assertEqual([p.get("rank", 0) for p in peers],
                                     [r for r in range(size) if r != rank.rank])
                    for peer in peers:
                        self.assertEqual((peer["state"], peer["exclusiveCreate"]),
                                         ("same", "refused"))
                    self.assertNotIn("leftovers", shared)
                    self.assertEqual(rank.events[0]["event"], "joined")

    def test_rank_0_gathers_all_documents_when_the_plan_says_so(self):
        ranks = run(3, plan([step("meet")], gather=True))
        self.assertEqual([r.get("rank", 0) for r in ranks[0].document["ranks"]], [0, 1, 2])
        self.assertEqual(ranks[0].seen(2)["facts"]["rank"], 2)
        self.assertEqual(len(ranks[1].document["ranks"]), 1)

    def test_a_crash_costs_one_step_and_names_the_rank(self):
        for kind, how, text in (("crash", "killed", "SIGSEGV"), ("kill", "killed", "SIGKILL"),
                                ("exit", "exited", "exited with code 1")):
            with self.subTest(kind=kind):
                fault = {"rank": 2, "step": "first", "kind": kind}
                ranks = run(3, plan([step("meet", name="first"), step("meet", name="second")],
                                    [fault]))
                for rank in ranks:
                    self.assertEqual(rank.code, 0)
                    first, second = rank.seen()["meet"]
                    self.assertEqual(second["seen"]["state"], "seen")
                    message = first["seen"]["error"]["message"]
                    if rank.rank == 2:
                        self.assertEqual(first["end"]["how"], how)
                        self.assertIn(text, message)
                        self.assertIn("planted fault: " + kind, message)
                    else:
                        self.assertRegex(message, r"^rank 2 on \S+ was lost \(first\)$")
                    self.assertEqual(rank.seen()["plantedFaults"], [fault])

    def test_a_hang_costs_one_step_and_names_the_rank(self):
        ranks = run(3, plan([step("meet", 2000, name="first"), step("meet", name="second")],
                            [{"rank": 1, "step": "first", "kind": "sleep"}]))
        for rank in ranks:
            first, second = rank.seen()["meet"]
            self.assertEqual(second["seen"]["state"], "seen")
            message = first["seen"]["error"]["message"]
            if rank.rank == 1:
                self.assertEqual(first["end"]["how"], "timed-out")
            else:
                self.assertRegex(message, r"^rank 1 of 3 on \S+ did not come to all-gather 0 of "
                                          r"first in time$")

    def test_a_lost_rank_is_named_and_the_others_go_on(self):
        ranks = run(3, plan([self.shared(name="first"), step("checkpoint-tree", path=self.other)],
                            [{"rank": 2, "step": "first", "kind": "exit-rank"}], gather=True))
        self.assertEqual([rank.code for rank in ranks], [0, 0, -9])
        self.assertIsNone(ranks[2].document)
        for rank in ranks[:2]:
            shared = self.result(rank, "storageShared")["seen"]["value"]
            self.assertRegex(shared["peers"]["error"]["message"], r"^rank 2 on \S+ was lost")
            self.assertEqual(self.result(rank, "checkpointTree")["seen"]["state"], "seen")
        lost = ranks[0].document["ranks"][2]["seen"]
        self.assertRegex(lost["error"]["message"],
                         r"^rank 2 on \S+ was lost before it gave its document$")

    def test_the_loss_of_rank_0_ends_the_others_in_time(self):
        ranks = run(3, plan([step("meet", name="first"), step("meet", name="second")],
                            [{"rank": 0, "step": "first", "kind": "exit-rank"}]))
        for rank in ranks[1:]:
            for result in rank.seen()["meet"]:
                self.assertRegex(result["seen"]["error"]["message"], "rank 0")

    def test_a_rank_with_a_wrong_secret_is_named_on_every_rank(self):
        ranks = run(3, plan([step("meet")], [{"rank": 1, "kind": "wrong-secret"}], join_ms=2500))
        for rank in ranks:
            self.assertEqual(rank.code, 3)
            message = rank.seen()["rendezvous"]["error"]["message"]
            self.assertEqual(self.error(rank, "meet"), message)
            if rank.rank == 1:
                self.assertIn("does not know our secret", message)
            else:
                self.assertRegex(message, r"^rank 1 of 3 never arrived; a peer from \S+ did not "
                                          r"know the secret$")

    def test_a_rank_that_never_arrives_is_named(self):
        for kind in ("never-arrive", "exit"):
            with self.subTest(kind=kind):
                ranks = run(2, plan([step("meet"), step("checkpoint-tree", path=self.dir)],
                                    [{"rank": 1, "kind": kind}], join_ms=1500))
                self.assertEqual(ranks[0].code, 3)
                self.assertEqual(self.error(ranks[0], "meet"), "rank 1 of 2 never arrived")
                # What needs nobody else is seen nevertheless.
                self.assertEqual(self.result(ranks[0], "checkpointTree")["seen"]["state"], "seen")

    def test_a_flipped_bit_is_seen_by_the_others(self):
        ranks = run(3, plan([self.shared(visible=300)],
                            [{"rank": 0, "step": "storage-shared", "kind": "flip-bit"}]))
        for rank in ranks[1:]:
            peers = self.result(rank, "storageShared")["seen"]["value"]["peers"]["value"]
            self.assertEqual([p["state"] for p in peers], ["different", "same"])

    def test_another_directory_at_the_path_is_seen(self):
        ranks = run(3, plan([self.shared(visible=300)],
                            [{"rank": 1, "step": "storage-shared", "kind": "other-directory",
                              "path": self.other}]))
        shared = [self.result(rank, "storageShared")["seen"] for rank in ranks]
        if shared[1]["state"] == "error" and "cannot plant" in shared[1]["error"]["message"]:
            self.skipTest(shared[1]["error"]["message"])
        states = [[p["state"] for p in s["value"]["peers"]["value"]] for s in shared]
        self.assertEqual(states, [["absent", "same"], ["absent", "absent"], ["same", "absent"]])
        self.assertEqual(shared[1]["value"]["mount"]["value"]["mountPoint"], self.dir)
        self.assertEqual(os.listdir(self.other), [])

    def test_different_plans_are_told(self):
        one, two = plan([step("meet")]), plan([step("meet", name="else")])
        for rank in run(2, lambda r: one if r == 0 else two):
            self.assertEqual(rank.code, 3)
            self.assertEqual(self.error(rank, "meet"),
                             "rank 1 has another plan or another dlc-probe than rank 0")

    def test_leashed_it_cleans_up_when_its_parent_is_killed(self):
        """Ray's workers kill their children: those get no chance, and these must."""
        marker = secrets.token_hex(8)
        processes = start(2, plan([self.shared(60000, name="first")], [{"rank": 1, "step": "first", "kind": "sleep"}]),
                          env={"DLC_TEST": marker}, flags=["--leashed"])
        line = ""
        while "waiting for the other ranks' files" not in line:
            line = processes[0].stdout.readline()
            self.assertTrue(line, "rank 0 ended before it waited")
        self.assertTrue(os.listdir(self.dir))
        # One after the other: a rank that sees the other one gone first ends as it should, and is not interrupted.
        processes[0].kill()
        out, _ = processes[0].communicate(timeout=PLENTY)  # until the rank itself has ended, which holds the other end
        self.assertEqual(processes[0].returncode, -signal.SIGKILL)
        self.assertTrue(json.loads(out.splitlines()[-1])["ranks"][0]["seen"]["value"]["interrupted"])
        processes[1].kill()
        processes[1].communicate(timeout=PLENTY)
        self.assertEqual(leftover_processes(marker), [])
        self.assertEqual(os.listdir(self.dir), [])

    def test_leashed_it_passes_on_signals_and_how_it_ended(self):
        for fault, code in (("kill", 0), ("exit-rank", None)):
            ranks = start(1, plan([step("meet")], [{"rank": 0, "step": "meet", "kind": fault}]), flags=["--leashed"])
            ranks[0].communicate(timeout=PLENTY)
            alone = start(1, plan([step("meet")], [{"rank": 0, "step": "meet", "kind": fault}]))
            alone[0].communicate(timeout=PLENTY)
            expected = alone[0].returncode if alone[0].returncode >= 0 else 128 - alone[0].returncode
            self.assertEqual(ranks[0].returncode, expected, fault)
        processes = start(1, plan([self.shared(60000, name="first")], [{"rank": 0, "step": "first", "kind": "sleep"}]), flags=["--leashed"])
        line = ""
        while "planted fault" not in line:
            line = processes[0].stdout.readline()
            self.assertTrue(line, "the rank ended before it slept")
        processes[0].terminate()
        out, _ = processes[0].communicate(timeout=PLENTY)
        self.assertEqual(processes[0].returncode, 128 + signal.SIGTERM)
        self.assertTrue(json.loads(out.splitlines()[-1])["ranks"][0]["seen"]["value"]["interrupted"])

    def test_a_signal_stops_cleans_up_and_still_writes(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                marker = secrets.token_hex(8)
                processes = start(2, plan([self.shared(60000, name="first"), step("meet")],
                                          [{"rank": 1, "step": "first", "kind": "sleep"}]),
                                  env={"DLC_TEST": marker})
                # Rank 0 is in the middle: it waits for the file of rank 1.
                line = ""
                while "waiting for the other ranks' files" not in line:
                    line = processes[0].stdout.readline()
                    self.assertTrue(line, "rank 0 ended before it waited")
                self.assertTrue(os.listdir(self.dir))
                for process in processes.values():
                    process.send_signal(number)
                for process in processes.values():
                    out, _ = process.communicate(timeout=PLENTY)
                    self.assertEqual(process.returncode, 128 + number)
                    document = json.loads(out.splitlines()[-1])
                    seen = document["ranks"][0]["seen"]["value"]
                    self.assertTrue(seen["interrupted"])
                    self.assertEqual(seen["storageShared"][0]["end"]["how"], "interrupted")
                    self.assertNotIn("meet", seen)
                self.assertEqual(leftover_processes(marker), [])
                self.assertEqual(os.listdir(self.dir), [])

    def test_the_secret_is_nowhere_to_be_seen(self):
        secret = secrets.token_hex(16)
        processes = start(2, plan([step("meet")], [{"rank": 1, "step": "meet", "kind": "crash"}]),
                          secret=secret)
        for process in processes.values():
            with open(f"/proc/{process.pid}/cmdline", "rb") as arguments:
                self.assertNotIn(secret.encode(), arguments.read())
        for rank in finish(processes):
            self.assertEqual(rank.code, 0)
            self.assertEqual(rank.seen()["rendezvous"]["state"], "seen")  # it was used
            self.assertNotIn(secret, rank.out + rank.err)

    def test_usage_and_plan_errors_name_what_is_wrong(self):
        good = plan([step("meet")])
        rows = [
            (b"not json", "dlc-probe: "),
            (dict(good, apiVersion="dlc-check/rank-plan/v2"), "apiVersion is not"),
            (dict(good, surprise=1), "unknown key 'surprise'"),
            (dict(good, steps=[]), "no step"),
            (dict(good, runId="../../etc"), "$.runId: expected 16 hex digits"),
            (dict(good, steps=[step("no-such")]), "no steps of kind 'no-such'"),
            (dict(good, steps=[step("meet"), step("meet")]), "two steps are named 'meet'"),
            (dict(good, steps=[step("meet", 0)]), "positive deadlineMs"),
            (dict(good, steps=[step("meet", what=1)]), "takes no parameters"),
            (dict(good, steps=[step("storage-shared", path=self.dir, visble=1)]),
             "unknown key 'visble'"),
            (dict(good, faults=[{"kind": "nonsense"}]), "unknown fault 'nonsense'"),
        ]
        for document, message in rows:
            with self.subTest(message=message):
                rank = run(1, document)[0]
                self.assertEqual(rank.code, 2)
                self.assertIn(message, rank.err)
                self.assertIsNone(rank.document)
        bare = subprocess.run([probe(), "run", "--plan", "-"], input=json.dumps(good), text=True,
                              capture_output=True, timeout=PLENTY, env={})
        self.assertEqual(bare.returncode, 2)
        self.assertIn("WORLD_SIZE is not set\nhint: ", bare.stderr)
        missing = subprocess.run([probe(), "run", "--plan", "/no/such/plan"], text=True,
                                 capture_output=True, timeout=PLENTY)
        self.assertEqual(missing.returncode, 2)
        self.assertIn("cannot read plan '/no/such/plan'", missing.stderr)

    def test_version(self):
        done = subprocess.run([probe(), "--version"], text=True, capture_output=True, timeout=PLENTY)
        self.assertRegex(done.stdout, r"^dlc-probe \d+\.\d+\.\d+\nwith(out)? CUDA\b.*\n$")


if __name__ == "__main__":
    unittest.main()
