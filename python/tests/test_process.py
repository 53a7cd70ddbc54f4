"""Varve in a process: the interpreter's lock, signals, forks, threads, the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import varve

LONG = """
import varve
network = varve.generate.random([512] * 200, degree=32, gain=1.0)
X = varve.generate.samples(512, 20000)
"""


def run(program, **options):
    """Runs a program of Python by itself; returns its output. Fails if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, **options
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def interrupt(program, after):
    """Sends SIGINT once a program, which would run for long, has printed a line and some time has passed: it ends by it."""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it in the background
    )
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(after)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert child.returncode != 0 and errors.rstrip().endswith("KeyboardInterrupt")


def test_ctrl_c_ends_a_run():
    program = LONG + "network.infer(X[:10])\nprint('ready', flush=True)\nwhile True: network.infer(X, reductions='none')\n"
    interrupt(program, 1.0)


def test_ctrl_c_ends_a_preparation():
    program = "import varve\nnetwork = varve.generate.radixnet(65536, 1920)\nprint('ready', flush=True)\nnetwork.predict(varve.generate.images(65536, 1))\n"
    interrupt(program, 1.5)


@pytest.mark.parametrize(
    "call",
    [
        "varve.generate.images(65536, 10**7)",
        "varve.generate.samples(4096, 10**7)",
        "varve.generate.radixnet(65536, 10**5).num_edges",
        "varve.generate.radixnet(65536, 10**5).weights_hash()",
    ],
)
def test_ctrl_c_ends_what_draws_and_counts(call):
    """Each of these would take a quarter of an hour at least."""
    interrupt(f"import varve\nprint('ready', flush=True)\n{call}\n", 0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: varve.generate.radixnet(64, 3).infer(varve.generate.images(64, 200)),
        lambda: varve.matmul([[1.0]], [[1.0]]),
        lambda: varve.generate.images(64, 200),
    ],
    ids=["infer", "matmul", "generate"],
)
def test_the_lock_of_the_interpreter_is_released(call):
    """Another thread runs although this one never gives the lock up by itself."""
    may_run, has_run = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (may_run.wait(), has_run.set()))
    thread.start()
    interval, calls = sys.getswitchinterval(), 0
    sys.setswitchinterval(1e6)
    try:
        may_run.set()
        while not has_run.is_set() and calls < 10_000:
            call()
            calls += 1
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert 0 < calls < 10_000


ENDING = """
import threading, varve
start = varve.generate.random([64, 64, 10], density=0.5).with_initial_weights()
X = varve.generate.samples(64, 2000)
network, a = varve.generate.radixnet(64, 200), varve.generate.samples(64, 200).toarray()
runs = threading.Event()

def work():
    while True:
        {call}
        runs.set()

threading.Thread(target=work, daemon=True).start()
runs.wait()
"""


@pytest.mark.parametrize(
    "call",
    [
        "varve.train(start, X, [0] * 2000, epochs=100000, batch=32, progress=lambda epoch: runs.set())",
        "network.infer(X)",
        "varve.matmul(a, a.T)",
        "varve.generate.images(64, 100)",
        "network.num_edges; network.weights_hash()",
        "network.verify(X, network.classify(X))",
    ],
    ids=["train", "infer", "matmul", "generate", "count", "verify"],
)
def test_a_process_ends_while_a_daemon_thread_works(call):
    """Python lets such a thread end in the midst of the C++ part, whose frames it would unwind."""
    done = subprocess.run([sys.executable, "-c", ENDING.format(call=call)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr


def test_the_process_ends_well_with_warm_engines_and_trainings():
    program = """
        import varve
        network = varve.generate.radixnet(1024, 3)
        network.infer(varve.generate.images(1024, 10))
        import builtins
        builtins.kept = network, varve.train(network, [[1.0] * 1024] * 2, [0, 1], epochs=1)
        print("ran")
    """
    assert run(program) == "ran"


def test_a_network_that_is_collected_frees_its_engine():
    program = """
        import gc, varve
        for _ in range(20):
            network = varve.generate.radixnet(1024, 3)
            network.infer(varve.generate.images(1024, 10))
            del network
        gc.collect()
        print("ran")
    """
    assert run(program) == "ran"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_after_the_first_use_is_told_to_spawn():
    program = """
        import os, warnings
        warnings.simplefilter("ignore")
        import varve
        network = varve.generate.radixnet(64, 3)
        X = varve.generate.images(64, 10)
        network.infer(X)
        child = os.fork()
        if child == 0:
            try:
                network.infer(X)
            except varve.ResourceError as error:
                print(error, flush=True)
            os._exit(0)  # as multiprocessing ends such processes: Kokkos complains in others that were not its own
        os.waitpid(child, 0)
        network.infer(X)
        print("parent ran")
    """
    lines = run(program).splitlines()
    assert len(lines) == 2 and "forked" in lines[0] and "spawn" in lines[0] and lines[1] == "parent ran"


def test_a_fork_before_the_first_use_runs():
    program = """
        import os, varve
        X = varve.generate.images(64, 10)
        child = os.fork()
        shape = varve.generate.radixnet(64, 3).infer(X).shape
        if child:
            os.waitpid(child, 0)
        print(shape, flush=True)
    """
    assert run(program).splitlines() == ["(10, 64)"] * 2


def test_start_sets_the_number_of_threads():
    program = """
        import varve
        from varve import _core
        varve.start(num_threads=1)
        print(_core.device_name(varve.backends()[0]))
        try:
            varve.start(num_threads=1)
        except varve.UsageError as error:
            print(error)
    """
    first, second = run(program, env={**os.environ, "OMP_NUM_THREADS": "1"}).splitlines()
    assert second.startswith("varve has started already")
    if varve.backends()[0] == "openmp":
        assert first == "1 thread"


def test_a_wrong_number_of_threads_is_refused():
    program = """
        import varve
        for threads in (0, -3):
            try:
                varve.start(num_threads=threads)
            except varve.UsageError as error:
                print(error)
        print(varve.generate.radixnet(64, 3).infer(varve.generate.images(64, 10)).shape)
    """
    lines = run(program).splitlines()
    assert len(lines) == 3 and "0" in lines[0] and "-3" in lines[1] and lines[2] == "(10, 64)"


