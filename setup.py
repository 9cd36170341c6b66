"""What pyproject.toml cannot say: the compiled core, where scenarios/building/backend.py asks for it."""

from setuptools import setup

from scenarios.building.extensions import setup_arguments

setup(**setup_arguments())
