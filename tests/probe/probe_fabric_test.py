"""The fabric steps of dlc-probe, on ranks that really move bytes over libfabric."""

from ranks import *


def pairs(deadline_ms=30000, name="pairs", **more):
    return step("fabric-pairs", deadline_ms, name, **{"sizesBytes": [8, 4096], "iterations": 5,
                                                      "messages": 4, "window": 2, **more})


def collectives(deadline_ms=30000, name="collectives", **more):
    return step("fabric-collectives", deadline_ms, name,
                **{"collectives": ["all_reduce", "all_gather"], "sizesBytes": [4096],
                   "iterations": 2, **more})


def layout(**more):
    return step("fsdp-layout", 30000, **{"models": ["qwen2-tiny"], "layouts": ["hsdp"], **more})


class Fabric(unittest.TestCase):
    def value(self, rank, kind):
        result = rank.seen()[kind][0]
        self.assertEqual(result["seen"]["state"], "seen", result)
        return result["seen"]["value"]

    def test_ranks_of_any_number_measure_and_each_keeps_its_own_rows(self):
        for size in (1, 3, 4, 7):
            with self.subTest(size=size):
                ranks = run(size, plan([step("fabric-node"), pairs(), collectives()]))
                for rank in ranks:
                    self.assertEqual(rank.code, 0, rank.err)
                    node = self.value(rank, "fabricNode")
                    self.assertEqual(node["libfabric"]["state"], "seen")
                    seen = self.value(rank, "fabricPairs")
                    self.assertEqual(seen["library"], node["libfabric"]["value"])
                    self.assertRegex(seen["library"]["path"], r"^/.*libfabric\.so")
                    me, = seen["measured"]["ranks"]
                    self.assertEqual(me.get("rank", 0), rank.rank)
                    self.assertIn(me["provider"]["name"], [p["name"] for p in node["providers"]["value"]])
                    rows = seen["measured"].get("pairs", [])
                    self.assertEqual(sorted({(r.get("rankA", 0), r.get("rankB", 0)) for r in rows}),
                                     sorted(tuple(sorted((rank.rank, o))) for o in range(size) if o != rank.rank))
                    self.assertEqual(len(rows), 2 * (size - 1))
                    for row in rows:
                        self.assertTrue(row["sameMachine"])
                        self.assertGreater(row["latencySeconds"], 0)
                        self.assertNotIn("wrongAtA", row)
                        self.assertNotIn("wrongAtB", row)
                    table = self.value(rank, "fabricCollectives")["measured"]["collectives"]
                    self.assertEqual(len(table), 4)
                    self.assertFalse([r for r in table if any(r["wrong"])])

    def test_the_bytes_of_every_interface_are_read_before_and_after(self):
        ranks = run(2, plan([pairs(sizesBytes=[1 << 20], messages=8)]))
        seen = self.value(ranks[0], "fabricPairs")

        def total(when):
            return sum(i.get("receivedBytes", 0) for i in seen[when]["value"])
        self.assertIn("lo", [i["name"] for i in seen["interfacesBefore"]["value"]])
        # Over TCP on one host all of it passes an interface of the host.
        self.assertGreater(total("interfacesAfter") - total("interfacesBefore"), 8 << 20)

    def test_a_flipped_bit_is_counted_where_it_arrives_and_names_its_sender(self):
        faults = [{"rank": 1, "step": s, "kind": "flip-bit"} for s in ("pairs", "collectives")]
        for rank in run(3, plan([pairs(), collectives(collectives=["all_gather"])], faults)):
            for row in self.value(rank, "fabricPairs")["measured"]["pairs"]:
                a, b = row.get("rankA", 0), row.get("rankB", 0)
                self.assertEqual((row.get("wrongAtA", 0) > 0, row.get("wrongAtB", 0) > 0), (b == 1, a == 1))
            for row in self.value(rank, "fabricCollectives")["measured"]["collectives"]:
                self.assertEqual((row["wrong"], row["wrongFrom"]), ([1, 1, 1], [0, 3, 0]))

    def test_a_rank_that_leaves_or_hangs_is_named_by_the_others(self):
        for kind, code in (("exit", "exited"), ("sleep", "timed-out")):
            with self.subTest(kind=kind):
                ranks = run(3, plan([pairs(2500), step("meet")], [{"rank": 2, "step": "pairs", "kind": kind}]))
                for rank in ranks:
                    first = rank.seen()["fabricPairs"][0]
                    if rank.rank == 2:
                        self.assertEqual(first["end"]["how"], code)
                    else:
                        self.assertRegex(first["seen"]["error"]["message"], r"^rank 2\b")
                    self.assertEqual(rank.seen()["meet"][0]["seen"]["state"], "seen")

    def test_a_provider_that_is_not_there_is_told_by_name(self):
        for rank in run(2, plan([pairs(provider="no-such")])):
            error = rank.seen()["fabricPairs"][0]["seen"]["error"]
            self.assertIn("no libfabric provider no-such", error["message"])

    def test_shards_are_of_as_many_ranks_as_the_plan_says(self):
        for asked, found in ((2, (2, 2)), (4, (4, 1)), (1, (1, 4))):
            for rank in run(4, plan([layout(shardRanks=asked)])):
                proof, = self.value(rank, "fsdpLayout")["proofs"]
                self.assertEqual((proof["shardRanks"], proof["copies"]), found)
                self.assertNotIn("wrongElements", proof)
        for rank in run(4, plan([layout(shardRanks=3)])):
            self.assertIn("3 ranks do not divide the run's 4", rank.seen()["fsdpLayout"][0]["seen"]["error"]["message"])

    def test_parameters_out_of_range_are_refused_by_name(self):
        rows = [
            (pairs(sizesBytes=[]), "there is nothing to send"),
            (pairs(sizesBytes=[-1]), "$.sizesBytes: must be from 0 to"),
            (pairs(window=0), "$.window: must be from 1 to 1024, not 0"),
            (pairs(window=1024, sizesBytes=[1 << 30]), "more than 8 GiB"),
            (pairs(iterations=0), "$.iterations: must be from 1"),
            (pairs(messages=0), "$.messages: must be from 1"),
            (pairs(warmUp=-1), "$.warmUp: must be from 0"),
            (pairs(sizes=[1]), "unknown key 'sizes'"),
            (collectives(collectives=[]), "there is nothing to do"),
            (collectives(collectives=["allreduce"]), "there is no collective 'allreduce'"),
            (collectives(iterations=0), "$.iterations: must be from 1"),
            (step("fabric-node", what=1), "takes no parameters"),
            (layout(models=[]), "there is nothing to cut"),
            (layout(layouts=[]), "there is nothing to cut"),
            (layout(models=["llama"]), "there is no model 'llama'"),
            (layout(layouts=["fsdp3"]), "there is no layout 'fsdp3'"),
            (layout(shardRanks=-1), "must not be negative"),
        ]
        for one, message in rows:
            with self.subTest(message=message):
                rank, = run(1, plan([one]))
                self.assertEqual(rank.code, 2)
                self.assertIn(message, rank.err)


if __name__ == "__main__":
    unittest.main()
