#!/usr/bin/env python3
"""Draws the pictures of README.md and docs/concepts.md into docs/pictures.

  docs/site/draw.py            writes them
  docs/site/draw.py --check    exit code 1 if a picture differs from what would be written

The speeds in overview.svg are those of the first table in perf/RESULTS.md.
"""
import argparse
import math
import pathlib
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a picture is out of date")
    asked = parser.parse_args()
    stale = []
    for draw in (overview, compaction, merging, tiles, plan):
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
