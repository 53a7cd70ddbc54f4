"""Times of a step (forward and backward) of varve.torch.SparseLinear, torch.sparse CSR and a dense Linear under a mask, on one thread
or a GPU; and on hosts of sparselab where it is installed.

Medians in ms of rounds in which all run one after the other, of processor time, or of the GPU's time between two events:
OMP_NUM_THREADS=1 python python/tests/sparse_linear_times.py [--device cuda] [--rounds 15] [--widths 1024 4096] [--batches 64 1024]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
from varve.torch import SparseLinear


def of_sparselab(layer):
    """A layer of sparselab with the same numbers; None if it is not installed."""
    try:
        import sparselab
    except ImportError:
        return None
    made = sparselab.SparseLinear(layer.in_features, layer.out_features, sparsity=1 - layer.density)
    made._csr = sparselab.PaddedCSR.from_dense(layer.dense_weight().detach())
    made._values = torch.nn.Parameter(torch.from_numpy(np.asarray(made._csr.values)))
    made.bias = torch.nn.Parameter(layer.bias.detach().clone())
    return made


def ways(layer):
    """By name: what computes the outputs of samples, and its parameters."""
    mask, dense = layer.mask().float(), layer.to_dense()
    rows = layer.dense_weight().detach().to_sparse_csr().requires_grad_()

    def masked(x):
        return torch.nn.functional.linear(x, dense.weight * mask, dense.bias)

    def sparse(x):
        return (rows @ x.T).T + dense.bias

    made = {"varve": (layer, [layer.weight, layer.bias]), "sparse": (sparse, [rows, dense.bias]), "masked": (masked, [dense.weight, dense.bias])}
    peer = None if mask.is_cuda else of_sparselab(layer)
    return made if peer is None else {**made, "sparselab": (peer, list(peer.parameters()))}


def seconds(run, parameters, x, dy):
    for tensor in (x, *parameters):
        tensor.grad = None
    if x.is_cuda:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        run(x).backward(dy)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000
    begin = time.process_time()  # of all threads, of which there is one: other work on the machine counts less
    run(x).backward(dy)
    return time.process_time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--widths", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 1024])
    given = parser.parse_args()
    torch.set_num_threads(1)
    is_first = True
    for width in given.widths:
        for density in (32 / width, 0.1):
            layer = SparseLinear(width, width, density).to(given.device)
            made = ways(layer)
            if is_first:
                print(f"{'width':>6} {'batch':>6} {'edges':>9} ", *(f"{name:>9}" for name in made), "  over varve:", *(f"{name:>9}" for name in made))
            is_first = False
            for batch in given.batches:
                x, dy = torch.randn(batch, width, device=given.device, requires_grad=True), torch.randn(batch, width, device=given.device)
                failed = {}
                results = {}
                for name, (run, _) in made.items():
                    results[name] = run(x).detach()
                for name in made:
                    torch.testing.assert_close(results[name], results["masked"], rtol=1e-3, atol=1e-3)
                times = {name: [] for name in made}
                for number in range(given.rounds + 2):
                    for name, (run, parameters) in made.items():
                        if name in failed:
                            continue
                        try:
                            taken = seconds(run, parameters, x, dy)
                        except (RuntimeError, NotImplementedError) as error:
                            failed[name] = str(error)
                            continue
                        if number >= 2:
                            times[name].append(1000 * taken)
                medians = {name: statistics.median(taken) if taken else float("nan") for name, taken in times.items()}
                shown = " ".join(f"{medians[name]:9.2f}" for name in made)
                ratios = " ".join(f"{medians[name] / medians['varve']:9.2f}" for name in made)
                print(f"{width:6} {batch:6} {layer.num_edges:9}  {shown}               {ratios}", *failed.values(), flush=True)


if __name__ == "__main__":
    main()
