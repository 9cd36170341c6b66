"""All exercises, in the order of the lesson: one for each module of exercises/."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.resources import files

from scenarios.lab.exercise import Exercise


def exercises() -> dict[str, Exercise]:
    """By name."""
    room = files("scenarios.lab.exercises")
    modules = sorted(path.name.removesuffix(".py") for path in room.iterdir() if path.name.endswith(".py"))
    made = [_exercise_of(name) for name in modules if name != "__init__"]
    return {one.name: one for one in sorted(made, key=lambda one: one.place)}


def _exercise_of(name: str) -> Exercise:
    module = import_module(f"scenarios.lab.exercises.{name}")
    classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    (found,) = (one for one in classes if issubclass(one, Exercise))
    made: Exercise = found()
    return made
