"""What a run is called: after its script, its module or its console script."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?(?:\.exe)?", re.IGNORECASE)
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def is_python(program: str) -> bool:
    """Whether a program is a Python interpreter, by its name."""
    return _PYTHON.fullmatch(os.path.basename(program)) is not None


def name_of(command: Sequence[str]) -> str:
    """`agent.py`, `-m package.module`, `-c`, or the name of a program that is no interpreter."""
    program = command[0]
    if not is_python(program):
        return os.path.basename(program) or program
    arguments = iter(command[1:])
    for argument in arguments:
        if argument in _WITH_VALUE:
            next(arguments, None)
        elif argument == "-" or not argument.startswith("-"):
            return os.path.basename(argument.rstrip("/\\")) or argument
        elif argument.startswith("--"):
            continue
        elif (flag := _ends_options(argument)) is not None:
            attached = argument.partition(flag)[2]
            module = attached or next(arguments, "")
            return f"-m {module}" if flag == "m" and module else f"-{flag}"
    return os.path.basename(program)


def script_of(command: Sequence[str]) -> str | None:
    """The path of the script an interpreter is given; None where it is given none."""
    if not is_python(command[0]):
        return None
    name = name_of(command)
    if name.startswith("-"):
        return None
    return next((a for a in command[1:] if os.path.basename(a.rstrip("/\\")) == name), None)


def _ends_options(argument: str) -> str | None:
    """`m` or `c` where a group of short options ends in it: what follows is no option any more."""
    for letter in argument[1:]:
        if letter in "mc":
            return letter
        if letter in "WX":
            return None
    return None
