"""The docstrings of the Python reference: made Markdown of, completed by `#:` comments, and required of every public name."""
import logging
import re

import griffe

LOG = logging.getLogger("mkdocs.plugins.docstrings")  # docs/site/build is strict: a warning ends it
ROLE = re.compile(r":(?:class|func|meth|mod|attr|exc|data):`~?([^`]+)`")
TABLE = re.compile(r"^=+ [= ]+\n.*?^=+ [= ]+\n.*?^=+ [= ]+$", re.MULTILINE | re.DOTALL)
MODULES = ("generate", "torch")  # of the package, beside what it exports


def as_markdown(text):
    return TABLE.sub(lambda table: f"```text\n{table[0].replace('``', '')}\n```", ROLE.sub(r"`\1`", text))


def comment_of(attribute):
    """What stands behind `#:` on the line of an attribute."""
    line = attribute.filepath.read_text(encoding="utf-8").splitlines()[attribute.lineno - 1]
    _, mark, text = line.partition("#:")
    return text.strip() if mark else None


def public_objects(owner, names):
    """The objects with these names, and the public members of classes. What __init__ alone sets, the docstring of the class explains."""
    for name in names:
        found = owner.members[name]
        found = found.final_target if found.is_alias else found
        if found.is_attribute and found.annotation is None:
            continue
        yield found
        if found.is_class:
            yield from public_objects(found, [member for member in found.members if not member.startswith("_")])


class Roles(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_package(self, *, pkg, **_):
        self.on_object(obj=pkg)
        modules = [pkg, *(pkg.members[name] for name in MODULES)]
        names = [(module, [str(name) for name in module.exports or [n for n in module.members if not n.startswith("_")]]) for module in modules]
        for module, listed in names:
            own = [name for name in listed if not (module.exports is None and module.members[name].is_alias)]
            for found in (module, *public_objects(module, own)):
                if found.is_attribute and not found.docstring and (comment := comment_of(found)):
                    found.docstring = griffe.Docstring(comment, parent=found, lineno=found.lineno, endlineno=found.lineno)
                if not found.docstring:
                    LOG.warning("%s:%s: found no docstring of %s, expected one", found.filepath, found.lineno, found.path)
