#!/usr/bin/env python3
"""Verifies test vectors of Varve numerics 1 by the words of docs/numerics.md alone; nothing of Varve is imported.

    docs/verifier/verify.py tests/vectors/*.json

Prints a line for each vector; ends with exit code 1 at the first number that differs in a bit. Needs Python 3.9 and NumPy, of
which it takes arrays and the operations that IEEE 754 rounds correctly: sum, product, quotient, square root, conversion. Numbers
in brackets are sections of docs/numerics.md.
"""
import json, math, sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
import numpy as np

np.seterr(all="ignore")
F32, F64 = np.float32, np.float64
PRECISIONS = {"float": F32, "double": F64}
MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15

# ---- [2] Numbers ----
def exact_fma(a, b, c):
    """[2.2] of doubles: a * b + c in integers, then one division, which Python rounds correctly."""
    if not math.isfinite(a) or not math.isfinite(b) or not math.isfinite(c):
        return a * b + c
    (p, q), (r, s), (t, u) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    total = p * r * u + t * q * s
    try:
        return total / (q * s * u) if total else a * b + c
    except OverflowError:
        return math.copysign(math.inf, total)

def fma(a, b, c):
    """[2.2] of arrays. In float the product is exact in double; its sum with c is rounded to odd (the double beside it whose last bit is
    1), then to float: together one rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == F64:
        return np.asarray(np.frompyfunc(exact_fma, 3, 1)(a, b, c), F64)
    terms, c = a.astype(F64) * b.astype(F64), c.astype(F64)
    total = np.asarray(terms + c)
    part = total - terms
    error = (terms - (total - part)) + (c - part)  # of the sum, exactly (Knuth)
    is_even = (error != 0) & (total.view(np.int64) & 1 == 0) & np.isfinite(total)
    return np.where(is_even, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total).astype(F32)

# ---- [3] Functions ----
HIGH, LOW = ({F32: F32(float.fromhex(single)), F64: F64(float.fromhex(double))} for single, double in
             (("0x1.62e4p-1", "0x1.62e42fefa3800p-1"), ("0x1.7f7d1cp-20", "0x1.ef35793c76730p-45")))
ROUNDER, TERMS, LAST = {F32: 1.5 * 2**23, F64: 1.5 * 2**52}, {F32: 7, F64: 13}, {F32: 15, F64: 33}
EXPONENTS, LARGEST = {F32: (F32(-104), F32(89)), F64: (F64(-746), F64(710))}, {F32: F32(20), F64: F64(44)}

def reduced(x):
    """[3.1] n and exp(r) - 1, where x = n log 2 + r."""
    kind = x.dtype.type
    n = fma(x, kind(1.44269504088896340736), kind(ROUNDER[kind])) - kind(ROUNDER[kind])
    r = fma(n, -LOW[kind], fma(n, -HIGH[kind], x))
    tail = kind(1 / math.factorial(TERMS[kind]))
    for k in range(TERMS[kind] - 1, 1, -1):
        tail = fma(tail, r, kind(1 / math.factorial(k)))
    return n.astype(np.int64), fma(r * r, tail, r)
def exponential(x):  # [3.2]
    n, less_one = reduced(np.clip(x, *EXPONENTS[x.dtype.type]))
    return (less_one + np.ones_like(x)) * np.ldexp(np.ones_like(x), n >> 1) * np.ldexp(np.ones_like(x), n - (n >> 1))

def log_rest(f, last):
    """[3.3] s and a: log(1 + f) = f - s a"""
    s, p = f / (2 + f), f.dtype.type(2 / last)
    for k in range(last - 2, 2, -2):
        p = fma(p, s * s, f.dtype.type(2 / k))
    return s, fma(-p, s * s, f)

def logarithm(x):
    """[3.3] of a positive double."""
    mantissa, exponent = math.frexp(x)
    f, exponent = (mantissa - 1.0, exponent) if 2 * mantissa > 1.41421356237309504880 else (2 * mantissa - 1.0, exponent - 1)
    s, rest = map(float, log_rest(F64(f), 23))
    return exact_fma(float(exponent), float(HIGH[F64]), f + exact_fma(float(exponent), float(LOW[F64]), -(s * rest)))

def less_one(x):
    """[3.8] exp(x) - 1"""
    n, rest = reduced(x)
    power = np.ldexp(np.ones_like(x), n)
    return fma(power, rest, power - 1)
def hyperbolic_tangent(x):  # [3.5]
    t = less_one(np.minimum(np.abs(x) + np.abs(x), LARGEST[x.dtype.type]))
    return np.copysign(t / (t + 2), x)
def softplus(x):  # [3.7]
    e = exponential(-np.abs(x))
    s, rest = log_rest(e, LAST[x.dtype.type])
    return np.maximum(x, 0) + fma(-s, rest, e)
CURVES = {"sigmoid": (lambda x: 1 / (1 + exponential(-x)), lambda y: y * (1 - y)),  # [3.4] the function; [8.3] its derivative by its value
          "tanh": (hyperbolic_tangent, lambda y: fma(-y, y, y.dtype.type(1))),
          "softplus": (softplus, lambda y: -less_one(-np.minimum(y, LARGEST[y.dtype.type])))}
def half_cosine(part):
    """[3.6] (1 + cos(pi * part)) / 2"""
    x, series = 1.57079632679489661923 * (1.0 - 2.0 * part), 1.0
    for odd in range(23, 2, -2):
        series = exact_fma(-series, x * x / (odd * (odd - 1)), 1.0)
    return 0.5 + 0.5 * (x * series)

# ---- [4] Inference ----
def reals(texts):
    return [float.fromhex(text) for text in texts]
def rows_of(stored):
    """For each row its entries (column, value); one value may stand for all."""
    values = reals(stored["values"]) * (len(stored["indices"]) if len(stored["values"]) == 1 else 1)
    entries = list(zip(stored["indices"], values))
    return [entries[first:last] for first, last in zip(stored["pointers"], stored["pointers"][1:])]
def dense(stored, num_columns, kind):
    return np.array([[row.get(column, 0.0) for column in range(num_columns)] for row in map(dict, rows_of(stored))]).astype(kind)
def layer_of(stored):
    """rows: for each output its edges (input, weight) in the order of the sum; weights and biases are doubles."""
    bias = reals(stored["bias"]) * (stored["shape"][0] if len(stored["bias"]) == 1 else 1)
    cap, slope = (float.fromhex(stored.get(name, "0x0p0")) for name in ("cap", "slope"))
    return SimpleNamespace(rows=rows_of(stored), bias=bias, num_inputs=stored["shape"][1], activation=stored["activation"], cap=cap, slope=slope)
def changed(layer, **members):
    return SimpleNamespace(**{**vars(layer), **members})
def cap_of(layer, kind):
    return min(kind(layer.cap), np.finfo(kind).max) if layer.activation == "clipped_relu" else np.finfo(kind).max

def activated(layer, x, kind):
    """[4.3] of doubles x, in the precision."""
    x = np.where(x < 0, x * layer.slope, x) if layer.activation == "leaky_relu" else x
    lowest = kind(0) if layer.activation in ("relu", "clipped_relu") else -np.finfo(kind).max
    y = np.minimum(np.maximum(np.asarray(x).astype(kind), lowest), cap_of(layer, kind))
    return (CURVES[layer.activation][0](y) if layer.activation in CURVES else y) + kind(0)

def chains(rows, inputs):
    """[4.2] For each row of edges (input, weight) its sum, for each line of inputs."""
    kind = inputs.dtype.type
    sums = np.zeros((len(inputs), len(rows)), kind)
    for step in range(max(map(len, rows))):
        places = [j for j, row in enumerate(rows) if step < len(row)]
        columns, weights = zip(*(rows[j][step] for j in places))
        sums[:, places] = fma(np.array(weights).astype(kind), inputs[:, columns], sums[:, places])
    return sums
def forward(layer, inputs):
    """[4.2] inputs: [samples, inputs]"""
    return activated(layer, chains(layer.rows, inputs).astype(F64) + layer.bias, inputs.dtype.type)

# ---- [5] Edge orders ----
ASSIGNMENTS = sorted((tuple(reversed(code)) for code in product(range(4), repeat=4)), key=lambda banks: max(map(banks.count, banks)))
def bank_counts(inputs):
    return np.bincount([i % 4 for i in inputs], minlength=4)

def fours_of(lists):
    """[5.2] The groups of outputs."""
    def unevenness(j, total=0):
        return int(4 * np.sum((total + counts[j]) ** 2) - np.sum(total + counts[j]) ** 2)
    counts = [bank_counts(inputs) for inputs in lists]
    window = 16 if len(set(map(len, lists))) == 1 else 8
    waiting = [sorted(range(bank, len(lists), 4), key=lambda j: -len(lists[j])) for bank in range(4)]
    fours = []
    while any(waiting):
        four = [max((j for outputs in waiting for j in outputs[:window]), key=unevenness)]
        for outputs in waiting:
            if outputs and outputs[0] % 4 != four[0] % 4:
                four.append(min(outputs[:window], key=lambda j: unevenness(j, sum(counts[k] for k in four))))
        for j in four:
            waiting[j % 4].remove(j)
        fours.append(four)
    return fours

def balanced(lists):
    """[5.3] The inputs of the outputs of one group in their new order."""
    left = [[[i for i in inputs if i % 4 == bank] for bank in range(4)] for inputs in lists]
    chosen = [[] for _ in lists]
    while active := [g for g, banks in enumerate(left) if any(banks)]:
        totals = [sum(len(left[g][bank]) for g in active) for bank in range(4)]
        most, best, fewest = -1, None, 4
        for banks in ASSIGNMENTS:
            waves = max(map(banks.count, banks))
            if best and waves > fewest:
                break
            weight = sum(len(left[g][banks[g]]) if waves == 1 else totals[banks[g]] for g in active)
            if weight > most and all(left[g][banks[g]] for g in active):
                most, best, fewest = weight, banks, waves
        steps = max(1, min(len(left[g][best[g]]) for g in active) // 2) if fewest == 1 else 1
        for g in active:
            chosen[g] += left[g][best[g]][:steps]
            del left[g][best[g]][:steps]
    return chosen

def wavefronts(lists):
    """[5.4] of the outputs in this order."""
    fours = [lists[begin:begin + 4] for begin in range(0, len(lists), 4)]
    return sum(max(bank_counts({inputs[step] for inputs in four if step < len(inputs)})) for four in fours for step in range(max(map(len, four))))

def stored_weights(lists, size):
    """[5.1] in blocks of so many outputs."""
    groups = {}
    for inputs in lists:
        groups.setdefault(tuple(inputs), []).append(inputs)
    order = [inputs for group in groups.values() for inputs in group[:len(group) // size * size]]
    order += [inputs for group in groups.values() for inputs in group[len(group) // size * size:]]
    return sum(size * len(set().union(*order[begin:begin + size])) for begin in range(0, len(order), size))

def ordered(layer):
    """[5] The layer with balanced edges if it gains from them."""
    lists = [[i for i, _ in row] for row in layer.rows]
    edges, outputs = sum(map(len, lists)), len(lists)
    if not 257 <= max(outputs, layer.num_inputs) <= 4096 or edges > 0.35 * (outputs * layer.num_inputs) or edges < 8 * outputs:
        return layer
    if stored_weights(lists, 4) <= 2 * edges or stored_weights(lists, 8) <= (2.25 if edges >= 64 * outputs else 2) * edges:
        return layer
    new = {}
    for four in fours_of(lists):
        new.update(zip(four, balanced([lists[j] for j in four])))
    gains = wavefronts(lists) / wavefronts(list(new.values())) >= 1.1
    return changed(layer, rows=[[(i, dict(row)[i]) for i in new[j]] for j, row in enumerate(layer.rows)]) if gains else layer

# ---- [6] Reductions ----
def rewritten(layer, numbers, constants, num_inputs, merges, folds):
    """[6.1] The new layer, the new numbers of its outputs (None: all keep theirs) and its constants; None if out of range."""
    def key_of(row, bias):
        return str([(i, weight.hex()) for i, weight in row]), bias.hex()
    is_merged = merges and len(set(map(key_of, layer.rows, layer.bias))) < len(layer.rows)
    if numbers is None and not is_merged and all(weight for row in layer.rows for _, weight in row) and (all(layer.rows) or not folds):
        return layer, None, {}
    names, found, new_constants, kept = [], {}, {}, []
    for j, (row, bias) in enumerate(zip(layer.rows, layer.bias)):
        sums, constant, is_large = {}, 0.0, False
        for i, weight in row:
            number = i if numbers is None else numbers[i]
            if number is None:
                constant = exact_fma(weight, constants[i], constant)
            elif number in sums:
                sums[number] += weight
                is_large |= abs(sums[number]) > np.finfo(F32).max
            else:
                sums[number] = weight
        bias = constant + bias if constant != 0 else bias
        if is_large or abs(bias) > np.finfo(F32).max:
            return None, None, None
        row = sorted((number, weight) for number, weight in sums.items() if weight != 0)
        key = key_of(row, bias) if merges else j
        if folds and not row:
            new_constants[j] = float(activated(layer, np.array(bias), F64))
        elif key not in found:
            found[key] = len(kept)
            kept.append((row, bias))
        names.append(None if j in new_constants else found[key])
    rows, bias = zip(*(kept or [([], 0.0)]))
    return changed(layer, rows=rows, bias=bias, num_inputs=num_inputs), names if len(kept) < len(names) else None, new_constants

def reduced_network(layers, passes):
    """[6] The reduced network, and for each output of the last layer its output there."""
    merges, folds, drops = (name in passes for name in ("merge_neurons", "fold_constants", "drop_unread"))
    as_it_is = layers, list(range(len(layers[-1].rows)))
    numbers, constants, new, num_inputs = None, {}, [], layers[0].num_inputs
    for layer in layers if merges or folds or drops else []:
        layer, numbers, constants = rewritten(layer, numbers, constants, num_inputs, merges, folds and layer is not layers[-1])
        if layer is None:
            return as_it_is
        new.append(changed(layer))
        num_inputs = len(layer.rows)
    for this, after in zip(new[-2::-1], new[:0:-1]):
        is_read = sorted({i for row in after.rows for i, _ in row})
        if drops and len(is_read) < after.num_inputs:
            after.rows = [[(is_read.index(i), weight) for i, weight in row] for row in after.rows]
            after.num_inputs = max(1, len(is_read))
            this.rows, this.bias = [this.rows[i] for i in is_read] or [[]], [this.bias[i] for i in is_read] or [0.0]
    return (new, as_it_is[1] if numbers is None else numbers) if new else as_it_is

# ---- [7] Results and [9] random numbers ----
def mixed(word):
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
    return word ^ word >> 31

def fingerprint(one, two, bits):  # [7.3]
    word = one + GOLDEN & MASK
    for following in (two, bits, 0):
        word = mixed(word) + following & MASK
    return word
def bits_of(numbers):
    return numbers.view(np.uint32 if numbers.dtype == F32 else np.uint64)

class Random:  # [9.1]
    def __init__(self, seed, stream):
        self.counter = mixed(mixed(seed + GOLDEN & MASK) + stream & MASK)
    def below(self, bound):
        while True:
            self.counter = self.counter + GOLDEN & MASK
            if mixed(self.counter) >= 2**64 % bound:
                return mixed(self.counter) % bound
def swap(array, *places):
    array[list(places)] = array[list(places[::-1])]

# ---- [8] Training ----
def tree(leaves):  # [8.4]
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return tree(leaves[:half]) + tree(leaves[half:])
def halves(sums):
    """Adds numbers c and c + d along the first axis, for d = half of them, ..., 2, 1."""
    while len(sums) > 1:
        sums = sums[:len(sums) // 2] + sums[len(sums) // 2:]
    return sums[0]

def over_positions(first, second):
    """[8.4] The sum of first * second over the positions, which are the first axis."""
    num_chains = 64 // first.itemsize
    padding = np.zeros((-len(first) % (4 * num_chains), first.shape[1]), first.dtype)
    first, second = (np.concatenate([array, padding]).reshape(-1, 4, num_chains, first.shape[1]) for array in (first, second))
    total = np.zeros_like(first[:, 0])
    for k in range(4):
        total = fma(first[:, k], second[:, k], total)
    return tree([halves(leaf) for leaf in total]) + first.dtype.type(0)
def gradient(layer, inputs, errors, places):
    return over_positions(inputs[:, places % layer.num_inputs], errors[:, places // layer.num_inputs])

def over_outputs(numbers, squared=False):
    """[8.2] 32 chains over outputs and a tree: sums of numbers, or of their squares, for each sample."""
    sums = np.zeros((32, len(numbers)))
    for j, number in enumerate(numbers.T):
        sums[j % 32] = fma(number, number, sums[j % 32]) if squared else sums[j % 32] + number
    return halves(sums)

def losses_of(last, wanted, recipe):
    """[8.2] The loss of each position, and the slopes in double."""
    x, num_outputs, loss, delta = last.astype(F64), last.shape[1], recipe["loss"], float.fromhex(recipe.get("delta", "0x1p+0"))
    d, size = x - wanted, np.abs(x - wanted)
    if loss == "mean-square":
        return over_outputs(d, True) / num_outputs, 2.0 * d / num_outputs
    if loss == "huber":
        terms = np.where(size <= delta, 0.5 * d * d, delta * (size - 0.5 * delta))
        return over_outputs(terms) / num_outputs, np.where(size <= delta, d, np.copysign(delta, d)) / num_outputs
    if loss == "logistic":
        e, terms = exponential(-np.abs(x)), fma(-x, wanted, np.maximum(x, 0.0)) + softplus(-np.abs(x))
        return over_outputs(terms) / num_outputs, (np.where(x > 0, 1.0, e) / (1.0 + e) - wanted) / num_outputs
    x = x - x.max(axis=1, keepdims=True)
    powers, totals = exponential(x), over_outputs(exponential(x))
    return np.array([logarithm(float(total)) for total in totals]) - x[wanted == 1], powers / totals[:, None] - wanted

def through(layer, x, error):
    """[8.3] error * act'(x)"""
    kind = x.dtype.type
    if layer.activation in CURVES:
        return error * CURVES[layer.activation][1](x)
    outside = {"identity": error, "leaky_relu": error * kind(layer.slope)}.get(layer.activation, np.zeros_like(error))
    return np.where((x > 0) & ((x < cap_of(layer, kind)) | (layer.activation != "clipped_relu")), error, outside)

class Training:
    """Weights and moments of the precision, biases in double."""
    def __init__(self, network, train, validation, recipe):
        self.recipe, self.kind, self.optimizer = recipe, PRECISIONS[recipe["precision"]], recipe["optimizer"]
        self.num_steps, self.layers, num_moments = 0, list(map(layer_of, network)), {"sgd": 0, "adam": 2, "adamw": 2}.get(self.optimizer, 1)
        for layer in self.layers:
            layer.weights = np.array([weight for row in layer.rows for _, weight in row]).astype(self.kind)
            layer.bias = np.array(layer.bias)
            layer.moments, layer.bias_moments = ([np.zeros_like(numbers)] * num_moments for numbers in (layer.weights, layer.bias))
            layer.places = np.array([j * layer.num_inputs + i for j, row in enumerate(layer.rows) for i, _ in row], np.int64)
        self.data, self.validation = self.read(train), self.read(validation) if validation else None
    def read(self, stored):
        inputs, wanted = (dense(part, part["shape"][1], self.kind) for part in (stored, stored["targets"]))
        labels = np.array(stored["labels"]) if self.recipe["answers"] == "labels" else np.full(len(inputs), -1)
        if self.recipe["answers"] == "labels":
            wanted = labels[:, None] if self.distinguishes_two() else np.eye(len(self.layers[-1].bias))[labels]
        return inputs, wanted.astype(F64), labels
    def distinguishes_two(self):
        return self.recipe["loss"] == "logistic" and len(self.layers[-1].bias) == 1
    def forward(self, data, rows):
        """[8.1, 8.2] The activations of all layers, the sum of losses, the right answers, and the errors of all layers' outputs."""
        planes = [data[0][rows]]
        for layer in self.layers:
            layer.rows, layer.by_input = [[] for _ in layer.bias], [[] for _ in range(layer.num_inputs)]
            for place, weight in zip(layer.places.tolist(), layer.weights):
                layer.rows[place // layer.num_inputs].append((place % layer.num_inputs, weight))
                layer.by_input[place % layer.num_inputs].append((place // layer.num_inputs, weight))
            planes.append(forward(layer, planes[-1]))
        (losses, slopes), leaf = losses_of(planes[-1], data[1][rows], self.recipe), 256 // planes[0].itemsize
        loss = tree([sum(losses[begin:begin + leaf].tolist(), 0.0) for begin in range(0, len(rows), leaf)])
        predictions = planes[-1][:, 0] > 0 if self.distinguishes_two() else np.argmax(planes[-1], axis=1)
        num_right = int(np.sum(predictions == data[2][rows]))
        errors = [through(self.layers[-1], planes[-1], slopes.astype(self.kind))]
        for before, x, layer in list(zip(self.layers, planes[1:], self.layers[1:]))[::-1]:  # [8.3]
            errors.insert(0, through(before, x, chains(layer.by_input, errors[0])))
        return planes, loss, num_right, errors
    def step(self, rows, rate):
        planes, loss, num_right, errors = self.forward(self.data, rows)
        self.num_steps += 1
        factors = {name: float.fromhex(self.recipe[name]) for name in ("l2", "momentum", "beta1", "beta2", "epsilon")}  # [8.5]
        one, two = (1.0 - power(factors[name], self.num_steps) for name in ("beta1", "beta2"))
        factors |= {"inverse": 1.0 / len(rows), "rest1": 1.0 - factors["beta1"], "rest2": 1.0 - factors["beta2"], "root": math.sqrt(two),
                    "rate": rate / one if self.optimizer in ("adam", "adamw") else rate, "decay": rate * factors["l2"]}
        factors["l2"] *= self.optimizer != "adamw"
        for layer, x, e in zip(self.layers, planes, errors):
            layer.weights, layer.moments = self.update(layer.weights, layer.moments, gradient(layer, x, e, layer.places), factors)
            sums = over_positions(np.ones_like(e), e).astype(F64)
            layer.bias, layer.bias_moments = self.update(layer.bias, layer.bias_moments, sums, {**factors, "l2": 0.0, "decay": 0.0})
        return loss, num_right
    def update(self, numbers, moments, sums, factors):
        """[8.5] The new numbers and moments."""
        f = {name: numbers.dtype.type(value) for name, value in factors.items()}
        direction = gradient = fma(f["l2"], numbers, sums * f["inverse"])
        if self.optimizer in ("adam", "adamw"):
            numbers = fma(-f["decay"], numbers, numbers) if self.optimizer == "adamw" else numbers
            moments = [fma(f["beta1"], moments[0], f["rest1"] * gradient), fma(f["beta2"], moments[1], f["rest2"] * (gradient * gradient))]
            direction = moments[0] / (np.sqrt(moments[1]) / f["root"] + f["epsilon"])
        elif self.optimizer != "sgd":
            moments = [fma(f["momentum"], moments[0], gradient)]
            direction = fma(f["momentum"], moments[0], gradient) if self.optimizer == "nesterov" else moments[0]
        return fma(-f["rate"], direction, numbers), moments
    def evolve(self, rows, fraction, number):
        """[8.8] Returns the edges that were dropped, and those of them that returned."""
        (planes, _, _, errors), moved = self.forward(self.data, rows), np.zeros(2)
        for depth, layer in enumerate(self.layers):
            everywhere = range(len(layer.bias) * layer.num_inputs)
            count = 0 if len(layer.places) == len(everywhere) else math.floor(fraction * len(layer.places) + 0.5)
            kept, dropped = np.split(np.argsort(-np.abs(layer.weights), kind="stable"), [len(layer.places) - count])  # edges
            free = np.setdiff1d(everywhere, layer.places[kept]).astype(np.int64)
            if self.recipe["pattern"] == "set":
                random = Random(self.recipe["seed"], 1 << 63 | number << 32 | depth)
                for n in range(count):
                    swap(free, n, n + random.below(len(free) - n))
            else:
                sizes = np.abs(gradient(layer, planes[depth], errors[depth], free))
                free = free[np.argsort(-np.where(np.isnan(sizes), 0, sizes), kind="stable")]
            moved += count, len(np.intersect1d(free[:count], layer.places[dropped]))
            places = np.concatenate([layer.places[kept], free[:count]])
            with_new = [np.append(numbers[kept], np.zeros(count, self.kind))[np.argsort(places)] for numbers in [layer.weights, *layer.moments]]
            layer.places, layer.weights, layer.moments = np.sort(places), with_new[0], with_new[1:]
        return moved
    def run(self):
        """[8.6, 8.7] Trains; returns the numbers of each epoch."""
        recipe, num_samples, history = self.recipe, len(self.data[0]), []
        per_epoch = -(-num_samples // (batch := min(recipe["batch"], num_samples)))
        for epoch in range(recipe["epochs"]):
            order, random = np.arange(num_samples), Random(recipe["seed"], epoch)
            for left in range(num_samples, 1, -1):  # [9.2]
                swap(order, left - 1, random.below(left))
            sums, moved = np.zeros(2), np.zeros(2)
            for begin in range(0, num_samples, batch):
                step, rows = self.num_steps, order[begin:begin + batch]
                if (fraction := fraction_before(recipe, step, per_epoch * recipe["epochs"])) is not None:
                    moved += self.evolve(rows, fraction, step // recipe["pattern_every"])
                rate = rate_at(recipe, step, per_epoch)
                sums += self.step(rows, rate)
            count = len(self.validation[0]) if self.validation else -1
            found = self.forward(self.validation, np.arange(count)) if self.validation else [0, 0, 0]
            history += [epoch + 1, self.num_steps, rate, sums[0], num_samples, sums[1], found[1], count, found[2], *moved]
        return np.array(history, F64)
def power(base, exponent, result=1.0):  # [8.5]
    return power(base * base, exponent // 2, result * base if exponent % 2 else result) if exponent else result
def rate_at(recipe, step, per_epoch):  # [8.6]
    rate = float.fromhex(recipe["rate"])
    if recipe["rate_schedule"] == "step":
        rate = math.prod([rate, *[float.fromhex(recipe["rate_factor"])] * (step // per_epoch // recipe["rate_every"])])
    if recipe["rate_schedule"] == "cosine":
        rate *= half_cosine(step / (per_epoch * recipe["epochs"]))
    return rate * ((step + 1) / recipe["warm_up"]) if step < recipe["warm_up"] else rate
def fraction_before(recipe, step, num_steps):
    """[8.8] The fraction of a change before this step, if there is one."""
    until, fraction = (float.fromhex(recipe[name]) for name in ("pattern_until", "pattern_fraction"))
    last = math.floor(until * num_steps if until <= 1 else until)
    if recipe["pattern"] == "keep" or step == 0 or step % recipe["pattern_every"] or step >= last:
        return None
    return fraction * half_cosine(step / last) if recipe["pattern_schedule"] == "cosine" else fraction

# ---- Vectors ----
def require_same(what, found, expected):
    """Ends the program at the first number that differs in a bit."""
    if isinstance(found, np.ndarray):
        found, expected = [float(number).hex() for number in found], [number.hex() for number in reals(expected)]
    if isinstance(found, list) and len(found) == len(expected):
        what, found, expected = next(((f"{what}[{n}]", *pair) for n, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), ("", 0, 0))
    if found != expected:
        sys.exit(f"DIFFERS  {what}: the specification gives {found}, the vector holds {expected}")

def check_infer(vector, stored):
    samples, network = stored["samples"][vector["samples"]], stored["networks"][vector["network"]]
    for run in vector["runs"]:
        layers, output_map = reduced_network([layer_of(layer) for layer in network], run["reductions"])
        x = dense(samples, samples["shape"][1], PRECISIONS[run["precision"]])
        for layer in layers:
            x = forward(ordered(layer) if run["edge_order"] == "balanced" else layer, x)
        x, first = x[:, output_map], samples["first_sample"]
        rows, columns = np.nonzero(x)
        total = sum(fingerprint(first + int(row), int(column), int(bits)) for row, column, bits in zip(rows, columns, bits_of(x[rows, columns])))
        found = {"pointers": [0, *np.cumsum(np.count_nonzero(x, axis=1)).tolist()], "indices": columns.tolist(), "values": x[rows, columns],
                 "hash": f"{total & MASK:016x}", "survivors": (first + np.unique(rows)).tolist(), "predictions": np.argmax(x, axis=1).tolist()}
        for name, numbers in found.items():
            require_same(f"{vector['name']}: {run['precision']}, {run['edge_order']}, reductions {run['reductions']}: {name}", numbers, run[name])

def check_train(vector, stored):
    validation = stored["samples"].get(vector.get("validation"))
    training = Training(stored["networks"][vector["network"]], stored["samples"][vector["samples"]], validation, {**stored["recipe"], **vector["recipe"]})
    require_same(f"{vector['name']}: history", training.run(), vector["history"])
    total = 0
    for number, (layer, expected) in enumerate(zip(training.layers, vector["layers"])):
        require_same(f"{vector['name']}: layer {number}: places", layer.places.tolist(), expected["places"])
        for name in ("weights", "bias", "moments", "bias_moments"):
            found = np.concatenate(getattr(layer, name)) if "moments" in name and expected[name] else np.array(getattr(layer, name))
            require_same(f"{vector['name']}: layer {number}: {name}", found, expected[name])
        total += sum(fingerprint(2 * number, int(place), int(bits)) for place, bits in zip(layer.places, bits_of(layer.weights.astype(F64))))
        total += sum(fingerprint(2 * number + 1, j, int(bits)) for j, bits in enumerate(bits_of(layer.bias)))
    require_same(f"{vector['name']}: weights hash", f"{total & MASK:016x}", vector["weights_hash"])

if len(sys.argv) < 2:
    sys.exit(__doc__)
count = 0
for path in sys.argv[1:]:
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    if content["numerics"] != 1:
        sys.exit(f"{path}: vectors of numerics {content['numerics']}, expected 1")
    for item in content["vectors"]:
        {"infer": check_infer, "train": check_train}[item["kind"]](item, content)
        print(f"equal    {item['kind']:8}  {item['name']}", flush=True)
        count += 1
print(f"{count} vectors of numerics 1 are equal")
