#!/usr/bin/env python3
"""The Flesch-Kincaid grade of pages by textstat: years of school that a reader needs. Code, tables, headings and links do not count.

  docs/site/readability.py                     the pages where a reader starts; exit code 1 if one is above --limit
  docs/site/readability.py docs/*.md           other pages
  docs/site/readability.py --commit HEAD~20    pages of an earlier commit
"""
import argparse
import pathlib
import re
import subprocess
import sys

import textstat

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = ["README.md", "docs/getting-started.md", "docs/concepts.md"]


def prose(markdown):
    """The sentences of a page, one paragraph or list item a line."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    kept = [line for line in text.splitlines() if not re.match(r"\||#|!\[|    |>", line)]
    text = re.sub(r"\n(?=\s*(?:[-*]|\d+\.) )", "\n\n", "\n".join(kept))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`|<[^>]*>|[*_]", lambda found: "it" if found[0].startswith("`") else "", text)
    paragraphs = [" ".join(paragraph.split()).lstrip("-0123456789. ") for paragraph in text.split("\n\n")]
    return "\n".join(paragraph.rstrip(":;,") + ("" if paragraph.endswith((".", "!", "?")) else ".") for paragraph in paragraphs if paragraph)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=START)
    parser.add_argument("--commit", help="read the pages of this commit, not those of the checkout")
    parser.add_argument("--limit", type=float, default=11)
    asked = parser.parse_args()
    above = []
    for page in asked.pages:
        if asked.commit:
            text = subprocess.run(["git", "show", f"{asked.commit}:{page}"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        else:
            text = (ROOT / page).read_text(encoding="utf-8")
        sentences = prose(text)
        grade = textstat.flesch_kincaid_grade(sentences)
        lengths = [len(sentence.split()) for sentence in re.split(r"(?<=[.!?])\s", sentences) if sentence.strip()]
        print(f"grade {grade:4.1f}, {sum(lengths) / max(1, len(lengths)):4.1f} words a sentence, at most {max(lengths, default=0):3d}: {page}")
        above += [page] if grade > asked.limit else []
    if above:
        sys.exit(f"{', '.join(above)}: found a grade above {asked.limit:g}, expected simpler sentences")


if __name__ == "__main__":
    main()
