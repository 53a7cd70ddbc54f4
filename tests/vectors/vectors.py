#!/usr/bin/env python3
"""The test vectors of Varve numerics 1 (docs/numerics.md), made and repeated by the program.

    tests/vectors/vectors.py VARVE             runs every stored vector again and compares every bit
    tests/vectors/vectors.py VARVE --write     makes networks, samples and recipes anew and stores what the program answers

Ends with exit code 1 at the first difference. The vectors are frozen: only new ones may be added, and another bit is another
version of the numerics. Reads and writes the program's files by src/io/FORMAT.md, without NumPy.
"""

import argparse
import hashlib
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
CODES = {"F64": "d", "F32": "f", "U64": "Q", "U32": "I", "U16": "H", "U8": "B"}


# ---- Files of the program ----


def save(path, description, arrays):
    """arrays: name -> (type, shape, numbers)"""
    raw = {name: struct.pack(f"<{len(numbers)}{CODES[kind]}", *numbers) for name, (kind, _, numbers) in arrays.items()}
    hashes = b"".join(hashlib.sha256(raw[name][at:at + 65536]).digest() for name in sorted(raw) for at in range(0, len(raw[name]), 65536))
    text = json.dumps({"version": 1, **description})
    header = {"__metadata__": {"varve": text, "varve.sha256": hashlib.sha256(text.encode() + hashes).hexdigest()}}
    arrays = {**arrays, "sha256": ("U8", [len(hashes) // 32, 32], hashes)}
    raw["sha256"] = hashes
    at = 0
    for name in sorted(arrays, key=lambda name: (-struct.calcsize(CODES[arrays[name][0]]), name)):
        header[name] = {"dtype": arrays[name][0], "shape": arrays[name][1], "data_offsets": [at, at + len(raw[name])]}
        at += len(raw[name])
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    data = b"".join(raw[name] for name in header if name != "__metadata__")
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def load(path):
    """The description and the arrays of a file, as lists."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    description = json.loads(header.pop("__metadata__")["varve"])
    arrays = {}
    for name, entry in header.items():
        first, last = (8 + length + offset for offset in entry["data_offsets"])
        code = CODES[entry["dtype"]]
        arrays[name] = list(struct.unpack(f"<{(last - first) // struct.calcsize(code)}{code}", data[first:last]))
    return description, arrays


def hexadecimal(number):
    return re.sub(r"\.?0*p", "p", float(number).hex()) if number else "0x0p+0"


def in_hex(numbers):
    return [hexadecimal(number) for number in numbers]


def matrix_arrays(name, matrix):
    values = [float.fromhex(value) for value in matrix["values"]]
    return {f"{name}.pointers": ("U64", [len(matrix["pointers"])], matrix["pointers"]),
            f"{name}.indices": ("U32", [len(matrix["indices"])], matrix["indices"]),
            f"{name}.values": ("F64", [len(values)], values)}


def save_network(path, layers):
    arrays, described = {}, []
    for number, layer in enumerate(layers):
        arrays |= matrix_arrays(f"layers.{number}", layer)
        bias = [float.fromhex(value) for value in layer["bias"]]
        arrays[f"layers.{number}.bias"] = ("F64", [len(bias)], bias)
        described.append({"shape": layer["shape"], "activation": layer["activation"]})
        described[-1].update({name: float.fromhex(layer[name]) for name in ("cap", "slope") if name in layer})
    save(path, {"kind": "network", "layers": described}, arrays)


def save_samples(path, samples, answers=None):
    arrays = matrix_arrays("samples", samples)
    description = {"kind": "samples", "shape": samples["shape"], "first_sample": samples["first_sample"]}
    if answers == "labels":
        arrays["labels"] = ("U32", [len(samples["labels"])], samples["labels"])
    if answers == "targets":
        arrays |= matrix_arrays("targets", samples["targets"])
        description["targets"] = samples["targets"]["shape"][1]
    save(path, description, arrays)


# ---- What the program answers ----


# Options of varve train whose names are keys of another option; the vectors name each by itself.
KEYS = {**{name: ("optimizer", name) for name in ("momentum", "beta1", "beta2", "epsilon", "l2")}, "warm_up": ("rate-schedule", "warm-up"),
        **{f"rate_{key}": ("rate-schedule", key) for key in ("every", "factor")},
        **{f"pattern_{key}": ("pattern", key) for key in ("fraction", "every", "until", "schedule")}}


class Program:
    def __init__(self, command, folder):
        self.command, self.folder = command, folder

    def path(self, name):
        return self.folder / f"{name}.safetensors"

    def run(self, *words):
        done = subprocess.run([self.command, *map(str, words)], text=True, capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"varve {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def infer(self, vector, stored):
        save_network(self.path("network"), stored["networks"][vector["network"]])
        save_samples(self.path("samples"), stored["samples"][vector["samples"]])
        runs = []
        for run in vector["runs"]:
            output = self.run("infer", "--network", self.path("network"), "--input", self.path("samples"), "--precision", run["precision"],
                              "--edge-order", run["edge_order"], "--reductions", ",".join(run["reductions"]) or "none",
                              "--activations", self.path("last"), "--categories", self.folder / "alive.tsv", "--predictions", self.folder / "classes.tsv")
            _, arrays = load(self.path("last"))
            values = arrays["samples.values"] * (len(arrays["samples.indices"]) if len(arrays["samples.values"]) == 1 else 1)
            runs.append({**{name: run[name] for name in ("precision", "edge_order", "reductions")},
                         "pointers": arrays["samples.pointers"], "indices": arrays["samples.indices"], "values": in_hex(values),
                         "hash": re.search(r"activations ([0-9a-f]{16})", output).group(1),
                         "survivors": [int(line) - 1 for line in (self.folder / "alive.tsv").read_text().split()],
                         "predictions": [int(line.split()[1]) - 1 for line in (self.folder / "classes.tsv").read_text().splitlines()]})
        return {"runs": runs}

    def train(self, vector, stored):
        recipe = {**stored["recipe"], **vector["recipe"]}
        save_network(self.path("network"), stored["networks"][vector["network"]])
        words = ["--network", self.path("network"), "--output", self.path("trained"), "--checkpoint", self.path("checkpoint")]
        for option, name in (("--input", "samples"), ("--validation", "validation")):
            if name in vector:
                save_samples(self.path(name), stored["samples"][vector[name]], recipe["answers"])
                words += [option, self.path(name)]
        for name, value in recipe.items():
            value = repr(float.fromhex(value)) if str(value).startswith("0x") else value
            option, key = KEYS.get(name, (name.replace("_", "-"), None))
            if name != "answers":
                words += ["--" + option, f"{key}={value}" if key else value]
        output = self.run("train", *words)
        description, arrays = load(self.path("checkpoint"))
        layers = []
        for number in range(len(description["layers"])):
            (_, num_inputs), name = description["layers"][number]["shape"], f"layers.{number}"
            pointers, indices, bias = arrays[f"{name}.pointers"], arrays[f"{name}.indices"], arrays[f"{name}.bias"]
            places = [j * num_inputs + i for j in range(len(pointers) - 1) for i in indices[pointers[j]:pointers[j + 1]]]
            weights = arrays[f"{name}.values"] * (len(places) if len(arrays[f"{name}.values"]) == 1 else 1)
            moments, bias_moments = (in_hex(value for m in range(description["training"]["moments"]) for value in arrays[f"training.{number}.{what}.{m}"])
                                     for what in ("weights", "bias"))
            layers.append({"places": places, "weights": in_hex(weights), "bias": in_hex(bias * (len(pointers) - 1 if len(bias) == 1 else 1)),
                           "moments": moments, "bias_moments": bias_moments})
        for name in ("checkpoint.safetensors", "checkpoint.safetensors.previous"):
            (self.folder / name).unlink(missing_ok=True)
        return {"history": in_hex(arrays["history"]), "layers": layers, "weights_hash": re.search(r"weights +([0-9a-f]{16})", output).group(1)}

    def answer(self, vector, stored):
        return {**vector, **getattr(self, vector["kind"])(vector, stored)}


# ---- Networks, samples and recipes ----


class Draw:
    """Random numbers that are the same with every version of Python."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def below(self, bound):
        return int(self.random.random() * bound)

    def some(self, count, bound):
        places = list(range(bound))
        for n in range(count):
            other = n + self.below(bound - n)
            places[n], places[other] = places[other], places[n]
        return sorted(places[:count])

    def real(self, low=-1.0, high=1.0, bits=52):
        """A number whose distance from low is a multiple of 2^-bits of the distance of high."""
        return low + (high - low) * int(self.random.random() * 2**bits) / 2**bits


def matrix(rows, num_columns):
    """rows: for each row a dictionary column -> value"""
    pointers = [0]
    for row in rows:
        pointers.append(pointers[-1] + len(row))
    entries = [entry for row in rows for entry in sorted(row.items())]
    return {"shape": [len(rows), num_columns], "pointers": pointers, "indices": [column for column, _ in entries],
            "values": in_hex(value for _, value in entries)}


def layer(rows, num_inputs, activation, bias, **parameters):
    return {**matrix(rows, num_inputs), "activation": activation, "bias": in_hex(bias), **{n: hexadecimal(v) for n, v in parameters.items()}}


def random_layer(draw, outputs, inputs, degree, activation, bits=52, scale=1.0, bias=None, **parameters):
    """degree: a number of edges, or the least and the most"""
    low, high = degree if isinstance(degree, tuple) else (degree, degree)
    rows = [{i: draw.real(-scale, scale, bits) for i in draw.some(low + draw.below(high - low + 1), inputs)} for _ in range(outputs)]
    return layer(rows, inputs, activation, bias or [draw.real(-0.5, 0.5) for _ in range(outputs)], **parameters)


def random_samples(draw, count, neurons, entries, low=-1.0, high=1.0, bits=23, first=0):
    rows = [{i: draw.real(low, high, bits) for i in draw.some(entries, neurons)} for _ in range(count)]
    return {**matrix(rows, neurons), "first_sample": first}


REDUCTIONS = ["merge_neurons", "fold_constants", "drop_unread", "saturation", "equal_samples"]
PARAMETERS = {"clipped_relu": {"cap": 0.7}, "leaky_relu": {"slope": 0.1}}
ACTIVATIONS = ["identity", "relu", "clipped_relu", "leaky_relu", "sigmoid", "tanh"]


def runs(precisions=("float", "double"), orders=("ascending",), reductions=((),)):
    return [{"precision": p, "edge_order": o, "reductions": list(r)} for p in precisions for o in orders for r in reductions]


def inference():
    draw = Draw(1)
    networks, samples, vectors = {}, {}, []

    def add(name, layers, batch, kinds):
        networks[name] = layers
        if not isinstance(batch, str):
            samples[name] = batch
            batch = name
        vectors.append({"kind": "infer", "name": name, "network": name, "samples": batch, "runs": kinds})

    samples["small"] = random_samples(draw, 6, 12, 9, first=1000)
    for activation in ACTIVATIONS:
        parameters = PARAMETERS.get(activation, {})
        add(activation, [random_layer(draw, 10, 12, (2, 8), activation, **parameters), random_layer(draw, 7, 10, (2, 6), activation, **parameters)],
            "small", runs())

    # one edge of weight 1: the functions themselves, near their thresholds, in all sizes and at odd places
    numbers = [0.0, 2.0**-149, 2.0**-126, 2.0**-30, 0.1, 0.34657359027997264, 0.35, 0.6931471805599453, 1.0, 2.5, 9.9999, 10.0, 10.5, 21.9, 22.0, 22.5,
               87.3, 88.72, 88.73, 89.0, 89.5, 103.9, 104.0, 110.0, 708.3, 709.78, 709.79, 710.0, 745.0, 746.5, 1e10, 3e38]
    numbers += [draw.real(0.0, 2.0**draw.below(8)) for _ in range(14)]
    numbers += [(half + 0.5) * 0.6931471805599453 * (1.0 + sign * 2.0**-18) for half in (0, 1, 2, 3, 5, 8, 13, 20, 60, 100) for sign in (-1, 1)]
    points = {**matrix([{0: sign * number} if number else {} for number in numbers for sign in (1, -1)], 1), "first_sample": 0}
    samples["points"] = points
    for activation in ("sigmoid", "tanh"):
        add(f"{activation} at points", [layer([{0: 1.0}], 1, activation, [0.0])], "points", runs())

    # finite activations: sums beyond the largest number, caps beyond it, thresholds met exactly
    huge = [layer([{0: 3e38, 1: 3e38}, {0: -3e38, 1: -3e38}, {0: 1.0}, {1: 1e-45}], 2, "identity", [0.0, 1.0, -0.5, 0.0]),
            layer([{0: 1.0, 1: 1.0}, {1: 1.0}, {2: 1.0, 3: 1.0}], 4, "clipped_relu", [0.0], cap=1e300),
            layer([{0: 0.5}, {0: 1e-38, 1: -1.0}, {2: 1.0}], 3, "leaky_relu", [-1.0, -0.25, 0.0], slope=0.3)]
    add("finite activations", huge, {**matrix([{0: 0.5, 1: 1.0}, {0: 2.0, 1: 3.0}, {0: -2.0, 1: 0.5}, {}], 2), "first_sample": 7}, runs())
    exact = [layer([{0: 1.0, 1: 1.0}, {0: 1.0, 2: -1.0}, {}, {1: 1.0}], 3, "clipped_relu", [-1.0, 0.0, 0.25, -0.0], cap=0.1),
             layer([{0: 1.0, 2: -1.0}, {3: 3.0}, {1: 1.0}], 4, "relu", [0.1, -0.3, -0.0])]
    add("caps and thresholds", exact, {**matrix([{0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.55, 2: 0.5}, {1: 0.1}, {2: 1.0}, {}], 3), "first_sample": 0}, runs())

    # biases that no float holds, one for all; dead samples that a bias revives; chains of a length
    add("biases in double", [random_layer(draw, 9, 12, 4, "relu", bits=4, bias=[-0.3]), random_layer(draw, 5, 9, 3, "relu", bits=4, bias=[0.1])], "small", runs())
    add("long chains", [random_layer(draw, 2, 160, 130, "identity", bits=12)], random_samples(draw, 2, 160, 160, bits=8), runs())
    deep = [random_layer(draw, 12, 12, 4, "clipped_relu", bits=6, bias=[0.05], cap=1.5) for _ in range(6)]
    add("six layers", deep, random_samples(draw, 5, 12, 6, 0.0, 1.0), runs(reductions=((), REDUCTIONS)))

    # reductions: equal neurons, in a chain, with weights that add up to 0; constants; unread neurons; saturated and equal samples
    first = random_layer(draw, 10, 8, (2, 5), "tanh")
    twins = [dict(zip(first["indices"][a:b], map(float.fromhex, first["values"][a:b]))) for a, b in zip(first["pointers"], first["pointers"][1:])]
    biases = [float.fromhex(bias) for bias in first["bias"]]
    twins[3], biases[3], twins[7], biases[7], twins[5], twins[6] = twins[1], biases[1], twins[1], biases[1], {}, {2: 0.0}
    second = [{i: draw.real() for i in draw.some(5, 10)} for _ in range(9)]
    second[0] = {1: 0.3, 3: 0.6, 7: -0.2, 5: 0.7, 6: 0.9}
    second[4] = {1: 0.4, 7: 0.1, 3: 0.2, 5: 0.7, 6: 0.9}
    second[2] = {1: 0.5, 3: -0.5}
    second[6] = dict(second[8])
    third = [{i: draw.real() for i in draw.some(4, 9) if i != 3} for _ in range(6)]
    third[1], third[4] = {6: 0.25, 8: 0.7, 0: 0.1}, {6: 0.7, 8: 0.25, 0: 0.1}
    merged = [layer(twins, 8, "tanh", biases),
              layer(second, 10, "sigmoid", [draw.real() if j not in (6, 8) else 0.2 for j in range(9)]),
              layer(third, 9, "leaky_relu", [0.05 if j in (1, 4) else draw.real() for j in range(6)], slope=0.2)]
    choices = ((), ["merge_neurons"], ["fold_constants"], ["drop_unread"], ["merge_neurons", "drop_unread"], REDUCTIONS)
    add("reductions", merged, random_samples(draw, 4, 8, 6), runs(reductions=choices))
    constants = [layer([{}, {}, {1: 0.0}], 3, "sigmoid", [0.1, -0.2, 0.3]), layer([{0: 0.3, 1: 0.7, 2: 0.1}, {2: 0.2}], 3, "identity", [0.1, 0.1])]
    add("constants only", constants, {**matrix([{1: 1.0}, {}], 3), "first_sample": 0}, runs(reductions=((), REDUCTIONS)))
    large = [layer([{0: 1.0}, {0: 1.0}, {1: 1.0}], 2, "relu", [0.0]), layer([{0: 3e38, 1: 3e38}, {2: 1.0}], 3, "relu", [0.0])]
    add("sums out of range", large, {**matrix([{0: 1e-3, 1: 1.0}], 2), "first_sample": 0}, runs(reductions=(REDUCTIONS,)))
    caps = [layer([{i: 1.0 for i in draw.some(4, 6)} for _ in range(6)], 6, "clipped_relu", [-0.25], cap=2.0) for _ in range(6)]
    few = {**matrix([{i: value for i in range(6)} for value in (1.0, 1.0, 0.5, 0.07, 0.06)] + [{}], 6), "first_sample": 0}
    add("saturated and equal samples", caps, few, runs(reductions=((), ["saturation", "equal_samples"], REDUCTIONS)))

    # edge orders: layers that are balanced, and one for each condition that keeps edges ascending
    both = runs(orders=("ascending", "balanced"))
    samples["wide"] = random_samples(draw, 2, 300, 300, bits=20)
    samples["narrow"] = random_samples(draw, 2, 40, 40, bits=20)

    def tenths(lists, num_inputs, activation="identity"):
        """Edges of weight 0.1, whose sums are rounded."""
        return {**layer([dict.fromkeys(inputs, 0.1) for inputs in lists], num_inputs, activation, [0.1]), "values": [hexadecimal(0.1)]}

    def lists_of(outputs, inputs, low, high=None):
        return [draw.some(low + draw.below((high or low) - low + 1), inputs) for _ in range(outputs)]

    def shared(degree, num_inputs):
        """Eight lists; each four of them, and so all, read the same inputs, a little more than twice as many."""
        universe = draw.some(2 * degree + 8, num_inputs)
        least, middle, most = universe[:degree], universe[degree:degree + 8], universe[degree + 8:]
        rest = least[1:] + most[:-1]
        others = [sorted([least[0], *middle, most[-1]] + [rest[k] for k in draw.some(degree - 10, len(rest))]) for _ in range(4)]
        return [least, most, *others[:2], [*least[1:], middle[0]], [middle[-1], *most[:-1]], *others[2:]]

    add("balanced", [random_layer(draw, 12, 300, 20, "identity")], "wide", both)
    add("balanced, degrees differ", [random_layer(draw, 14, 300, (8, 26), "tanh", bias=[0.1])], "wide", both)
    add("balanced, many outputs", [tenths(lists_of(266, 40, 8, 9), 40, "tanh"), random_layer(draw, 3, 266, 60, "identity", bits=4)], "narrow", both)
    add("balanced, many outputs of one degree", [tenths(lists_of(260, 40, 8), 40, "tanh"), random_layer(draw, 3, 260, 60, "identity", bits=4)], "narrow", both)
    add("balanced, inputs shared by fewer than 64 edges", [tenths(shared(63, 300), 300)], "wide", both)
    unread = random_layer(draw, 16, 300, 20, "relu", bits=4, bias=[0.1])
    spread = layer([{draw.below(15): draw.real(bits=5)} for _ in range(300)], 16, "tanh", [0.0])
    add("balanced after reductions", [unread, spread, random_layer(draw, 10, 300, 18, "identity", bits=4)],
        "wide", runs(orders=("balanced",), reductions=((), ["drop_unread"], REDUCTIONS)))
    equal = lists_of(4, 300, 20)
    uneven = [sorted([4 * i for i in draw.some(13, 75)] + [4 * i + 1 + draw.below(3) for i in draw.some(3, 75)]) for _ in range(8)]
    kept = {"too narrow": tenths(lists_of(12, 256, 20), 256), "too dense": tenths(lists_of(6, 257, 92), 257),
            "too few edges": tenths(lists_of(40, 300, 7, 8), 300), "inputs shared by four": tenths([equal[j // 3] for j in range(12)], 300),
            "inputs shared by eight": tenths(shared(66, 300), 300), "little gain": tenths(uneven, 300)}
    for name, one in kept.items():
        batch = "wide" if one["shape"][1] == 300 else random_samples(draw, 1, one["shape"][1], one["shape"][1], bits=16)
        add("ascending: " + name, [one], batch, runs(("float",), ("balanced",)))

    add("softplus", [random_layer(draw, 10, 12, (2, 8), "softplus"), random_layer(draw, 7, 10, (2, 6), "softplus")], "small", runs())
    add("softplus at points", [layer([{0: 1.0}], 1, "softplus", [0.0])], "points", runs())
    soft = [{**random_layer(draw, 8, 12, 4, "softplus"), "values": [hexadecimal(0.25)]}, random_layer(draw, 5, 8, 4, "softplus")]
    soft[0]["indices"], soft[0]["bias"] = soft[0]["indices"][:4] * 8, in_hex([0.5, 0.5, -40.0, 40.0, 0.5, -200.0, 90.0, -90.0])
    add("softplus, reductions", soft, "small", runs(reductions=((), REDUCTIONS)))
    return {"numerics": 1, "networks": networks, "samples": samples, "vectors": vectors}


RECIPE = {"precision": "float", "loss": "cross-entropy", "answers": "labels", "optimizer": "sgd", "rate": 0.1, "rate_schedule": "constant", "rate_every": 1,
          "rate_factor": 0.5, "warm_up": 0, "momentum": 0.9, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "l2": 0.0, "batch": 70, "epochs": 2, "seed": 1,
          "pattern": "keep", "pattern_fraction": 0.3, "pattern_every": 2, "pattern_until": 0.75, "pattern_schedule": "cosine"}


def as_recipe(options):
    return {key: hexadecimal(value) if isinstance(value, float) else value for key, value in options.items()}


def training():
    draw = Draw(2)
    samples, vectors = {}, []
    for name, count in (("train", 150), ("test", 40), ("one", 1)):
        samples[name] = random_samples(draw, count, 6, 4, -1.0, 1.0, 4)
        samples[name]["labels"] = [draw.below(4) for _ in range(count)]
        samples[name]["targets"] = matrix([{j: draw.real(0.0, 1.0, 26) for j in draw.some(2, 4)} for _ in range(count)], 4)
    networks = {"curves": [random_layer(draw, 7, 6, (2, 5), "tanh", bits=8), random_layer(draw, 5, 7, (2, 5), "sigmoid", bits=8),
                           random_layer(draw, 4, 5, (2, 4), "identity", bits=8)],
                "lines": [random_layer(draw, 7, 6, (2, 5), "relu"), random_layer(draw, 6, 7, (2, 5), "clipped_relu", cap=0.4),
                          random_layer(draw, 5, 6, (2, 5), "leaky_relu", slope=0.1), random_layer(draw, 4, 5, (2, 4), "identity", bias=[0.1])],
                "one layer": [random_layer(draw, 40, 6, 3, "identity")],
                "ties": [{**random_layer(draw, 12, 6, 4, "relu", bias=[0.5] * 3 + [-9.0] * 9), "values": [hexadecimal(0.5)]},
                         {**random_layer(draw, 4, 12, 6, "identity"), "values": [hexadecimal(0.5)]}]}

    def add(name, network, **changes):
        validation = {"validation": changes.pop("validation")} if "validation" in changes else {}
        vectors.append({"kind": "train", "name": name, "network": network, "samples": changes.pop("samples", "train"), **validation, "recipe": as_recipe(changes)})

    squares = {"loss": "mean-square", "answers": "targets"}
    for precision in ("float", "double"):
        for optimizer in ("sgd", "momentum", "nesterov", "adam"):
            if precision == "double" and optimizer in ("momentum", "nesterov"):
                continue  # biases are doubles in float, too
            rate = {"rate": 0.01} if optimizer == "adam" else {}
            add(f"{optimizer}, cross-entropy, {precision}", "lines", optimizer=optimizer, precision=precision, **rate)
            add(f"{optimizer}, mean-square, {precision}", "curves", optimizer=optimizer, precision=precision, l2=0.01, **squares, **rate)
    add("three leaves in one mini-batch", "curves", batch=150, epochs=1, validation="test")
    add("five leaves in one mini-batch, double", "lines", batch=150, epochs=1, precision="double", validation="test")
    add("forty outputs", "one layer", epochs=1, batch=3, rate=4.0, precision="double")
    add("forty outputs, mean-square", "one layer", epochs=8, batch=150, precision="double", loss="mean-square", validation="one")
    for pattern in ("set", "rigl"):  # weights stay as they are
        add(f"{pattern}: equal weights", "ties", pattern=pattern, pattern_schedule="constant", rate=1e-30, pattern_every=1, epochs=1, batch=75, pattern_until=2.0)
    add("mean square of labels", "curves", loss="mean-square", epochs=1)
    add("rate: step and warm-up", "curves", rate_schedule="step", batch=40, epochs=4, rate_every=2, rate_factor=0.3, warm_up=5, seed=7)
    add("rate: cosine", "curves", rate_schedule="cosine", batch=64, epochs=3, optimizer="momentum", seed=2**63 + 5, validation="test", **squares)
    for precision in ("float", "double"):
        add(f"SET, {precision}", "curves" if precision == "double" else "lines", precision=precision, pattern="set", batch=30, epochs=4, optimizer="momentum", pattern_until=0.9, seed=3)
        add(f"RigL, {precision}", "lines" if precision == "float" else "curves", precision=precision, pattern="rigl", batch=75, epochs=5, optimizer="adam", rate=0.01, pattern_until=9.0, seed=4)
    add("SET, constant", "curves", pattern="set", pattern_schedule="constant", pattern_fraction=0.5, pattern_every=1, batch=50, epochs=3, pattern_until=8.0)
    add("RigL, all edges", "curves", pattern="rigl", pattern_schedule="constant", pattern_fraction=1.0, pattern_every=3, batch=50, epochs=3, **squares)

    networks["softplus"] = [random_layer(draw, 7, 6, (2, 5), "softplus", bits=8), random_layer(draw, 5, 7, (2, 5), "softplus", scale=8.0, bits=8),
                            random_layer(draw, 4, 5, (2, 4), "softplus", bits=8)]
    for precision in ("float", "double"):
        add(f"softplus, {precision}", "softplus", precision=precision, validation="test", **squares)
        add(f"adamw, cross-entropy, {precision}", "lines", optimizer="adamw", rate=0.01, l2=0.1, precision=precision)
        add(f"adamw, mean-square, {precision}", "softplus", optimizer="adamw", rate=0.01, l2=0.1, precision=precision, **squares)
    add("adamw: RigL, cosine", "curves", optimizer="adamw", rate=0.05, l2=0.01, rate_schedule="cosine", warm_up=3, pattern="rigl", batch=50, epochs=4)

    networks["one output"] = [random_layer(draw, 7, 6, (2, 5), "tanh", bits=8), random_layer(draw, 1, 7, 5, "identity", scale=4.0, bits=8)]
    networks["steep"] = [random_layer(draw, 40, 6, (2, 4), "identity", scale=300.0, bits=8)]  # exponentials of every size
    for name, count, width in (("two classes", 150, 1), ("two classes, test", 40, 1), ("many labels", 80, 40)):
        samples[name] = random_samples(draw, count, 6, 4, -1.0, 1.0, 4)
        samples[name]["labels"] = [draw.below(2) for _ in range(count)]
        samples[name]["targets"] = matrix([dict.fromkeys(draw.some(min(width, 3), width), 1.0) for _ in range(count)], width)
    for precision in ("float", "double"):
        add(f"logistic, two classes, {precision}", "one output", samples="two classes", validation="two classes, test", precision=precision, loss="logistic")
        add(f"logistic, {precision}", "curves", precision=precision, loss="logistic", answers="targets")
        add(f"logistic, many labels, {precision}", "steep", samples="many labels", precision=precision, epochs=1, loss="logistic", answers="targets")
        add(f"huber, {precision}", "lines", precision=precision, optimizer="momentum", loss="huber", delta=0.3, answers="targets")
    add("logistic of labels", "lines", loss="logistic", epochs=1)
    add("huber of labels", "curves", loss="huber", epochs=1, validation="test")
    return {"numerics": 1, "recipe": as_recipe(RECIPE), "networks": networks, "samples": samples, "vectors": vectors}


FILES = {"inference": inference, "training": training}


def as_text(stored):
    """JSON with a line for each vector, network and set of samples."""
    parts = [f'"{name}": {json.dumps(stored[name])}' for name in ("numerics", "recipe") if name in stored]
    for name in ("networks", "samples"):
        if name in stored:
            lines = [f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in stored[name].items()]
            parts.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    lines = ["  " + json.dumps(vector, separators=(",", ":")) for vector in stored["vectors"]]
    parts.append('"vectors": [\n' + ",\n".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def first_difference(found, stored):
    """The way to the first member that differs."""
    if isinstance(found, dict) and isinstance(stored, dict) and found.keys() == stored.keys():
        pairs = [(key, found[key], stored[key]) for key in found]
    elif isinstance(found, list) and isinstance(stored, list) and len(found) == len(stored):
        pairs = list(zip(range(len(found)), found, stored))
    else:
        return f": the program gives {found}, the vector holds {stored}"
    key, one, other = next(pair for pair in pairs if pair[1] != pair[2])
    return f"[{key}]" + first_difference(one, other)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("varve")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options.varve, Path(folder))
        for name, make in FILES.items():
            path = FOLDER / f"{name}.json"
            stored = make() if options.write else json.loads(path.read_text())
            for place, vector in enumerate(stored["vectors"]):
                answer = program.answer(vector, stored)
                if not options.write and answer != vector:
                    print(f"DIFFERS  {vector['kind']:8}  {vector['name']}: {first_difference(answer, vector)}")
                    sys.exit(1)
                stored["vectors"][place] = answer
                count += 1
            if options.write:
                path.write_text(as_text(stored))
    print(f"{count} vectors {'written' if options.write else 'are what the program gives'}")


if __name__ == "__main__":
    main()
