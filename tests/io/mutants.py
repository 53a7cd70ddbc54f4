#!/usr/bin/env python3
"""Reads all one-byte mutants of four files that h5py writes: run by hand, for it takes minutes.

    cmake --build build/openmp --target io_mutants && /usr/bin/python3 tests/io/mutants.py build/openmp/tests/io/io_mutants [--all]

The files are those of src/io/FORMAT.md: a network with texts of variable length (as str is written by h5py), one with texts of
fixed length, samples with texts of variable length, and a network whose lists are stored in compressed chunks. Exit code 0 if no mutant crashed the reader, took it more than 10
seconds or more than 1 GiB.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy
import scipy.sparse


def write_matrix(group, matrix, text, **storage):
    matrix = scipy.sparse.csr_array(matrix)
    matrix.sum_duplicates()
    for name, array in [("pointers_to_1", matrix.indptr), ("indices_1", matrix.indices), ("values", matrix.data)]:
        group.create_dataset(name, data=array, **storage)
    types = {name: str(array.dtype) for name, array in group.items()}
    group.attrs["binsparse"] = text(json.dumps({"binsparse": {
        "version": "0.1.0", "format": "CSR", "shape": matrix.shape, "number_of_stored_values": matrix.nnz, "data_types": types}}))


def write_network(path, text, **storage):
    with h5py.File(path, "w") as file:
        file.attrs.update(format=text("varve-network"), version=1)
        layer = file.create_group("layers/000000")
        layer.attrs.update(activation=text("clipped_relu"), cap=32.0)
        layer["bias"] = -0.25
        write_matrix(layer.create_group("weights"), scipy.sparse.random(8, 8, density=0.5, random_state=1), text, **storage)


def write_samples(path, text):
    with h5py.File(path, "w") as file:
        file.attrs.update(format=text("varve-samples"), version=1, first_sample=0)
        write_matrix(file.create_group("samples"), scipy.sparse.random(5, 8, density=0.5, random_state=7), text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_network(folder / "network-variable.safetensors", str)
        write_network(folder / "network-fixed.safetensors", numpy.bytes_)
        write_samples(folder / "samples-variable.safetensors", str)
        write_network(folder / "network-chunks.safetensors", numpy.bytes_, chunks=(5,), shuffle=True, compression="gzip", fletcher32=True)
        runs = [subprocess.Popen([*sys.argv[1:], str(path)]) for path in sorted(folder.iterdir())]
        sys.exit(max(run.wait() for run in runs))


if __name__ == "__main__":
    main()
