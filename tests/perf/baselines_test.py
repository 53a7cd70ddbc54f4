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
        self.varve("generate", kind, *options, "--output", self.folder / "net.h5")
        width = data.read_network(self.folder / "net.h5")[0].weights.shape[1]
        self.varve("generate", "samples", "--neurons", width, "--samples", 40, "--output", self.folder / "samples.h5")
        return self.read()

    def read(self):
        network, samples = self.folder / "net.h5", self.folder / "samples.h5"
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
        source = numpy.random.default_rng(5)
        weights = source.uniform(-1, 1, (12, 12)).astype(numpy.float32)
        (self.folder / "layers").mkdir()
        for name in ("a.npy", "b.npy"):
            numpy.save(self.folder / "layers" / name, weights)
        numpy.save(self.folder / "samples.npy", source.uniform(0, 1, (40, 12)).astype(numpy.float32))
        self.varve("convert", self.folder / "samples.npy", self.folder / "samples.h5")
        for options in (["relu"], ["clipped_relu", "--cap", 0.5], ["leaky_relu", "--slope", 0.1], ["sigmoid"], ["tanh"], ["identity"]):
            self.varve("convert", self.folder / "layers", self.folder / "net.h5", "--activation", *options)
            case = self.read()
            self.assertEqual(case[0][0].activation, options[0])
            self.assertTrue((case[0][0].weights.toarray() == weights).all())
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
                                   "--threads", "1", "--repeats", "3", "--data", folder, "--records", records], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("scipy, dense activations", done.stdout)
            self.assertRegex(done.stdout, r"scipy, sparse activations +- .*a bias above zero")
            self.assertRegex(done.stdout, r"Varve is fastest in \d of 1")
            lines = [json.loads(line) for line in records.read_text().splitlines()]
            self.assertGreaterEqual({line.get("peer") for line in lines}, {None, "scipy, dense activations", "numpy, dense (BLAS)"})
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
            (record,), refused = measure.contender_records(asked, self.OWN, "net.h5", "samples.h5", 3)
        self.assertEqual((record["peer"], record["loop_seconds_all"]), ("cusparse-neurons-1", [0.25, 0.25]))
        self.assertEqual((record["setup"]["backend"], record["check"]["samples"]), ("cuda", 3))
        self.assertEqual(refused, [("cublas", "the weights do not fit")])

    def test_none_is_asked_for(self):
        self.assertEqual(measure.contender_records(types.SimpleNamespace(contender=None), self.OWN, "", "", 3), ([], []))


if __name__ == "__main__":
    unittest.main()
