"""perf/compare.py reads what varve benchmark writes, estimates honestly, and refuses what cannot be compared: compare_test.py VARVE"""
import copy
import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))
import divergence  # noqa: E402
import estimates  # noqa: E402
import figures  # noqa: E402
import machines  # noqa: E402
import records  # noqa: E402

VARVE = sys.argv.pop()


def fields_of(case="net", seconds=(1.0, 1.0, 1.0), machine="CPU A", device="2 threads", commit="aaa", date="2026-01-01",
              work="auto", answer="00ff", peer=None, backend="openmp", machine_more=None, **more):
    fields = {"record": "inference", "record_version": 1, "case": case, "samples": 10, "git_commit": commit, "date": date,
              "machine": {"processor": {"model": machine, **(machine_more or {})}, "gpu": None, "host": "h"},
              "setup": {"backend": backend, "device": device, "precision": "float", "reductions": work},
              "check": {"right": True, "way": "the reference's bits", "samples": 10}, "activation_hash": answer,
              "loop_seconds_all": list(seconds), "call_seconds_all": [2 * second for second in seconds], **more}
    if peer:
        fields["peer"] = peer
    return fields


def record_of(**fields):
    return records.Record(fields_of(**fields), "here")


def compare(*arguments):
    return subprocess.run([sys.executable, PERF / "compare.py", *map(str, arguments)], capture_output=True, text=True)


class Folder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def file(self, name, *lines):
        path = self.folder / name
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path


class Estimates(unittest.TestCase):
    def test_an_interval_holds_the_true_ratio_and_narrows(self):
        source = random.Random(3)
        def noisy(mean, count):
            return [source.gauss(mean, 0.1 * mean) for _ in range(count)]
        few = estimates.ratio_interval(noisy(3.0, 10), noisy(1.0, 10))
        many = estimates.ratio_interval(noisy(3.0, 400), noisy(1.0, 400))
        for ratio, low, high in (few, many):
            self.assertLess(low, ratio)
            self.assertLess(ratio, high)
            self.assertTrue(low < 3.0 < high, (low, high))
        self.assertLess(many[2] - many[1], few[2] - few[1])

    def test_runs_without_noise_have_a_narrow_interval(self):
        self.assertEqual(estimates.ratio_interval([2.0] * 5, [1.0] * 5), (2.0, 2.0, 2.0))

    def test_slower_is_beyond_the_interval_and_two_per_cent(self):
        self.assertTrue(estimates.is_slower(0.8, 0.7, 0.9))
        self.assertFalse(estimates.is_slower(0.8, 0.7, 1.1))
        self.assertFalse(estimates.is_slower(0.985, 0.984, 0.986))
        self.assertFalse(estimates.is_slower(1.2, 1.1, 1.3))

    def test_portability_is_the_harmonic_mean_or_zero(self):
        self.assertAlmostEqual(estimates.portability([1.0, 0.5]), 2 / 3)
        self.assertAlmostEqual(estimates.portability([0.25]), 0.25)
        self.assertEqual(estimates.portability([1.0, None]), 0.0)
        self.assertEqual(estimates.portability([]), 0.0)

    def test_portabilities_are_against_the_best_known_on_each_machine(self):
        found = estimates.portabilities([
            record_of(machine="A", seconds=[1.0]), record_of(machine="A", seconds=[4.0], work="none"),
            record_of(machine="B", seconds=[2.0]), record_of(machine="B", seconds=[1.0], peer="other"),
            record_of(machine="B", seconds=[2.0], work="none")])
        problem = record_of().problem()
        self.assertEqual(found[problem, "varve auto"], ({"A": (1.0, None), "B": (0.5, None)}, estimates.portability([1.0, 0.5])))
        self.assertEqual(found[problem, "varve none"][0], {"A": (0.25, None), "B": (0.5, None)})
        self.assertEqual(found[problem, "other"], ({"A": (None, None), "B": (1.0, None)}, 0.0))

    def test_the_share_of_the_roofline_is_what_bounds_each_step(self):
        ceilings = {"copy_bytes_per_second": 1.0, "fma_per_second": 10.0}
        steps = [{"fma": 20.0, "least_bytes": 1.0, "seconds": 4.0}, {"fma": 1.0, "least_bytes": 3.0, "seconds": 6.0}]  # 2 s by fma, 3 s by bytes
        self.assertAlmostEqual(estimates.roofline_share(record_of(steps=steps, ceilings=ceilings)), 0.5)
        self.assertIsNone(estimates.roofline_share(record_of()))

    def test_changes_join_commits_by_date_on_one_platform_only(self):
        old = record_of(commit="old", date="2026-01-01", seconds=[1.0] * 5)
        new = record_of(commit="new", date="2026-01-02", seconds=[2.0] * 5)
        elsewhere = record_of(commit="new", date="2026-01-02", machine="B", seconds=[9.0] * 5)
        (before, after, interval), = estimates.changes([new, elsewhere, old])
        self.assertIs(before, old)
        self.assertIs(after, new)
        self.assertEqual(interval, (0.5, 0.5, 0.5))


class Machines(unittest.TestCase):
    def named(self, *traits):
        """The names of machines of one marketing name, after each other; a trait None is one that the record lacks."""
        all_records = []
        for family, sets, cores in traits:
            one = record_of(machine="Abacus")
            processor = one.fields["machine"]["processor"]
            processor |= {} if family is None else {"family_number": family, "model_number": "1"}
            processor |= {} if sets is None else {"instruction_sets": sets.split()}
            processor |= {} if cores is None else {"topology": {"cores": cores}}
            all_records.append(records.Record(one.fields, "here"))
        machines.tell_machines_apart(all_records)
        return [record.machine for record in all_records]

    def test_one_machine_keeps_its_name(self):
        self.assertEqual(self.named(("25", "avx avx2", 2), ("25", "avx avx2", 2), (None, None, 2), (None, None, None)), ["Abacus"] * 4)

    def test_family_instruction_sets_and_cores_tell_machines_apart(self):
        self.assertEqual(self.named(("25", "avx avx2", 2), ("26", "avx avx2 avx512f", 2)),
                         ["Abacus (family 25, without avx512f)", "Abacus (family 26, avx512f)"])
        self.assertEqual(self.named((None, None, 2), (None, None, 16)), ["Abacus (2 cores)", "Abacus (16 cores)"])
        self.assertEqual(self.named(("25", "avx", 1), ("25", "avx", 2), ("25", None, None)),
                         ["Abacus (1 core)", "Abacus (2 cores)", "Abacus (unknown cores)"])

    def test_a_record_of_an_earlier_version_is_of_the_only_machine_that_agrees(self):
        self.assertEqual(self.named((None, None, 2), ("25", "avx", 2), ("25", "avx", 16)),
                         ["Abacus (2 cores)", "Abacus (2 cores)", "Abacus (16 cores)"])


class Divergence(Folder):
    TEXT = """// a comment
int all; /* of
two lines */
#if defined(KOKKOS_ENABLE_CUDA) && \\
    !defined(__CUDA_ARCH__)
int on_host_of_cuda;
#elif __CUDA_ARCH__ >= 900
int on_hopper;
#else
int others;
#endif
#ifdef OTHER
int other;
#else
int without_other;
#endif
"""

    def lines(self, *defined):
        return sorted(divergence.compiled_lines(self.path, defined))

    def test_lines_are_those_that_the_preprocessor_leaves(self):
        self.path = self.folder / "code.hpp"
        self.path.write_text(self.TEXT)
        self.assertEqual(self.lines("KOKKOS_ENABLE_CUDA"), [2, 6, 13, 15])
        self.assertEqual(self.lines("KOKKOS_ENABLE_CUDA", "__CUDA_ARCH__=900"), [2, 8, 13, 15])
        self.assertEqual(self.lines("KOKKOS_ENABLE_CUDA", "__CUDA_ARCH__=800"), [2, 10, 13, 15])
        self.assertEqual(self.lines("KOKKOS_ENABLE_HIP"), [2, 10, 13, 15])

    def test_distances_are_parts_of_all_lines_of_a_pair(self):
        distances, mean = divergence.divergence({"a": {"f": {1, 2, 3}}, "b": {"f": {1, 2}, "g": {1}}, "c": {"f": {1, 2, 3}}})
        self.assertEqual(distances, {("a", "b"): 0.5, ("a", "c"): 0.0, ("b", "c"): 0.5})
        self.assertAlmostEqual(mean, 1 / 3)


class Figures(unittest.TestCase):
    def test_scaling_needs_two_numbers_of_threads(self):
        four = record_of(device="4 threads", seconds=[0.5])
        one = record_of(device="1 thread", seconds=[1.5])
        self.assertEqual(figures.scaling_series([four]), {})
        (points,) = figures.scaling_series([four, one]).values()
        self.assertEqual(points, [(1, 1.5), (4, 0.5)])

    def test_rooflines_sum_the_steps(self):
        step = {"fma": 10.0, "least_bytes": 4.0, "seconds": 2.0}
        record = record_of(steps=[step, step], ceilings={"copy_bytes_per_second": 1.0, "fma_per_second": 2.0})
        ((_, points),) = figures.roofline_points([record, record_of()]).values()
        self.assertEqual(points[0][:2], (2.5, 5.0))


class Command(Folder):
    def test_tables_of_two_machines(self):
        one = self.file("one.jsonl", fields_of(seconds=[1.0] * 4))
        two = self.file("two.jsonl", "", fields_of(seconds=[0.25] * 4, machine="CPU B"))
        done = compare(one, two, "--output", self.folder / "out", "--no-pictures")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 4 (4 to 4) |", done.stdout)
        self.assertIn("CPU A: 100 % (-); CPU B: 100 % (-)", done.stdout)
        self.assertEqual((self.folder / "out" / "comparison.md").read_text(), done.stdout)
        first, second = csv.DictReader((self.folder / "out" / "comparison.csv").open())
        self.assertEqual((first["speedup"], second["speedup"]), ("1.0", "4.0"))
        self.assertEqual(second["call_p99_milliseconds"], "500.0")

    def test_speedups_are_over_the_named_contender_on_the_same_machine(self):
        path = self.file("all", fields_of(seconds=[8.0] * 3), fields_of(seconds=[6.0] * 3, work="none", answer="1"),
                         fields_of(seconds=[1.0] * 3, machine="B"), fields_of(seconds=[2.0] * 3, machine="B", work="none", answer="1"),
                         fields_of(seconds=[3.0] * 3, machine="C"))
        done = compare(path, "--against", "varve none", "--output", self.folder / "out", "--no-pictures")
        self.assertEqual(done.returncode, 0, done.stderr)
        speedups = [float(row["speedup"]) for row in csv.DictReader((self.folder / "out" / "comparison.csv").open())]
        self.assertEqual(speedups, [0.75, 1.0, 2.0, 1.0, 2.0])

    def test_regressions_end_with_1_if_asked(self):
        old = self.file("old.jsonl", fields_of(seconds=[1.0] * 5, commit="old"))
        new = self.file("new.jsonl", fields_of(seconds=[1.5] * 5, commit="new", date="2026-02-01"))
        self.assertEqual(compare(old, new).returncode, 0)
        done = compare(old, new, "--fail-on-regression")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("| slower |", done.stdout)
        done = compare(new, self.file("newer.jsonl", fields_of(seconds=[1.0] * 5, commit="newer", date="2026-03-01")), "--fail-on-regression")
        self.assertEqual(done.returncode, 0)
        self.assertIn("| faster |", done.stdout)

    def test_times_of_a_busy_machine_are_in_doubt_and_no_regression(self):
        def busy(load, **more):
            fields = fields_of(machine_more={"units_allowed": 2}, **more)
            fields["machine"]["system"] = {"load_average_1_minute": load}
            return fields
        slow = dict(seconds=[1.5] * 5, commit="new", date="2026-02-01")
        old = self.file("old.jsonl", busy(1.9, seconds=[1.0] * 5, commit="old"))
        for name, new, why in [("load", busy(2.1, **slow), "the load was 2.1 on 2 processors"),
                               ("spread", busy(0.1, **slow | dict(seconds=[1.5, 1.5, 1.6, 3.0, 4.0])), "the middle half of its times varies by 94 %")]:
            done = compare(old, self.file(name, new), "--fail-on-regression")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("| in doubt |", done.stdout)
            self.assertNotIn("slower", done.stdout)
            self.assertIn(f"| new | {why} |", done.stdout)
        done = compare(old, self.file("quiet", busy(2.0, **slow)), "--fail-on-regression")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("doubt", done.stdout)
        on_gpu = busy(10.3, **slow | dict(backend="cuda"))  # whose times do not hang on processors
        self.assertEqual(records.Record(on_gpu, "here").doubts(), [])

    def test_tables_for_p3_analysis(self):
        step = {"fma": 10.0, "least_bytes": 0.0, "seconds": 2.0}
        path = self.file("all", fields_of(seconds=[1.0, 3.0, 2.0], steps=[step], ceilings={"copy_bytes_per_second": 1.0, "fma_per_second": 10.0}),
                         fields_of(seconds=[4.0], peer="scipy"), fields_of(seconds=[3.0], machine="B", backend="cuda"))
        done = compare(path, "--p3", self.folder / "p3", "--divergence")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("their mean, the code divergence, is ", done.stdout)
        rows = list(csv.DictReader((self.folder / "p3" / "performance.csv").open()))
        self.assertEqual([[row[name] for name in ("problem", "application", "platform", "fom", "arch eff", "coverage_key")] for row in rows],
                         [["net, 10, float", "varve auto", "CPU A", "2.0", "0.5", "openmp"], ["net, 10, float", "scipy", "CPU A", "4.0", "", ""],
                          ["net, 10, float", "varve auto", "B", "3.0", "", "cuda"]])
        csv.field_size_limit(1 << 24)
        coverage = {row["coverage_key"]: json.loads(row["coverage"]) for row in csv.DictReader((self.folder / "p3" / "coverage.csv").open())}
        self.assertEqual(list(coverage), ["openmp", "cuda", "hip"])
        used = {backend: {file["file"] for file in files if file["used_lines"]} for backend, files in coverage.items()}
        self.assertIn("src/kernels/tuning/cuda.hpp", used["cuda"] - used["openmp"] - used["hip"])
        self.assertGreater(len(used["openmp"] & used["cuda"] & used["hip"]), 200)

    def test_what_cannot_be_compared_is_refused_in_a_sentence(self):
        good, wrong, untimed, old = fields_of(), fields_of(), fields_of(seconds=[]), fields_of(record_version=2)
        wrong["check"] = {"right": False, "way": "-", "samples": 1}
        nothing = copy.deepcopy(good)
        del nothing["setup"]
        for name, lines, sentence in [
                ("broken", ["{"], "line 1: no record"), ("missing", [good, nothing], "line 2: no record"), ("number", ["3"], "no record"),
                ("wrong", [wrong], "not right"), ("untimed", [untimed], "no positive times"), ("old", [old], "found version 2"),
                ("negative", [fields_of(seconds=[-1.0])], "no positive times"), ("empty", [], "no records"),
                ("calls", [good, fields_of(call_seconds_all=[])], "line 2: found no positive times, expected a list of seconds in call_seconds_all"),
                ("text of calls", [fields_of(call_seconds_all="12")], "line 1: found no positive times"),
                ("step", [fields_of(steps=[{}])], "line 1: found a step without fma, least_bytes, seconds"),
                ("ceilings", [fields_of(ceilings={"copy_bytes_per_second": 0.0, "fma_per_second": 1.0})], "line 1: found ceilings without"),
                ("lines", [fields_of(case="a\nb")], "line 1: found the case 'a\\nb', expected a text of one line"),
                ("name", [fields_of(case=["a"])], "found the case ['a']"), ("peer", [fields_of(peer="a\tb")], "found the contender"),
                ("date", [fields_of(date=3)], "found the date 3"), ("large", [fields_of(seconds=[10**400])], "no positive times"),
                ("samples", [fields_of(samples="many")], "found samples 'many'"),
                ("deep", ["[" * 100000], "line 1: no record"), ("sets", [fields_of(machine_more={"instruction_sets": 3})], "line 1: no record"),
                ("bits", [good, fields_of(answer="00fe", machine="B")], "activations 00fe")]:
            done = compare(self.file(name, *lines))
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(sentence, done.stderr, name)
            self.assertEqual(done.stdout, "", name)
        self.assertIn("cannot be read", compare(self.folder / "absent").stderr)
        self.assertIn("no such contender", compare(self.file("good", good), "--against", "nobody").stderr)

    def test_answers_of_merged_and_other_networks_may_differ(self):
        path = self.file("both", fields_of(), fields_of(work="none", answer="00fe"), fields_of(answer="11", peer="scipy"))
        self.assertEqual(compare(path).returncode, 0)

    def test_records_of_the_command(self):
        network, samples, lines = (self.folder / name for name in ("net.safetensors", "samples.safetensors", "records.jsonl"))
        for words in (["generate", "random", "--neurons", 40, "--layers", 4, "--degree", 5, "--output", network],
                      ["generate", "samples", "--neurons", 40, "--samples", 30, "--output", samples],
                      ["benchmark", "--network", network, "--input", samples, "--backend", "serial", "--reductions", "none", "auto",
                       "--repeats", 3, "--seconds", 0, "--output", lines]):
            subprocess.run([VARVE, *map(str, words)], check=True, capture_output=True)
        done = compare(lines, "--against", "varve none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| net.safetensors | 30 | float | varve auto |", done.stdout)
        one = records.read_records([lines])[0]
        self.assertEqual(one.threads, 1)
        ((ceilings, points),) = figures.roofline_points([one]).values()
        self.assertGreater(points[0][1], 0)
        self.assertLess(points[0][1], 10 * ceilings["fma_per_second"])


if __name__ == "__main__":
    unittest.main()
