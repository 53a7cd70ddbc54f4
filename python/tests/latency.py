"""The time of a call on one sample beyond the loop over the layers: python python/tests/latency.py"""

from __future__ import annotations

import statistics
import time

import numpy as np
import varve


def measure(network, X, repeats=500):
    """Medians in microseconds: the whole call, the loop, and their difference."""
    for _ in range(20):
        network.run(X)
    totals, loops = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        run = network.run(X)
        totals.append(1e6 * (time.perf_counter() - begin))
        loops.append(1e6 * run.loop_seconds)
    beyond = [total - loop for total, loop in zip(totals, loops)]
    return statistics.median(totals), statistics.median(loops), statistics.median(beyond)


def cases():
    generator = np.random.default_rng(1)
    challenge, images = varve.generate.radixnet(1024, 120), varve.generate.images(1024, 600)
    alive = int(challenge.classify(images)[0])
    yield "challenge, 120 layers, an image that survives, dense", challenge, images[[alive]].toarray().astype(np.float32)
    yield "challenge, 120 layers, an image that survives, sparse", challenge, images[[alive]]
    trained = varve.generate.random([784, 512, 512, 10], density=0.1)
    yield "784-512-512-10, dense sample of real values", trained, generator.random((1, 784), dtype=np.float32)
    yield "3 layers of 64 neurons", varve.generate.random([64] * 4, degree=8), generator.random((1, 64), dtype=np.float32)


if __name__ == "__main__":
    print(f"{'microseconds':60} {'call':>8} {'loop':>8} {'beyond':>8}")
    for name, network, X in cases():
        total, loop, beyond = measure(network, X)
        print(f"{name:60} {total:8.1f} {loop:8.1f} {beyond:8.1f}")
