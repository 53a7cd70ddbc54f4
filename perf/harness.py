"""What the measurements in this folder share: running commands, generating data once, writing records."""
import functools
import json
import pathlib
import subprocess
import sys
import tempfile


def run(command, *arguments, may_end_with=(0,)):
    """Runs a command; a failure ends the measurement with the command's own sentence."""
    try:
        done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    except OSError as failure:
        sys.exit(f"{command} cannot be run: {failure.strerror}")
    if done.returncode not in may_end_with:
        sys.exit(f"{command} {' '.join(map(str, arguments))}\nexit code {done.returncode}: {done.stderr.strip()}")


def report_of(command, *arguments, may_end_with=(0,)):
    """Runs a command that writes a report and gives that."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        run(command, *arguments, "--report", report, may_end_with=may_end_with)
        return json.loads(report.read_text())


def infer(varve, network, samples, *options):
    return report_of(varve, "infer", "--network", network, "--input", samples, *options)


def survivors_of(varve, network, samples, *options):
    with tempfile.TemporaryDirectory() as folder:
        categories = pathlib.Path(folder) / "categories.tsv"
        run(varve, "infer", "--network", network, "--input", samples, "--categories", categories, *options)
        return categories.read_text()


def hash_of(varve, network, samples, *options):
    return infer(varve, network, samples, *options)["activation_hash"]


@functools.cache
def reference_answer(answer_of, varve, network, samples, *checked):
    return answer_of(varve, network, samples, "--tuning", "engine=reference", *checked)


def verdict_on(varve, network, samples, options, checked):
    """"equal bits" if the last activations of the samples that `checked` names are the reference's; "same survivors" for
    another engine, which rounds its sums in its own order. Any other answer ends the measurement."""
    answer_of, verdict = (survivors_of, "same survivors") if any(option.startswith("engine=") for option in options) else (hash_of, "equal bits")
    computed = options[options.index("--edge-order"):][:2] if "--edge-order" in options else []
    truth = reference_answer(answer_of, varve, network, samples, *checked, *computed)
    answer = answer_of(varve, network, samples, *options, *checked)
    if answer != truth:
        sys.exit(f"{network} {' '.join(options)}: not the reference's answer, expected {verdict}")
    return verdict


def contend(contender, network, samples, *options):
    """The records of varve_contender; those that failed say so under "failed"."""
    return report_of(contender, "--network", network, "--input", samples, *options, may_end_with=(0, 1))["records"]


def fastest(records, library, num_samples):
    """The record of a library's fastest loop over so many samples, or None if none ran."""
    ran = [record for record in records if record["contender"].startswith(library) and record.get("samples") == num_samples]
    return min(ran, key=lambda record: record["loop_seconds"], default=None)


def generated(varve, path, kind, *options):
    """The file, made by `varve generate KIND` if it is not there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        run(varve, "generate", kind, *options, "--output", path)
    return path


def images_file(varve, folder, neurons, samples, seed, survive_as_official=False):
    """Images of the challenge's kind; with survive_as_official of such objects that about as many survive as of the official ones."""
    name = f"images-{neurons}-{samples}-seed{seed}{'-official' if survive_as_official else ''}.safetensors"
    alike = ("--official-survivors",) if survive_as_official else ()
    return generated(varve, folder / name, "images", "--neurons", neurons, "--samples", samples, "--seed", seed, *alike)


# The challenge's own bias keeps no sample alive where an image's neighbours part ways; this one about as many as there.
RANDOM_PATTERN_BIAS = -0.19


def network_file(varve, folder, pattern, neurons, layers, seed):
    """A network of the challenge's shape, weights and cap: its own pattern ("radixnet"), or a random one of its degree
    ("random"); or "own_weights": random pattern, weights and biases, on which samples stay alive."""
    path = folder / f"{pattern}-{neurons}x{layers}-seed{seed}.safetensors"
    shape = ("--neurons", neurons, "--layers", layers, "--seed", seed)
    if pattern == "radixnet":
        return generated(varve, path, "radixnet", *shape)
    alike = ("--init", "weight=0.0625", "--bias", RANDOM_PATTERN_BIAS, "--cap", 32) if pattern == "random" else ()
    return generated(varve, path, "random", *shape, "--degree", 32, *alike)


def milliseconds(record):
    return f"{1e3 * record['loop_seconds']:.3f}" if record else "-"


def append_record(path, record):
    if path:
        with path.open("a") as lines:
            lines.write(json.dumps(record) + "\n")
