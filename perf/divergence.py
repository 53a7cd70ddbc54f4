#!/usr/bin/env python3
"""How far the code of the backends differs: the lines of src and include that each compiles, and the distance of each pair.

The distance of two backends is that of their sets of lines (Jaccard): the lines that one of the two alone compiles, as a part of all lines of both. Code
divergence is its mean over all pairs (Harrell and Kitson, "Effective performance portability", 2018): 0 for one source, 1 for backends that
share nothing. A line counts if it holds more than a comment. A backend compiles what the preprocessor leaves in one of
its passes: by the compiler of the host, and by that of the GPU for the host and for the device. What a template is compiled for does not count.

  perf/divergence.py
"""
import functools
import hashlib
import itertools
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
ALL_MACROS = ["KOKKOS_ENABLE_OPENMP", "KOKKOS_ENABLE_CUDA", "KOKKOS_ENABLE_HIP", "VARVE_GPU", "__NVCC__", "__CUDACC__", "__HIPCC__",
              "__CUDA_ARCH__", "__HIP_DEVICE_COMPILE__"]
CUDA, HIP = ["KOKKOS_ENABLE_CUDA", "VARVE_GPU"], ["KOKKOS_ENABLE_HIP", "VARVE_GPU"]
PASSES = {  # of each backend: what is defined
    "openmp": [["KOKKOS_ENABLE_OPENMP"]],
    "cuda": [CUDA, CUDA + ["__NVCC__", "__CUDACC__"], CUDA + ["__NVCC__", "__CUDACC__", "__CUDA_ARCH__=900"]],
    "hip": [HIP, HIP + ["__HIPCC__"], HIP + ["__HIPCC__", "__HIP_DEVICE_COMPILE__"]],
}
TUNING = {"openmp": "host", "cuda": "cuda", "hip": "hip"}  # the file of src/kernels/tuning that is a backend's own


def code_lines(text):
    """The numbers, from 1, of the lines that hold more than a comment."""
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    return {number for number, line in enumerate(text.split("\n"), 1) if line.strip() and not line.strip().startswith("//")}


def joined(text):
    """The lines of a text; a line that goes on has what follows it, too, and its followers are empty."""
    return re.sub(r"(?:[^\n]*\\\n)+[^\n]*", lambda found: found[0].replace("\\\n", " ") + "\n" * found[0].count("\n"), text).split("\n")


@functools.cache
def lines_of(path):
    """The numbers of the code lines of a file, and all its lines, numbered."""
    lines = joined(path.read_text(encoding="utf-8"))
    return code_lines("\n".join(lines)), list(enumerate(lines, 1))


def holds(condition, defined):
    """Whether the condition of an #if holds where these macros alone are defined; None if it asks for others than ALL_MACROS."""
    values = dict(macro.partition("=")[::2] for macro in defined)
    asked = re.findall(r"[A-Za-z_]\w*", re.sub(r"\bdefined\b", "", condition))
    if any(name not in ALL_MACROS for name in asked):
        return None
    text = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?", lambda found: str(found[1] in values), condition)
    text = re.sub(r"[A-Za-z_]\w*", lambda found: found[0] if found[0] in ("True", "False") else values.get(found[0]) or "0", text)
    return bool(eval(text.replace("&&", " and ").replace("||", " or ").replace("!", " not "), {"__builtins__": {}}))


def compiled_lines(path, defined):
    """The lines of a file that the preprocessor leaves where these macros are defined, and no other of ALL_MACROS. Conditions on other macros
    are left with all their branches."""
    lines, numbered = lines_of(path)
    left = set()
    open_ones = []  # of each condition around a line: whether its branch is compiled, and whether one before it surely was
    for number, line in numbered:
        directive = re.match(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b([^/]*)", line)
        if directive is None:
            if number in lines and all(is_taken for is_taken, _ in open_ones):
                left.add(number)
            continue
        word, condition = directive[1], directive[2]
        if word in ("ifdef", "ifndef"):
            condition = f"{'!' if word == 'ifndef' else ''}defined({condition.strip()})"
        was_taken = open_ones.pop()[1] if word in ("elif", "else", "endif") else False
        if word == "endif":
            continue
        is_true = True if word == "else" else holds(condition, defined)
        open_ones.append((not was_taken and is_true is not False, was_taken or is_true is True))
    return left


def sources():
    return sorted(path for folder in ("src", "include") for path in (ROOT / folder).rglob("*")
                  if path.name.endswith((".cpp", ".hpp", ".cpp.in", ".hpp.in")))


def lines_by_backend():
    """By backend and file: the numbers of the lines that it compiles."""
    found = {backend: {} for backend in PASSES}
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        for backend, passes in PASSES.items():
            is_of_another = path.parent.name == "tuning" and path.stem in set(TUNING.values()) - {TUNING[backend]}
            lines = set() if is_of_another else set().union(*(compiled_lines(path, defined) for defined in passes))
            if lines:
                found[backend][name] = lines
    return found


def distance(one, other):
    """The Jaccard distance of two backends' lines."""
    one, other = ({(name, line) for name, lines in files.items() for line in lines} for files in (one, other))
    return 1 - len(one & other) / len(one | other)


def divergence(found):
    """Distances by pair, and their mean."""
    distances = {pair: distance(found[pair[0]], found[pair[1]]) for pair in itertools.combinations(found, 2)}
    return distances, sum(distances.values()) / len(distances)


def coverage_rows(found):
    """By backend what p3-analysis takes as coverage: a list of files in JSON, with the lines that are used and those that are not."""
    texts = {path.relative_to(ROOT).as_posix(): path for path in sources()}
    for backend, files in found.items():
        yield backend, json.dumps([{"file": name, "id": hashlib.sha256(path.read_bytes()).hexdigest(), "used_lines": sorted(files.get(name, set())),
                                    "unused_lines": sorted(lines_of(path)[0] - files.get(name, set()))} for name, path in texts.items()])


def section(found):
    """The lines of a section of Markdown."""
    shared = set.intersection(*({(name, line) for name, lines in files.items() for line in lines} for files in found.values()))
    distances, mean = divergence(found)
    counts = ", ".join(f"{sum(map(len, files.values()))} by {backend}" for backend, files in found.items())
    pairs = ", ".join(f"{one} and {other} {100 * part:.2f} %" for (one, other), part in distances.items())
    return ["## Code divergence", "",
            f"Lines of src and include that are compiled: {counts}; {len(shared)} by all. Jaccard distances: {pairs}; their mean, the code divergence, "
            f"is {100 * mean:.2f} % (perf/divergence.py)."]


if __name__ == "__main__":
    print("\n".join(section(lines_by_backend())))
