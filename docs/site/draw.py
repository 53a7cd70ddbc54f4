#!/usr/bin/env python3
"""Draws the pictures of README.md, docs/concepts.md and docs/examples into docs/pictures.

  docs/site/draw.py            writes them
  docs/site/draw.py --check    exit code 1 if a picture differs from what would be written

The speeds in overview.svg are those of the first table in perf/RESULTS.md, the numbers in classifier.svg those of its page.
"""
import argparse
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

BLUE, GREEN, RED, SAND, GREY, INK = "#3b6ea8", "#2b8a57", "#b5523b", "#c9a227", "#c3c7cc", "#24292f"
PALE = {BLUE: "#dbe6f3", GREEN: "#d7ecdf", RED: "#f3ddd6", SAND: "#f5ecc9", GREY: "#eef0f2"}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def first_table(text):
    """The rows of the first table in a page of Markdown, each by the names of its columns."""
    lines = iter(text.splitlines())
    names = cells(next(line for line in lines if line.startswith("|")))
    next(lines)  # the rule below the names
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


class Picture:
    def __init__(self, width, height):
        self.size = (width, height)
        self.parts = [f'<rect width="{width}" height="{height}" rx="8" fill="white" stroke="{GREY}"/>']

    def box(self, x, y, width, height, colour, text="", pale=True, size=12):
        fill = PALE[colour] if pale else colour
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}" stroke="{colour}"/>')
        if text:
            self.text(x + width / 2, y + height / 2 + size / 3, text, size=size, anchor="middle")

    def circle(self, x, y, radius, colour, filled=True):
        fill = colour if filled else "white"
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>')

    def line(self, x, y, to_x, to_y, colour=GREY, width=1.0, arrow=False):
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self.parts.append(f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" stroke="{colour}" stroke-width="{width:g}" fill="none"{end}/>')

    def text(self, x, y, text, size=12, anchor="start", colour=INK, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>{text}</text>')

    def svg(self):
        width, height = self.size
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n'
                '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"


def network(picture, columns, top, spacing, active):
    """Columns of neurons at the given x, each neuron with two edges from the column before; active[column] neurons carry a value."""
    rows = 6
    for column in range(1, len(columns)):
        for row in range(rows):
            for source in (row, (row + 2 ** (column % 3)) % rows):
                live = row in active[column] and source in active[column - 1]
                picture.line(columns[column - 1], top + spacing * source, columns[column], top + spacing * row,
                             BLUE if live else GREY, 1.6 if live else 0.8)
    for column, x in enumerate(columns):
        for row in range(rows):
            picture.circle(x, top + spacing * row, 6, BLUE, row in active[column])


def overview():
    picture = Picture(900, 300)
    picture.text(20, 28, "A sample passes through thousands of sparse layers", 13, bold=True)
    columns = [60, 130, 200, 270, 340]
    network(picture, columns, 70, 28, [{0, 2, 3, 5}, {0, 2, 3, 4}, {0, 2, 4}, {0, 4}, {0}])
    for x, label in zip(columns, ["input", "layer 1", "layer 2", "layer 3", "layer 4"], strict=True):
        picture.text(x, 238, label, 11, "middle")
    picture.text(368, 148, "· · ·", 16)
    picture.box(400, 92, 66, 26, GREEN, "survives", size=11)
    picture.box(400, 178, 66, 26, GREY, "all zero", size=11)
    picture.text(20, 262, "y = clip(W x + b). A sample whose activations are all zero is dropped;", 11)
    picture.text(20, 280, "the others are compacted, so later layers do less work.", 11)

    picture.line(490, 20, 490, 280)
    picture.text(510, 28, "60000 images on one H200, milliseconds (log scale)", 13, bold=True)
    rows = {row["network"]: row for row in first_table((ROOT / "perf" / "RESULTS.md").read_text(encoding="utf-8"))}
    bars = [("published, fastest, ms", "fastest published", RED), ("every neuron, ms", "Varve, every neuron", BLUE),
            ("default, ms", "Varve, default", GREEN)]
    y = 50
    for name in ("1024x120", "16384x120", "65536x120"):
        picture.text(510, y + 31, name, 12)
        for column, _, colour in bars:
            value = rows[name][column]
            width = 62 * (math.log10(float(value)) + 1)
            picture.box(590, y, width, 15, colour, pale=False)
            picture.text(595 + width, y + 12, value, 11)
            y += 19
        y += 12
    for (_, label, colour), x in zip(bars, (510, 640, 785), strict=True):
        picture.box(x, 262, 12, 12, colour, pale=False)
        picture.text(x + 17, 272, label, 11)
    return picture


def compaction():
    picture = Picture(760, 250)
    picture.text(20, 28, "Compaction: samples that died leave, and the others move together", 14, bold=True)
    stages = [("after layer 8", [1, 0, 1, 1, 0, 0, 1, 0]), ("compacted", [1, 1, 1, 1]), ("after layer 16", [1, 0, 0, 1]), ("compacted", [1, 1])]
    for stage, (label, samples) in enumerate(stages):
        x = 40 + 185 * stage
        for slot, live in enumerate(samples):
            picture.box(x + 13 * (slot % 4) * 2, 60 + 70 * (slot // 4), 22, 60, GREEN if live else GREY)
        picture.text(x, 218, label, 12)
        if stage < len(stages) - 1:
            picture.line(x + 112, 125, x + 172, 125, INK, 1.2, arrow=True)
    picture.text(20, 240, "A bar is a sample (green: live). Four bars are a tile. Two tiles become one, so the next layer does half the work.", 11)
    return picture


def merging():
    picture = Picture(760, 260)
    picture.text(20, 28, "Merging: equal neurons are computed once", 14, bold=True)
    for offset, merged in ((0, False), (390, True)):
        inputs = [(offset + 50, 70 + 45 * row) for row in range(4)]
        outputs = [(offset + 300, 80), (offset + 300, 170)]
        middle = [(offset + 175, 70, RED), (offset + 175, 115, RED), (offset + 175, 160, RED), (offset + 175, 205, BLUE)]
        if merged:
            middle = [middle[1], middle[3]]
        for x, y, colour in middle:
            for source in ((0, 1) if colour == RED else (2, 3)):
                picture.line(*inputs[source], x, y, colour)
        for x, y, colour in middle:
            for out, (to_x, to_y) in enumerate(outputs):
                picture.line(x, y, to_x, to_y, colour)
                if (x, y) == middle[0][:2]:
                    picture.text(to_x - 62, to_y - (4 if out == 0 else -14), "3w" if merged else "w", 11, colour=RED)
        for x, y in inputs + outputs:
            picture.circle(x, y, 8, INK, False)
        for x, y, colour in middle:
            picture.circle(x, y, 9, colour)
    picture.line(345, 130, 400, 130, INK, 1.2, arrow=True)
    picture.text(20, 246, "The red neurons have equal inputs, weights and biases. One stays; the weights of the edges that leave it are added.", 11)
    return picture


def tiles():
    picture = Picture(760, 270)
    picture.text(20, 28, "Tiles: neighbouring lanes hold neighbouring samples", 14, bold=True)
    picture.text(40, 58, "a tile: neurons x 8 samples", 12)
    for row in range(6):
        for lane in range(8):
            picture.box(40 + 26 * lane, 68 + 24 * row, 24, 22, BLUE if row in (1, 4) else GREY)
        picture.text(258, 84 + 24 * row, f"neuron {row}", 11, colour=BLUE if row in (1, 4) else INK)
    picture.line(335, 104, 400, 134, INK, 1.2, arrow=True)
    picture.line(335, 176, 400, 150, INK, 1.2, arrow=True)
    picture.box(408, 128, 110, 30, SAND, "w1 x1 + w4 x4", size=11)
    picture.line(520, 143, 545, 143, INK, 1.2, arrow=True)
    for lane in range(8):
        picture.box(552 + 24 * lane, 132, 22, 22, GREEN)
    picture.text(552, 174, "one output of all 8 samples", 11)
    picture.text(20, 240, "An edge is one weight and one index. The index is read once and serves all samples of the tile,", 11)
    picture.text(20, 258, "and the activations that it selects are adjacent in memory.", 11)
    return picture


def plan():
    picture = Picture(760, 250)
    picture.text(20, 28, "The plan: a format and a kernel for each layer, and which layers run in one launch", 14, bold=True)
    launches = [(1, "layer 0", "counts kernel", "edges by input", SAND), (2, "layers 1-5", "cones kernel", "programs", GREEN),
                (3, "layers 6-119", "fused kernel", "pattern blocks", BLUE)]
    x = 40
    for length, layers, kernel, form, colour in launches:
        width = 70 + 70 * length
        picture.box(x, 60, width, 96, colour)
        for text, y, bold in ((layers, 88, True), (kernel, 112, False), (form, 134, False)):
            picture.text(x + width / 2, y, text, 12, "middle", bold=bold)
        picture.text(x + width / 2, 176, "one launch" if length < 3 else "several launches", 11, "middle")
        if length < 3:
            picture.line(x + width + 2, 108, x + width + 26, 108, INK, 1.2, arrow=True)
        x += width + 30
    picture.text(20, 212, "The choice depends on the layer (neurons, edges, pattern), on the number of samples and on the device.", 11)
    picture.text(20, 232, "varve info NETWORK --plan prints it with its reasons. No choice changes a bit of the result.", 11)
    return picture


def pruning():
    picture = Picture(760, 250)
    picture.text(20, 28, "Pruning: the smallest weights become zeros, and zeros are no edges", 14, bold=True)
    weights = [[(7 * row + 5 * column + row * column) % 10 for column in range(8)] for row in range(6)]
    for place, (label, floor) in enumerate((("all weights", 0), ("nine tenths are zeros", 9))):
        for row, values in enumerate(weights):
            for column, value in enumerate(values):
                kept = value >= floor
                picture.box(40 + 230 * place + 22 * column, 56 + 22 * row, 20, 20, BLUE if kept else GREY, pale=value < 7 or not kept)
        picture.text(40 + 230 * place, 210, label, 12)
        picture.line(222 + 230 * place, 120, 262 + 230 * place, 120, INK, 1.2, arrow=True)
    for side, x, count in (("in", 520, 8), ("out", 690, 6)):
        for number in range(count):
            picture.circle(x, 62 + 18 * number + (18 if side == "out" else 0), 6, BLUE, False)
    for row, values in enumerate(weights):
        for column, value in enumerate(values):
            if value >= 9:
                picture.line(526, 62 + 18 * column, 684, 80 + 18 * row, BLUE, 1.6)
    picture.text(520, 222, "the edges that Varve keeps", 12)
    return picture


def classifier():
    """Accuracy and edges as docs/examples/sparse-classifier.md prints them."""
    text = (ROOT / "docs" / "examples" / "sparse-classifier.md").read_text(encoding="utf-8")
    sparse, dense = (re.search(rf"^{name}.*: (\d+) edges, accuracy ([\d.]+)", text, re.MULTILINE) for name in ("sparse from the beginning", "dense"))
    pruned = re.search(r"^pruned: (\d+) edges, accuracy ([\d.]+), after more training ([\d.]+)", text, re.MULTILINE)
    bars = [("dense", dense[1], dense[2], RED), ("sparse from the beginning", sparse[1], sparse[2], GREEN), ("pruned", pruned[1], pruned[2], SAND),
            ("pruned, trained again", pruned[1], pruned[3], BLUE)]
    picture = Picture(760, 200)
    picture.text(20, 28, "Accuracy on 450 digits that no network was trained with", 14, bold=True)
    for number, (label, edges, accuracy, colour) in enumerate(bars):
        y = 50 + 34 * number
        picture.text(20, y + 15, label, 12)
        picture.text(200, y + 15, f"{edges} edges", 12)
        picture.box(310, y, 380 * float(accuracy), 22, colour)
        picture.text(318 + 380 * float(accuracy), y + 15, accuracy, 12)
    return picture


def journal():
    picture = Picture(760, 260)
    picture.text(20, 28, "A journal: finished batches survive the kill", 14, bold=True)
    batches = [(100, 90, 110), (70, 130, 70), (120, 60, 100), (80, 80, 120)]
    for rank, widths in enumerate(batches):
        y, x = 62 + 36 * rank, 90
        picture.text(30, y + 16, f"rank {rank}", 12)
        for number, width in enumerate(widths):
            end = min(x + width, 350)
            picture.box(x, y, end - x - 3, 24, GREEN if x + width <= 350 else GREY, "" if x + width <= 350 else "lost", size=11)
            x = end
            if x >= 350:
                break
    picture.line(352, 46, 352, 212, RED, 2.5)
    picture.text(352, 226, "kill -9", 12, "middle", RED, bold=True)
    for rank, (first, second) in enumerate(((150, 90), (120, 110), (160, 70), (130, 100))):
        y = 62 + 36 * rank
        picture.box(430, y, first - 3, 24, BLUE)
        picture.box(430 + first, y, second - 3, 24, BLUE)
    picture.text(430, 226, "the same command: only what is missing", 12)
    picture.text(20, 248, "Green batches are in the journal. The outputs have the same bytes as those of a run that nobody disturbed.", 11)
    return picture


def audit():
    picture = Picture(760, 290)
    picture.text(20, 28, "A receipt: a tree of digests, of which an audit computes some leaves again", 14, bold=True)
    levels = [[(380, 60)], [(220, 110), (540, 110)], [(140 + 160 * number, 160) for number in range(4)], [(100 + 80 * number, 210) for number in range(8)]]
    drawn, path = {2, 5}, {(2, 1), (1, 0), (2, 2), (1, 1), (0, 0)}
    for level in range(3):
        for number, (x, y) in enumerate(levels[level + 1]):
            above = levels[level][number // 2]
            on_path = (level + 1, number) in path or level == 2 and number in drawn
            picture.line(x, y, above[0], above[1], GREEN if on_path else GREY, 2 if on_path else 1)
    for level, places in enumerate(levels):
        for number, (x, y) in enumerate(places):
            on_path = (level, number) in path or level == 3 and number in drawn
            picture.circle(x, y, 9, GREEN if on_path else GREY)
    picture.text(400, 64, "root: in the receipt, 256 bits", 12)
    for number, (x, _) in enumerate(levels[3]):
        picture.text(x, 238, f"sample {number + 1}", 11, "middle", bold=number in drawn)
    picture.text(20, 270, "The audit computes samples 3 and 6 by itself. Their digests must be the leaves, and the leaves must give the root.", 11)
    return picture


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a picture is out of date")
    asked = parser.parse_args()
    stale = []
    for draw in (overview, compaction, merging, tiles, plan, pruning, classifier, journal, audit):
        path = ROOT / "docs" / "pictures" / f"{draw.__name__}.svg"
        text = draw().svg()
        if not asked.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
    if stale:
        sys.exit("\n".join(f"{path}: found another picture than docs/site/draw.py draws, expected it to be drawn again" for path in stale))


if __name__ == "__main__":
    main()
