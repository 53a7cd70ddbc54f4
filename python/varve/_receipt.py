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
PROOF = "varve sample proof"
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

    def prove(self, sample: int) -> dict[str, Any]:
        """The proof of one sample, which :func:`audit` checks without the other samples, as ``varve audit --prove`` writes it.

        :param sample: its place in the receipt, from 0
        :returns: an object for JSON
        :raises UsageError: if there is no such sample
        """
        if not 0 <= sample < len(self.inputs):
            raise UsageError(f"sample is {sample}, expected one of 0 to {len(self.inputs) - 1}")
        digests = {"input": self.inputs, "output": self.outputs}
        proof = {"kind": PROOF, "version": VERSION, "bound": self.bound, "digest": self.digest, "made_by": self.made_by}
        proof["sample"] = self.bound["first_sample"] + sample
        proof.update({name: leaves[sample].hex() for name, leaves in digests.items()})
        proof.update({f"{name}_path": b"".join(path_of(leaves, sample)).hex() for name, leaves in digests.items()})
        return proof

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
        found = self.contradictions() or _other_network(self.bound, network)
        if found:
            return found
        rows = _compressed(_files.samples_of(X, network.num_inputs))
        first = self.bound["first_sample"] - 1
        digests = leaves_of(b"input", first, rows)
        if len(digests) != len(self.inputs):
            return [f"X has {len(digests)} samples, and the receipt {len(self.inputs)}"]
        differing = [place for place, digest in enumerate(digests) if digest != self.inputs[place]]
        if differing:
            return [f"sample {differing[0]} of X is not that of the receipt"]
        drawn = np.sort(np.random.default_rng(seed).permutation(len(digests))[:num_samples])
        activations = _infer(self.bound, network, rows[drawn], backend)
        for row, place in enumerate(drawn):
            if leaves_of(b"output", first + int(place), activations[[row]])[0] != self.outputs[place]:
                found.append(f"the last activations of sample {place} are not those of the receipt")
        return found


class TrainingReceipt:
    """What binds a training to its network, samples, answers and recipe: made by :attr:`Training.receipt`, checked by ``varve audit``.

    ``varve train --receipt`` makes equal ones of equal work. ``docs/audit.md`` says what is proven, and defines every digest.
    """

    def __init__(self, content: str) -> None:
        self._content = content  # as varve audit reads it
        found = json.loads(content)
        self.bound: dict[str, Any] = found["bound"]  #: numerics, network, inputs, answers, recipe, every, steps, states, result
        self.digest: str = found["digest"]  #: SHA-256 of the bound part: equal for trainings with the same result

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Write the receipt as JSON. The file appears whole or not at all."""
        with appearing(os.fspath(path)) as file:
            file.write(self._content.encode())

    def __repr__(self) -> str:
        return f"<varve.TrainingReceipt: {self.bound['steps']} steps, digest {self.digest}>"


def audit(receipt: Any, network: Network, X: Any, *, num_samples: int = 10, seed: int | None = None, backend: str | None = None) -> list[str]:
    """Check a receipt of inference, or the proof of one of its samples, by computing again.

    :param receipt: a :class:`Receipt`, a proof of :meth:`Receipt.prove`, or the name of a file with one of them; the command
        ``varve audit`` checks receipts of training
    :param network: the network that it is said to be of
    :param X: all samples of the receipt [samples, inputs]; of a proof, its sample alone [1, inputs]
    :param num_samples: how many are drawn at random, of a receipt
    :param seed: draws the samples that this number gives
    :param backend: where they are computed; the fastest by default
    :returns: what differs, one sentence each; empty if all is as it says
    :raises InputError: if a file holds something else, or if it is of other numerics than this package's
    """
    if isinstance(receipt, (str, os.PathLike)):
        receipt = _proof_in(receipt) or Receipt.load(receipt)
    if isinstance(receipt, Receipt):
        return receipt.audit(network, X, num_samples=num_samples, seed=seed, backend=backend)
    return _audit_proof(receipt, network, X, backend)


def _proof_in(path: Union[str, os.PathLike[str]]) -> dict[str, Any] | None:
    """The proof in a file; None if it holds something else."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("kind") == PROOF else None


def _audit_proof(proof: dict[str, Any], network: Network, X: Any, backend: str | None) -> list[str]:
    try:
        bound = {name: proof["bound"][name] for name in _BOUND}
        place = proof["sample"] - bound["first_sample"]
        leaves = {name: bytes.fromhex(proof[name]) for name in ("input", "output")}
        paths = {name: _split(proof[f"{name}_path"]) for name in leaves}
        if proof["kind"] != PROOF or not (_is_sound(bound) and 0 <= place < bound["samples"]):
            raise KeyError("bound")
    except (KeyError, TypeError, ValueError):
        raise InputError("found something else, expected a proof of Receipt.prove or varve audit --prove") from None
    found = [] if Receipt(bound, [], []).digest == proof.get("digest") else ["its digest is not that of its bound part"]
    for name, leaf in leaves.items():
        root = root_by(leaf, place, bound["samples"], paths[name])
        if root is None or root.hex() != bound[f"{name}s"]:
            found.append(f"the path of its {name} leads to another root")
    found = found or _other_network(bound, network)
    if found:
        return found
    row = _compressed(_files.samples_of(X, network.num_inputs))
    if row.shape[0] != 1:
        raise InputError(f"X has {row.shape[0]} samples, expected the one of the proof")
    number = proof["sample"] - 1
    if leaves_of(b"input", number, row)[0] != leaves["input"]:
        return ["X is not the sample of the proof"]
    if leaves_of(b"output", number, _infer(bound, network, row, backend))[0] != leaves["output"]:
        return ["the last activations are not those of the proof"]
    return []


def _other_network(bound: dict[str, Any], network: Network) -> list[str]:
    """A sentence if the network is not that of a bound part."""
    if bound["numerics"] != _core.numerics:
        raise InputError(f"the receipt is of numerics {bound['numerics']}, and this package computes by numerics {_core.numerics}")
    return [] if network_digest(network).hex() == bound["network"] else ["the network is not that of the receipt"]


def _infer(bound: dict[str, Any], network: Network, rows: Any, backend: str | None) -> Any:
    """Last activations with the options that a bound part says."""
    options = {
        "precision": "float64" if bound["precision"] == "double" else "float32",
        "reductions": ",".join(bound["reductions"]) or "none",
        "edge_order": bound["edge_order"],
    }
    return network.infer(rows, backend=backend, sparse=True, **options)


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
        content = head + columns[begin:end].tobytes() + _once(values[begin:end])
        digests.append(hashlib.sha256(b"\0varve " + kind + b" 1\n" + content).digest())
    return digests


def root_of(leaves: list[bytes]) -> bytes:
    """The root of a Merkle tree of the shape of RFC 6962."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return _node(root_of(leaves[:half]), root_of(leaves[half:]))


def path_of(leaves: list[bytes], place: int) -> list[bytes]:
    """The roots beside the path from a leaf up to the root, from below."""
    if len(leaves) < 2:
        return []
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    if place < half:
        return [*path_of(leaves[:half], place), root_of(leaves[half:])]
    return [*path_of(leaves[half:], place - half), root_of(leaves[:half])]


def root_by(leaf: bytes, place: int, count: int, path: list[bytes]) -> bytes | None:
    """The root to which a path leads from a leaf at this place of `count`; None if it has another length."""
    if count < 2 or not path:
        return leaf if count < 2 and not path else None
    half = 1 << ((count - 1).bit_length() - 1)
    is_left = place < half
    below = root_by(leaf, place if is_left else place - half, half if is_left else count - half, path[:-1])
    if below is None:
        return None
    return _node(below, path[-1]) if is_left else _node(path[-1], below)


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _layer_digest(layer: Any) -> bytes:
    weights, name = layer.weights, layer.activation.name.encode()
    hashed = hashlib.sha256(b"varve layer 1\n" + struct.pack("<QQQQ", *weights.shape, weights.nnz, len(name)) + name)
    hashed.update(struct.pack("<d", layer.activation.parameter or 0.0))
    hashed.update(_once(np.broadcast_to(layer.bias, weights.shape[0])))
    hashed.update(weights.indptr.astype("<u8").tobytes() + weights.indices.astype("<u4").tobytes())
    hashed.update(_once(weights.data))
    return hashed.digest()


def _once(numbers: Any) -> bytes:
    """The bytes of numbers, of which the first stands for all if all have its bits."""
    numbers = numbers.astype("<f8")
    bits = numbers.view("<u8")
    return (numbers[:1] if (bits == bits[:1]).all() else numbers).tobytes()


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
