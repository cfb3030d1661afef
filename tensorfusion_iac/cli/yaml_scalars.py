"""What a plain scalar of YAML stands for in Kubernetes: Go's reader decides, not PyYAML's rules of YAML 1.1.

`1e3` is a number, `1:30` and dates are text, `y` is true, a leading 0 is octal where it can be, and a whole number beyond 64
bits a float.
"""

from __future__ import annotations

import re

TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
RESOLVERS = (
    ("bool", re.compile(r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"), "yYnNtTfFoO"),
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("int", _INT, "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
    ("merge", re.compile(r"<<"), "<"),
)


def number(text: str, kind: str) -> int | float | str:
    """As Go reads it: a leading 0 is octal where it can be; whole numbers beyond 64 bits are floats; what is none is text."""
    plain = text.replace("_", "")
    if kind == "int" and _INT.fullmatch(text):
        digits = plain.lstrip("+-")
        octal = re.fullmatch(r"0[0-7]+", digits)
        try:
            size = int(digits, 8 if octal else 0) if len(digits) < 100 else 2**64
        except ValueError:
            size = None
        if size is not None and size < 2**64:
            return -size if plain[0] == "-" else size
    try:
        return float(plain.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text
