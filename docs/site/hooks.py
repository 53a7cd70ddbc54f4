"""What MkDocs does not do by itself: pages from the whole repository, and three that are generated.

Pages keep their places in the repository, so one link works both there and on the site. A link to a file that is no page (code, scripts)
becomes its text if that file exists. The command's page is made from `varve COMMAND --help-all`, the C++ reference by Doxygen, the
Python reference from docstrings.
"""
import os
import pathlib
import re
import subprocess
import tempfile

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ("docs/pictures/*", "docs/site/*.css", "perf/plots/*", "perf/comparison/*.svg")
EXTRA_PAGES = ("perf/tried/*.md", "env/*/README.md", "tests/golden/*/README.md")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^):#\s]+)(?:#[^)]*)?\)")


def pages_of(nav):
    for entry in nav:
        below = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(below, list):
            yield from pages_of(below)
        else:
            yield below


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)
    if done.returncode:
        raise PluginError(f"{' '.join(command)}: found exit code {done.returncode}, expected 0\n{done.stdout}{done.stderr}")
    return done.stdout


# --- the page of the command

OPTION = re.compile(r"^ *(-\S.*?)(?:  +(\S.*))?$")


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").strip()


def options_as_tables(lines):
    """Markdown of the help's options: a table for each group, a heading for each subcommand of a subcommand."""
    out, rows = [], []

    def end_table():
        if rows:
            out.extend(["| option | meaning |", "|---|---|", *(f"| `{cell(name)}` | {cell(meaning)} |" for name, meaning in rows), ""])
            rows.clear()

    for line in lines:
        option = OPTION.match(line)
        if option:
            rows.append([option[1], option[2] or ""])
        elif rows and line.startswith("    ") and line.strip() and not line.rstrip().endswith(":"):
            rows[-1][1] += " " + line.strip()
        elif line.strip() and not line.startswith("Usage:"):
            end_table()
            text = line.strip()
            if text.endswith(":"):
                out += [f"**{text}**", ""]
            elif re.fullmatch(r"[a-z-]+", text):
                out += [f"### {text}", ""]
            else:
                out += [cell(text), ""]
    end_table()
    return out


def command_page(varve):
    top = run([varve, "--help"])
    names = re.findall(r"^  ([a-z]+) {4,}\S", top[top.index("Subcommands:"):], re.MULTILINE)
    epilogue = top[top.index("\n\nExit codes:"):].strip()
    page = ["# The command", "", "Generated from `varve COMMAND --help-all`. [Getting started](getting-started.md) has examples.", ""]
    for name in names:
        lines = run([varve, name, "--help-all"]).split("\n\nExit codes:")[0].splitlines()
        usage = next((line for line in lines if line.startswith("Usage:")), "")
        page += [f"## varve {name}", "", cell(lines[0]), "", "```", usage.removeprefix("Usage: "), "```", ""]
        page += options_as_tables([line for line in lines[1:] if not re.match(r" *-(h,|-help-all)", line)])
    return "\n".join([*page, "## For all commands", "", "```", epilogue, "```", ""])


# --- the references of the interfaces

def python_reference():
    modules = ["varve", "varve.generate", "varve.torch"]
    return "\n".join(["# Python reference", "", "Generated from the docstrings of the package. [Python](python.md) is the tour.", "",
                      *(f"::: {name}\n" for name in modules)])


def cpp_reference(folder):
    """Runs Doxygen into the folder; returns the page that links to it."""
    version = re.search(r"project\(\s*varve\s+VERSION\s+([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.IGNORECASE)
    text = (ROOT / "docs" / "Doxyfile.in").read_text()
    for name, value in {"PROJECT_VERSION": version[1] if version else "", "PROJECT_DESCRIPTION": "Very deep sparse networks, exactly",
                        "PROJECT_SOURCE_DIR": str(ROOT), "PROJECT_BINARY_DIR": str(folder)}.items():
        text = text.replace(f"@{name}@", value)
    run(["doxygen", "-"], input=text)
    headers = sorted((ROOT / "include" / "varve").glob("*.hpp"))
    page = ["# C++ reference", "", "[Classes](reference/html/annotated.html), [files](reference/html/files.html), [namespace members](reference/html/namespacemembers.html):",
            "the reference of the public headers, made by Doxygen. [C++](library.md) is the tour.", "", "| header |", "|---|"]
    return "\n".join([*page, *(f"| [varve/{header.name}](reference/html/{header.stem.replace('_', '__')}_8hpp.html) |" for header in headers), ""])


# --- hooks

def on_files(files, config):
    generated = tempfile.mkdtemp(prefix="varve-site-")
    config.extra["generated"] = generated
    found = {name: ROOT / name for name in pages_of(config.nav) if (ROOT / name).exists()}
    for pattern in (*PICTURES, *EXTRA_PAGES):
        found |= {str(path.relative_to(ROOT)): path for path in sorted(ROOT.glob(pattern))}
    texts = {"docs/command.md": command_page(os.environ.get("VARVE", "build/openmp/bin/varve")),
             "docs/python-reference.md": python_reference(), "docs/cpp-reference.md": cpp_reference(generated)}
    reference = pathlib.Path(generated) / "reference"
    found |= {f"docs/reference/{path.relative_to(reference)}": path for path in sorted(reference.rglob("*")) if path.is_file()}
    theirs = [file for file in files if file.src_dir != config.docs_dir]
    mine = [File.generated(config, name, abs_src_path=str(path)) for name, path in found.items()]
    return Files([*theirs, *mine, *(File.generated(config, name, content=text) for name, text in texts.items())])


def on_page_markdown(markdown, page, config, files):
    folder = pathlib.PurePosixPath(page.file.src_uri).parent

    def link(match):
        target = os.path.normpath(folder / match[2])
        if files.get_file_from_path(target) or not (ROOT / target).exists():
            return match[0]
        return match[1] if "`" in match[1] else f"`{match[1]}`"

    out, fenced, added = [], False, ""  # added: what indents the continuation of a list item to four spaces, as Python-Markdown wants it
    has_blank = False  # within the list
    for line in markdown.splitlines():
        item = None if fenced else re.match(r"([-*]|\d+\.) +", line)
        if item and out and out[-1].strip() and (not added or has_blank):
            out.append("")  # Python-Markdown wants it before a list and after an item of several paragraphs
        if line.startswith("  ") and added:
            line = added + line
        elif line.strip() and not fenced and (item or not added or has_blank):
            added, has_blank = (" " * (4 - len(item[0])) if item else ""), has_blank and bool(item)
        has_blank = has_blank or (bool(added) and not line.strip())
        fenced ^= line.lstrip().startswith("```")
        out.append(line)
    parts = re.split(r"(^ *```.*?^ *```$)", "\n".join(out), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else LINK.sub(link, part) for number, part in enumerate(parts))
