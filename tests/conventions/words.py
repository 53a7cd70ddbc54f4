#!/usr/bin/env python3
"""Finds words and phrases that pages and help texts do not use, because readers stop at them:
  words.py FOLDER    the top level of a checkout

Code is left out. Each phrase has its plain form; docs/site/readability.py measures the rest.
"""
import pathlib
import re
import sys

PLAIN = {
    r"anyhow": "anyway, or leave it out",
    r"anew": "again",
    r"(?:is|are|was|were) had": "the verb itself: gets, has",
    r"so many (?!as\b)\w+": "the number, or 'enough'",
    r"in place of": "instead of",
    r"for ever": "permanently",
    r"(?:takes?|took|taking) (?:about )?0\.\d+(?: to 0\.\d+)? of (?:the|its|their) (?:time|\w+'s time)": "a percentage less time",
    r"(?:in|takes?|took) (?:half|a \w+th|a third) of (?:the|its|their) time": "N times faster",
    r"(?:stands?|stood) (?:in|beside|behind|before|above|under|there)": "is in, is next to, precedes",
    r"of (?:its|their|one's) own accord": "by itself",
    r"(?:nobody|somebody)": "no sample, no rank, a user",
    r"(?:goes|go|went|going) on (?:from|with)": "continues from, with",
    r"to begin (?:training )?with": "initial",
    r"in silence": "silently",
    r"sets? out": "is sent, starts",
    r"whatever (?:the|its|their|is|was|are|may)": "regardless of",
    r"(?<!there )(?:is|are|was|were) no (?!longer|more|less|faster|slower|better|later|wider|such)\w+": "is not a",
    r"(?:are|is) needed no more": "is no longer needed",
    r"by what(?:ever)? (?:name|means|way)": "by any name",
    r"half as (?:long|large|many|much) again": "1.5 times as",
    r"(?:one|the one|the ones) who": "the noun",
    r"at any rate|in any case": "leave it out",
    r"the less so|the more so": "leave it out",
    r"does (?:what|that) of": "the verb",
    r"the latter|the former": "the noun",
}
WORDS = re.compile("|".join(rf"(?P<w{number}>\b(?:{phrase})\b)" for number, phrase in enumerate(PLAIN)), re.IGNORECASE)
PAGES = ("*.md", "docs/*.md", "perf/**/*.md", "src/**/*.md")
HELP = ("src/apps/*.[ch]pp", "src/library/*.cpp", "src/training/*.cpp")


def pages_without_code(text):
    """The text with its code replaced by blanks, so that lines keep their numbers."""
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])  # noqa: E731
    text = re.sub(r"^ *```.*?^ *```$", blank, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ {4}(?![-*|] |\d+\. ).*$", blank, text, flags=re.MULTILINE)
    return re.sub(r"`[^`\n]*`", blank, text)


def literals(text):
    """The string literals of a source file; the rest of it is blanks, and neighbouring literals are one text."""
    text = re.sub(r"//.*", lambda found: " " * len(found[0]), text)
    kept = [" " if letter != "\n" else letter for letter in text]
    for found in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text):
        kept[found.start(1):found.end(1)] = found[1]
    return "".join(kept)


def violations(root):
    count = 0
    for patterns, prose_of in ((PAGES, pages_without_code), (HELP, literals)):
        for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
            count += 1
            text = prose_of(path.read_text(encoding="utf-8"))
            for found in WORDS.finditer(re.sub(r"[ \n]", " ", text)):
                line = text.count("\n", 0, found.start()) + 1
                plain = list(PLAIN.values())[int(found.lastgroup[1:])]
                yield f"{path.relative_to(root)}:{line}: found '{found[0]}', expected {plain}"
    if count == 0:
        yield f"{root}: found no page, expected some"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "No page or help text has a word of the list.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
