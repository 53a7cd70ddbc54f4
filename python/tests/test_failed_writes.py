"""Each call of the operating system about a file that is written fails in turn: an exception or the right bytes."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

LIBRARY = pathlib.Path(__file__).parents[2] / "tests" / "faults" / "failing_calls.cpp"

PROGRAM = """
import ctypes, os, pathlib, sys
import numpy as np
import varve

folder = pathlib.Path(sys.argv[1])
step = int(sys.argv[2])
fail_call = ctypes.CDLL(None).varve_fail_call
fail_call.restype, fail_call.argtypes = ctypes.c_long, [ctypes.c_long, ctypes.c_char_p]

network = varve.generate.random([40] * 4, degree=12, seed=3)
X = np.random.default_rng(5).random((30, 40))
labels = np.arange(30) % 40

def train(path):
    varve.train(network, X, labels, epochs=1, batch=16, checkpoint=path)

writers = {
    "network.safetensors": network.save,
    "samples.safetensors": lambda path: varve.save_samples(path, X, labels=labels),
    "samples.tsv.gz": lambda path: varve.save_samples(path, X),
    "samples.npy": lambda path: varve.save_samples(path, X),
    "samples.npz": lambda path: varve.save_samples(path, X),
    "network.npz": network.save,
    "receipt.json": network.receipt(X).save,
    "product.safetensors": lambda path: varve.matmul(X, X.T, out=path),
    "checkpoint.safetensors": train,
}

try:
    import onnx
    writers["network.onnx"] = network.save
except ImportError:
    pass

def files():
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

def clear():
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

outcomes = {"right": 0, "exception": 0}
for name, write in writers.items():
    fail_call(0, b"none")
    write(folder / name)
    num_calls = fail_call(0, b"none")
    right = files()
    assert right, name
    clear()
    number = 0
    for at in range(1, num_calls + 1):
        for how in (b"ENOSPC", b"EIO", b"EINTR", b"full", b"short") + ((b"lost",) if name.endswith(".safetensors") else ()):
            number += 1
            if number % step:
                continue
            fail_call(at, how)
            try:
                write(folder / name)
                outcome = "right"
            except varve.ResourceError:
                outcome = "exception"
            fail_call(0, b"none")
            found = files()
            outcomes[outcome] += 1
            place = f"{name}, call {at}, {how.decode()}: {outcome}"
            if outcome == "right":
                assert found == right, f"{place}: wrong bytes"
            if name != "checkpoint.safetensors":  # which is written more than once
                assert all(right.get(one) == bytes for one, bytes in found.items()), f"{place}: something wrong is left"
            clear()
print(outcomes["right"], outcomes["exception"])
"""


def test_failed_calls_are_exceptions_or_leave_the_right_bytes(tmp_path):
    library = tmp_path / "failing_calls.so"
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", "-o", library, LIBRARY, "-ldl"], check=True)
    folder = tmp_path / "out"
    folder.mkdir()
    step = 1 if "VARVE_FAULT_CALLS" in os.environ else 7  # of all failures; 7 meets each way of each call in turn
    environment = dict(os.environ, LD_PRELOAD=str(library), VARVE_CALLS_FOLDER=str(folder), OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(step)], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    num_right, num_exceptions = map(int, done.stdout.split())
    assert num_right > 0 and num_exceptions > 0
