#!/usr/bin/env python3
"""Finds words and phrases that pages, messages and help texts do not use, because readers stop at them, and pages that are too long:
  words.py FOLDER [COMMAND]    the top level of a checkout; the command, whose `--help-all` is read, too

Code is left out. Each phrase has its plain form; docs/site/readability.py measures the rest.
"""
import pathlib
import re
import subprocess
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
    r"in the manner of": "like, by the rule of",
    r"whoever": "anybody who",
    r"hence|thereby|therein|whereby|upon|namely": "so, by it, in it, on, or leave it out",
    r"mend(?:s|ed|ing)?": "fix",
    r"of one's own|one's own": "of your own, the noun's own",
    r"(?<!takes )(?<!take )in turns": "take turns",
    r"once more": "again, a second time",
    r"nothing else at work": "while nothing else runs",
    r"tells?": "says, names, explains, distinguishes",
    r"(?:says|said) so": "names it",
    r"gives? way": "is interrupted",
    r"(?:is|are) to be \w+ed": "must be",
    r"for want of": "because there is no",
    r"by itself alone": "alone",
}
WORDS = re.compile("|".join(rf"(?P<w{number}>\b(?:{phrase})\b)" for number, phrase in enumerate(PLAIN)), re.IGNORECASE)
PAGES = ("*.md", "docs/*.md", "perf/**/*.md", "src/**/*.md")
HELP = (*(f"src/{folder}/*.[ch]pp" for folder in ("apps", "distribute", "io", "library", "network", "passes", "plan", "receipts", "training")), "python/varve/*.py")


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


def in_text(place, text):
    for found in WORDS.finditer(re.sub(r"[ \n]", " ", text)):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{place}:{line}: found '{found[0]}', expected {list(PLAIN.values())[int(found.lastgroup[1:])]}"


def in_help(command):
    """The help of the command and of all its subcommands."""
    def helped(*words):
        return subprocess.run([command, *words], capture_output=True, text=True, check=True).stdout
    top = helped("--help")
    for name in re.findall(r"^  ([a-z]+) {4,}\S", top[top.index("Subcommands:"):], re.MULTILINE):
        yield from in_text(f"varve {name} --help-all", helped(name, "--help-all"))
    yield from in_text("varve --help", top)


def too_long(root):
    """Versions of the changelog have at most 25 lines, pages of what was tried 150."""
    for path in root.glob("perf/tried/*.md"):
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > 150:
            yield f"{path.relative_to(root)}: found {count} lines, expected at most 150"
    for path in root.glob("CHANGELOG.md"):
        for version in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            lines = version.rstrip().splitlines()
            if len(lines) > 25:
                yield f"{path.name}: found {len(lines)} lines of {lines[0]}, expected at most 25"


def violations(root):
    yield from too_long(root)
    count = 0
    for patterns, prose_of in ((PAGES, pages_without_code), (HELP, literals)):
        for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
            count += 1
            yield from in_text(path.relative_to(root), prose_of(path.read_text(encoding="utf-8")))
    if count == 0:
        yield f"{root}: found no page, expected some"


def main():
    found = [*violations(pathlib.Path(sys.argv[1])), *(one for command in sys.argv[2:] for one in in_help(command))]
    print("\n".join(found) or "No page or help text has a word of the list.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
