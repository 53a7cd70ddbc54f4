"""Receipts of inference: docs/audit.md in Python, which shares no code with the command's."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _arrays, _core, _files
from ._container import appearing
from ._errors import InputError, UsageError

if TYPE_CHECKING:
    from ._network import Network

KIND = "varve inference receipt"
VERSION = 1
_BOUND = {
    "numerics": int, "network": str, "precision": str, "edge_order": str, "reductions": list, "first_sample": int, "samples": int,
    "inputs": str, "outputs": str,
}  # fmt: skip
CHANGING = ("merge_neurons", "fold_constants", "drop_unread")  #: the reductions that change sums


@dataclass(frozen=True)
class Receipt:
    """What binds an inference to its network and samples, so that anybody can check it by computing samples again.

    Made by :meth:`Network.receipt` or ``varve infer --receipt``; both make equal ones of equal work. ``docs/audit.md`` says
    what is proven, and defines every digest.
    """

    bound: dict[str, Any]  #: numerics, network, precision, edge_order, reductions, first_sample, samples, inputs, outputs
    inputs: list[bytes] = field(repr=False)  #: digest of each sample
    outputs: list[bytes] = field(repr=False)  #: digest of the last activations of each sample
    made_by: dict[str, Any] = field(default_factory=dict, compare=False)  #: for readers; not bound
    claimed: str | None = field(default=None, repr=False, compare=False)  #: the digest that a file states

    @property
    def digest(self) -> str:
        """SHA-256 of the bound part, 64 hexadecimal digits: equal for runs of the same work with the same result."""
        return hashlib.sha256(json.dumps(self.bound, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Receipt:
        """Read a receipt.

        :raises InputError: if the file is none
        """
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        except ValueError as error:
            raise InputError(f"{os.fspath(path)}: found no JSON, expected a receipt ({error})") from None
        try:
            if (found["kind"], found["version"]) != (KIND, VERSION):
                raise KeyError("kind")
            bound = {name: found["bound"][name] for name in _BOUND}  # in the order of the digest
            if not _is_sound(bound):
                raise KeyError("bound")
            inputs, outputs = _split(found["input_leaves"]), _split(found["output_leaves"])
            if {len(inputs), len(outputs)} != {bound["samples"]}:
                raise InputError(f"{os.fspath(path)}: found other numbers of digests than samples")
            return cls(bound, inputs, outputs, found["made_by"], found["digest"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(f"{os.fspath(path)}: found another file, expected a receipt of varve infer --receipt") from None

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Write the receipt as JSON; ``varve audit`` reads it. The file appears whole or not at all."""
        leaves = {f"{name}_leaves": b"".join(getattr(self, f"{name}s")).hex() for name in ("input", "output")}
        content = {"kind": KIND, "version": VERSION, "bound": self.bound, "digest": self.digest, "made_by": self.made_by, **leaves}
        with appearing(os.fspath(path)) as file:
            file.write(json.dumps(content, indent=2).encode() + b"\n")

    def contradictions(self) -> list[str]:
        """What in the receipt contradicts itself, so that it must have been altered; empty for a sound one."""
        found = []
        if self.claimed not in (None, self.digest):
            found.append("its digest is not that of its bound part")
        for name in ("inputs", "outputs"):
            if root_of(getattr(self, name)).hex() != self.bound[name]:
                found.append(f"the digests of its {name} have another root")
        return found

    def differences(self, other: Receipt) -> list[str]:
        """What differs between two receipts, the first sample that differs included; empty for receipts of equal work."""
        found = [f"{name}: {value} and {other.bound.get(name)}" for name, value in self.bound.items() if value != other.bound.get(name)]
        if self.bound["first_sample"] == other.bound["first_sample"]:
            for name in ("input", "output"):
                pairs = enumerate(zip(getattr(self, f"{name}s"), getattr(other, f"{name}s")))
                first = next((place for place, (one, two) in pairs if one != two), None)
                if first is not None:
                    found.append(f"sample {first} of the receipts is the first with another {name}")
        return found

    def audit(
        self, network: Network, X: Any, *, num_samples: int = 10, seed: int | None = None, backend: str | None = None
    ) -> list[str]:
        """Compute some samples again, and compare all that the receipt binds.

        :param network: the network that the receipt is said to be of
        :param X: all samples of the receipt [samples, inputs]
        :param num_samples: how many are drawn at random
        :param seed: draws the samples that this number gives
        :param backend: where they are computed; the fastest by default
        :returns: what differs, one sentence each; empty if all is as in the receipt
        :raises InputError: if the receipt is of other numerics than this package's
        """
        if not num_samples > 0:
            raise UsageError(f"num_samples is {num_samples}, expected a number above 0")
        found = self.contradictions()
        if found:
            return found
        if self.bound["numerics"] != _core.numerics:
            raise InputError(f"the receipt is of numerics {self.bound['numerics']}, and this package computes by numerics {_core.numerics}")
        if network_digest(network).hex() != self.bound["network"]:
            return ["the network is not that of the receipt"]
        rows = _compressed(_files.samples_of(X, network.num_inputs))
        first = self.bound["first_sample"] - 1
        digests = leaves_of(b"input", first, rows)
        if len(digests) != len(self.inputs):
            return [f"X has {len(digests)} samples, and the receipt {len(self.inputs)}"]
        differing = [place for place, digest in enumerate(digests) if digest != self.inputs[place]]
        if differing:
            return [f"sample {differing[0]} of X is not that of the receipt"]
        drawn = np.sort(np.random.default_rng(seed).permutation(len(digests))[:num_samples])
        options = {
            "precision": "float64" if self.bound["precision"] == "double" else "float32",
            "reductions": ",".join(self.bound["reductions"]) or "none",
            "edge_order": self.bound["edge_order"],
        }
        activations = network.infer(rows[drawn], backend=backend, sparse=True, **options)
        for row, place in enumerate(drawn):
            if leaves_of(b"output", first + int(place), activations[[row]])[0] != self.outputs[place]:
                found.append(f"the last activations of sample {place} are not those of the receipt")
        return found


def _is_sound(bound: dict[str, Any]) -> bool:
    """True if the bound part of a file has the types that it must have; what it says may still be wrong."""
    are_of_type = all(type(bound[name]) is kind for name, kind in _BOUND.items())
    return (
        are_of_type
        and bound["precision"] in ("float", "double")
        and all(type(name) is str for name in bound["reductions"])
        and 1 <= bound["first_sample"] < 2**64
    )


def receipt_of(network: Network, X: Any, first_sample: int, precision: Any, reductions: str, edge_order: str, options: Any) -> Receipt:
    """See Network.receipt."""
    rows = _compressed(_files.samples_of(X, network.num_inputs))
    run = network.run(rows, precision=precision, reductions=reductions, edge_order=edge_order, sparse=True, **options)
    inputs = leaves_of(b"input", first_sample, rows)
    outputs = leaves_of(b"output", first_sample, run.activations)
    bound = {
        "numerics": _core.numerics,
        "network": network_digest(network).hex(),
        "precision": "double" if _arrays.to_precision(precision) == "float64" else "float",
        "edge_order": edge_order,
        "reductions": [name for name in CHANGING if reductions == "auto" or name in reductions.split(",")],
        "first_sample": first_sample + 1,
        "samples": len(inputs),
        "inputs": root_of(inputs).hex(),
        "outputs": root_of(outputs).hex(),
    }
    return Receipt(bound, inputs, outputs, {"program": "varve for Python", "version": _core.version})


def network_digest(network: Network) -> bytes:
    """The digest of a network, over all its layers."""
    layers = [_layer_digest(layer) for layer in network]
    return hashlib.sha256(b"varve network 1\n" + struct.pack("<Q", len(layers)) + b"".join(layers)).digest()


def leaves_of(kind: bytes, first: int, rows: Any) -> list[bytes]:
    """The digests of the rows of a csr_array, numbered from `first`; kind: b"input" or b"output"."""
    rows = _compressed(rows)
    columns, values = rows.indices.astype("<u4"), rows.data.astype("<f8")
    digests = []
    for row, (begin, end) in enumerate(zip(rows.indptr, rows.indptr[1:])):
        head = struct.pack("<QQ", first + row, end - begin)
        content = head + columns[begin:end].tobytes() + values[begin:end].tobytes()
        digests.append(hashlib.sha256(b"\0varve " + kind + b" 1\n" + content).digest())
    return digests


def root_of(leaves: list[bytes]) -> bytes:
    """The root of a Merkle tree of the shape of RFC 6962."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + root_of(leaves[:half]) + root_of(leaves[half:])).digest()


def _layer_digest(layer: Any) -> bytes:
    weights, name = layer.weights, layer.activation.name.encode()
    hashed = hashlib.sha256(b"varve layer 1\n" + struct.pack("<QQQQ", *weights.shape, weights.nnz, len(name)) + name)
    hashed.update(struct.pack("<d", layer.activation.parameter or 0.0))
    for numbers in (
        np.broadcast_to(layer.bias, weights.shape[0]).astype("<f8"),
        weights.indptr.astype("<u8"),
        weights.indices.astype("<u4"),
        weights.data.astype("<f8"),
    ):
        hashed.update(numbers.tobytes())
    return hashed.digest()


def _compressed(rows: Any) -> Any:
    """The nonzeros of samples as a csr_array of float64 with ascending columns."""
    from scipy.sparse import csr_array

    if not _arrays.is_sparse(rows):
        rows = _arrays.to_numpy(rows, "X")
    compressed = csr_array(rows, dtype=np.float64, copy=True)
    compressed.sum_duplicates()
    compressed.eliminate_zeros()
    return compressed


def _split(digits: str) -> list[bytes]:
    content = bytes.fromhex(digits)
    if len(content) % 32:
        raise ValueError
    return [content[place : place + 32] for place in range(0, len(content), 32)]
