"""perf/baselines: the peers compute what Varve's reference computes, and a wrong answer is not timed: baselines_test.py VARVE"""
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path[:0] = [str(PERF), str(PERF / "baselines")]
import numpy  # noqa: E402

import measure  # noqa: E402
import network as data  # noqa: E402
import own_turns  # noqa: E402
import peer_numpy  # noqa: E402
import peer_scipy  # noqa: E402
from peer import Peer, Unavailable  # noqa: E402

VARVE = sys.argv.pop()


class Answers(unittest.TestCase):
    """Peers on a network with biases of both signs, one with biases below zero, and each activation."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)
        self.asked = types.SimpleNamespace(varve=VARVE, threads=1, data=self.folder, seed=1, samples=None, check=1000)

    def varve(self, *words):
        subprocess.run([VARVE, *map(str, words)], check=True, capture_output=True)

    def generate(self, kind, *options):
        self.varve("generate", kind, *options, "--output", self.folder / "net.safetensors")
        width = data.read_network(self.folder / "net.safetensors")[0].weights.shape[1]
        self.varve("generate", "samples", "--neurons", width, "--samples", 40, "--output", self.folder / "samples.safetensors")
        return self.read()

    def read(self):
        network, samples = self.folder / "net.safetensors", self.folder / "samples.safetensors"
        truth = measure.reference_answer(self.asked, network, samples, 30)
        return data.read_network(network), data.read_samples(samples, 40), truth

    def expect_none_wrong(self, case):
        """Peers whose libraries are not here, or that cannot run the network, say so; none that runs may be wrong."""
        for kind in measure.load_peers():
            self.assertNotIn("wrong", self.enter(kind, *case) or "", kind.name)

    def enter(self, kind, layers, samples, truth):
        peer, reason = measure.enter(kind, self.asked, layers, samples, truth)
        self.assertEqual(peer is None, reason is not None)
        if peer:
            self.assertEqual(peer.result().shape, (40, truth.shape[1]))
        return reason

    def test_dense_peers_take_biases_of_both_signs_and_rectangular_layers(self):
        case = self.generate("random", "--widths", "30,50,20", "--density", 0.3)
        self.assertGreater(numpy.count_nonzero(case[2]), 0)
        for kind in (peer_scipy.DenseActivations, peer_numpy.Dense):
            self.assertIsNone(self.enter(kind, *case), kind.name)
        self.assertIn("bias above zero", self.enter(peer_scipy.SparseActivations, *case))
        self.expect_none_wrong(case)

    def test_sparse_activations_where_biases_are_below_zero(self):
        case = self.generate("radixnet", "--neurons", 64, "--layers", 5, "--bias", -0.02)
        self.assertGreater(numpy.count_nonzero(case[2]), 0)
        for kind in (peer_scipy.SparseActivations, peer_scipy.DenseActivations, peer_numpy.Dense):
            self.assertIsNone(self.enter(kind, *case), kind.name)
        self.expect_none_wrong(case)

    def test_every_activation(self):
        self.varve("generate", "random", "--widths", "12,12,12", "--density", 1, "--output", self.folder / "edges.safetensors")
        self.varve("generate", "samples", "--neurons", 12, "--samples", 40, "--density", 1, "--output", self.folder / "samples.safetensors")
        for options in ("relu", "clipped_relu,cap=0.5", "leaky_relu,slope=0.1", "sigmoid", "tanh", "identity"):
            self.varve("generate", "weights", "--network", self.folder / "edges.safetensors", "--init", "he", "--activation", options,
                       "--activation", "last=" + options.split(",")[0], "--output", self.folder / "net.safetensors")
            case = self.read()
            self.assertEqual([layer.activation for layer in case[0]], 2 * [options.split(",")[0]])
            for kind in (peer_scipy.DenseActivations, peer_numpy.Dense):
                self.assertIsNone(self.enter(kind, *case), (options, kind.name))
            self.expect_none_wrong(case)

    def test_a_wrong_answer_is_not_timed(self):
        case = self.generate("random", "--widths", "30,20", "--density", 0.3)

        class Wrong(peer_numpy.Dense):
            def result(self):
                answer = self.last.copy()
                answer[3] *= 1.01
                return answer
        self.assertIn("first is 4", self.enter(Wrong, *case))

    def test_differences_are_found(self):
        truth = numpy.array([[0.0, 2.0], [0.0, 0.0]])
        self.assertIsNone(measure.difference(truth + [[0.001, 0.001], [0, 0]], truth))
        self.assertIn("1 samples are live", measure.difference(truth + [[0, 0], [1e-9, 0]], truth))
        self.assertIn("not the reference's", measure.difference(truth + [[0.0, 0.003], [0, 0]], truth))
        self.assertIn("not finite", measure.difference(truth * numpy.nan, truth))
        self.assertIn("shape", measure.difference(truth[:1], truth))

    def test_a_peer_that_cannot_run_says_why(self):
        class Absent(Peer):
            def __init__(self, layers, threads):
                raise Unavailable("it is not here")
        self.assertEqual(self.enter(Absent, [], None, numpy.zeros((1, 1))), "it is not here")


class Command(unittest.TestCase):
    def test_the_table_names_winners_and_the_records_compare(self):
        with tempfile.TemporaryDirectory() as folder:
            records = pathlib.Path(folder) / "records.jsonl"
            done = subprocess.run([sys.executable, PERF / "baselines" / "measure.py", "--varve", VARVE, "--cases", "trained-256x12-0.6", "--samples", "3",
                                   "--threads", "1", "--repeats", "3", "--data", folder, "--records", records,
                                   "--page", pathlib.Path(folder) / "page.md"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("scipy, dense activations", done.stdout)
            self.assertRegex(done.stdout, r"scipy, sparse activations +- .*a bias above zero")
            self.assertRegex(done.stdout, r"Varve is fastest in \d of 1")
            lines = [json.loads(line) for line in records.read_text().splitlines()]
            self.assertGreaterEqual({line.get("peer") for line in lines}, {None, "scipy, dense activations", "numpy, dense (BLAS)"})
            self.assertIn("| trained-256x12-0.6 | 3 |", (pathlib.Path(folder) / "page.md").read_text())
            compared = subprocess.run([sys.executable, PERF / "compare.py", records, "--against", "varve none"], capture_output=True, text=True)
            self.assertEqual(compared.returncode, 0, compared.stderr)
            self.assertIn("| numpy, dense (BLAS) |", compared.stdout)


class Turns(unittest.TestCase):
    def test_short_runs_are_repeated_and_the_first_is_not_counted(self):
        class Sleeper:
            def __init__(self, seconds):
                self.seconds, self.runs = seconds, 0

            def run(self):
                self.runs += 1
                measure.time.sleep(self.seconds)
        short, long = Sleeper(0.03), Sleeper(0.15)
        times = measure.measure_in_turn(types.SimpleNamespace(repeats=2, seconds=60), [short, long])
        self.assertEqual((len(times[long]), long.runs), (2, 2))
        self.assertEqual(len(times[short]), short.runs - 2)
        self.assertGreaterEqual(len(times[short]), 2)


    def test_varve_is_measured_in_each_round_before_its_peers(self):
        log = []

        class Logger:
            def __init__(self, name):
                self.name = name

            def run(self):
                log.append(self.name)
                measure.time.sleep(measure.REST)

            def measure(self, seconds):
                log.append(("varve", seconds))
        measure.measure_in_turn(types.SimpleNamespace(repeats=2, seconds=60), [Logger("a"), Logger("b")], Logger("own"))
        self.assertEqual(log, 2 * [("varve", measure.REST), "a", "b"])

    def test_turns_of_varve_become_one_record_each(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            program = folder / "varve"
            program.write_text(f"""#!{sys.executable}
import json, pathlib, sys
log = pathlib.Path({str(folder / "log")!r})
log.open("a").write(" ".join(sys.argv) + "\\n")
number = len(log.read_text().splitlines())
lines = [dict(setup=dict(reductions=name), activation_hash="b" if number == 3 else "a", loop_seconds=dict(median=1), loop_seconds_all=[number],
              call_seconds_all=[10 * number], case="net.safetensors") for name in ("none", "auto")]
pathlib.Path(sys.argv[-1]).write_text("\\n".join(map(json.dumps, lines)))
""")
            program.chmod(0o700)
            turns = own_turns.OwnTurns(types.SimpleNamespace(varve=program, backend="serial", check=20), "net.safetensors", "s.safetensors", 30, "case")
            turns.measure(0.5)
            turns.measure(0.5)
            self.assertEqual([record["setup"]["reductions"] for record in turns.records], ["none", "auto"])
            for record in turns.records:
                self.assertEqual((record["loop_seconds_all"], record["call_seconds_all"], record["case"]), ([1, 2], [10, 20], "case"))
                self.assertNotIn("loop_seconds", record)
            first, second = (folder / "log").read_text().splitlines()
            self.assertIn("--check 20 ", first)
            self.assertIn("--check 1 ", second)
            with self.assertRaisesRegex(SystemExit, "case: two runs of varve have the activations a and b"):
                turns.measure(0.5)


class Page(unittest.TestCase):
    def fields(self, case, contender, seconds):
        own = contender.startswith("varve ")
        work = {"reductions": contender.split()[1]} if own else {}
        more = {"activation_hash": "a", "git_commit": "c0ffee"} if own else {"peer": contender, "peer_version": "1.5"}
        return {"record": "inference", "record_version": 1, "case": case, "samples": 3, "date": "2026-01-02T03", "machine": {"processor": {"model": "Abacus"}, "host": "h"},
                "setup": {"backend": "openmp" if own else "library", "device": "2 threads", "precision": "float", **work},
                "check": {"right": True, "way": "w", "samples": 3}, "loop_seconds_all": [seconds] * 3, **more}

    def written(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            records, output = pathlib.Path(folder) / "records", pathlib.Path(folder) / "page.md"
            records.write_text("".join(json.dumps(self.fields(*line)) + "\n" for line in lines))
            done = subprocess.run([sys.executable, PERF / "baselines" / "page.py", records, "--output", output], capture_output=True, text=True)
            return done, output.read_text() if output.exists() else ""

    def test_wins_and_losses_are_told_alike(self):
        done, text = self.written(("won", "varve none", 0.004), ("won", "varve auto", 0.002), ("won", "scipy, dense", 0.006), ("won", "numpy", 0.008),
                                  ("lost", "varve none", 0.004), ("lost", "varve auto", 0.9), ("lost", "numpy", 0.001), ("lost", "varve auto", 0.004))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Varve is fastest in 1 of 2, another library in 1.", text)
        self.assertIn("| won | 3 | varve auto | 2 | 4 | scipy, dense | 6 | 3 (3 to 3) | 1.5 (1.5 to 1.5) |", text)
        self.assertIn("| lost | 3 | numpy | 4 | 4 | numpy | 1 | 0.25 (0.25 to 0.25) | 0.25 (0.25 to 0.25) |", text)
        self.assertIn("| scipy, dense | 6 | - |", text)
        self.assertIn("Varve of commit c0ffee, Abacus, openmp, 2 threads.", text)
        self.assertIn("Libraries: scipy 1.5, numpy 1.5.", text)

    def test_peers_without_varve_are_refused_in_a_sentence(self):
        done, text = self.written(("won", "numpy", 0.004))
        self.assertEqual((done.returncode, text), (1, ""))
        self.assertIn("found no record of Varve on Abacus", done.stderr)


class Contenders(unittest.TestCase):
    """cuSPARSE and cuBLAS, by a program in place of varve_contender, which needs a GPU."""

    REPORT = {"records": [{"contender": "cusparse-samples-2", "samples": 3, "loop_seconds": 0.5, "loop_seconds_all": [0.5], "largest_difference": 1e-6},
                          {"contender": "cusparse-neurons-1", "samples": 3, "loop_seconds": 0.25, "loop_seconds_all": [0.25, 0.25], "largest_difference": 2e-6},
                          {"contender": "cublas-samples", "failed": "the weights do not fit"}]}
    OWN = {"host": "h", "date": "d", "record": "inference", "record_version": 1, "case": "c", "machine": {}, "network": {}, "samples": 3,
           "setup": {"backend": "cuda", "device": "GPU", "precision": "float", "reductions": "auto"}}

    def test_the_fastest_of_each_library_counts_and_failures_say_why(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "contender"
            program.write_text(f"#!{sys.executable}\nimport pathlib, sys\npathlib.Path(sys.argv[-1]).write_text({json.dumps(self.REPORT)!r})\n")
            program.chmod(0o700)
            asked = types.SimpleNamespace(contender=program, repeats=3, check=10)
            (record,), refused = measure.contender_records(asked, self.OWN, "net.safetensors", "samples.safetensors", 3)
        self.assertEqual((record["peer"], record["loop_seconds_all"]), ("cusparse-neurons-1", [0.25, 0.25]))
        self.assertEqual((record["setup"]["backend"], record["check"]["samples"]), ("cuda", 3))
        self.assertEqual(refused, [("cublas", "the weights do not fit")])

    def test_none_is_asked_for(self):
        self.assertEqual(measure.contender_records(types.SimpleNamespace(contender=None), self.OWN, "", "", 3), ([], []))


if __name__ == "__main__":
    unittest.main()
