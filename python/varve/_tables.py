"""Samples in tables of text, CSV and svmlight, and in archives of numpy.savez: arrays of samples and their answers."""

from __future__ import annotations

import csv
import io
import itertools
import math
import warnings
from typing import Any, Iterable, Iterator

import numpy as np

from . import _foreign
from ._foreign import SVMLIGHT, fail, quote

_LABELS = ("label", "labels", "class", "target", "y")  # names of a column of answers

#: Samples, labels and targets, as varve.Samples holds them.
Parts = tuple[Any, "np.ndarray | None", Any]


def answers_of(answers: np.ndarray) -> tuple[Any, Any]:
    """Labels and targets, of which one is None: whole numbers are labels, all others wanted outputs."""
    if answers.ndim == 1 and answers.dtype.kind in "bui":
        return answers.astype(np.int64), None
    return None, answers.reshape(len(answers), -1)


def read_csv(path: str) -> Parts:
    """A table of numbers with a sample in each row, and commas, semicolons, tabs or spaces between columns; if the first row
    holds names, a column called label, class, target or y holds the answers."""
    with _foreign.opened(path) as file, _foreign.reading(path):
        text = io.TextIOWrapper(file, "utf-8-sig")
        line = text.readline()
        separator = _foreign.separator_of(line)
        names = line.split() if separator is None else next(csv.reader([line], delimiter=separator))
        has_names = not all(_is_number(name) for name in names)
        if has_names and not names[0].strip():
            fail(path, "a CSV file whose first column has no name, as pandas writes row numbers", "none: to_csv(FILE, index=False)")
        try:
            lines = _unquoted(text if has_names else itertools.chain([line], text))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about files without rows
                table = np.loadtxt(lines, delimiter=separator, ndmin=2, comments=None)
        except ValueError as error:
            reason = str(error).split(";")[0].rstrip(".")
            fail(path, f"a CSV file of which {reason[:1].lower()}{reason[1:]}", "numbers alone, of samples in rows")
    if not table.size:
        fail(path, "a CSV file without rows", "samples in rows")
    if table.shape[1] != len(names):
        fail(path, f"a CSV file of {table.shape[1]} columns with {len(names)} names", "as many")
    answers = [number for number, name in enumerate(names) if has_names and name.strip().lower() in _LABELS]
    if len(answers) != 1:
        return table, None, None
    column = table[:, answers[0]]
    is_whole = bool(np.all(column == np.floor(column)) and np.all(np.abs(column) < 2**53))
    return (np.delete(table, answers, axis=1), *answers_of(column.astype(np.int64) if is_whole else column))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unquoted(lines: Iterable[str]) -> Iterator[str]:
    return (line.replace('"', "") for line in lines)


def read_svmlight(path: str, num_features: int | None) -> Parts:
    """Lines "answer number:value ...". Features are numbered from 1, or from 0 if a number 0 is there (as scikit-learn takes
    them); there are as many as the largest number says, or num_features."""
    with _foreign.opened(path) as file, _foreign.reading(path):
        lines = [line.partition(b"#")[0].strip() for line in file]
    lines = [line for line in lines if line]
    counts = np.array([line.count(b":") for line in lines], np.int64)
    pointers = np.concatenate(([0], np.cumsum(counts)))
    try:
        numbers = np.array(b" ".join(lines).replace(b":", b" ").split(), dtype=np.float64)
    except ValueError:
        numbers = np.zeros(0)
    for number, line in enumerate(lines if len(numbers) != len(lines) + 2 * pointers[-1] else ()):
        if not (SVMLIGHT.fullmatch(line) or _is_number(line.decode("latin1"))):
            fail(path, f"an svmlight file with {quote(line.decode('latin1'))} as sample {number}", "an answer and number:value ...")
    is_answer = np.zeros(len(numbers), bool)
    is_answer[np.arange(len(lines)) + 2 * pointers[:-1]] = True
    answers, entries = numbers[is_answer], numbers[~is_answer].reshape(-1, 2)
    columns = entries[:, 0].astype(np.int64)
    if (columns != entries[:, 0]).any():
        fail(path, "an svmlight file with a feature whose number is not a whole number", "number:value")
    first = 0 if (columns == 0).any() else 1
    width = int(columns.max(initial=0)) + 1 - first
    if num_features is not None and width > num_features:
        fail(path, f"an svmlight file with the feature {columns.max()}", f"{num_features} features, from {first} on")
    shape = (len(lines), num_features or width)
    rows = _foreign.csr_of_parts("csr", shape, pointers, columns - first, entries[:, 1], path)
    is_whole = bool(np.all(answers == np.floor(answers)))
    return (rows, *answers_of(answers.astype(np.int64) if is_whole else answers))


def read_savez(path: str) -> Parts | None:
    """The samples X of an archive of numpy.savez, with y, labels or targets; None if it holds no X."""
    with _foreign.npz(path) as (names, member):
        found = {name.removesuffix(".npy"): name for name in names}
        X = next((name for name in ("X", "x", "images") if name in found), None)
        if X is None:
            return None
        labels = next((member(name, "buif", None) for name in ("y", "labels", "targets") if name in found), None)
        array = flattened(member(X, "buif", None), path)
    return (array, None, None) if labels is None else (array, *answers_of(labels))


def flattened(array: np.ndarray, path: str) -> np.ndarray:
    """Samples of several dimensions, such as images, as rows."""
    if array.ndim < 2:
        shape = f"({', '.join(map(str, array.shape))})"
        fail(path, f"an array of the shape {shape}", "two dimensions, a sample in each row, or more")
    return array.reshape(len(array), math.prod(array.shape[1:]))
