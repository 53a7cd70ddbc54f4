"""Makes Markdown of what docstrings take from reStructuredText: roles such as :func:`varve.train`, and tables."""
import re

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|exc|data):`~?([^`]+)`")
TABLE = re.compile(r"^=+ [= ]+\n.*?^=+ [= ]+\n.*?^=+ [= ]+$", re.MULTILINE | re.DOTALL)


def as_markdown(text):
    return TABLE.sub(lambda table: f"```text\n{table[0].replace('``', '')}\n```", ROLE.sub(r"`\1`", text))


class Roles(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_package(self, *, pkg, **_):
        self.on_object(obj=pkg)
