"""`python -m halfseen` is the command line."""

import subprocess
import sys

import halfseen


def test_the_package_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "halfseen", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"halfseen {halfseen.__version__}"


def test_wrong_use_is_exit_code_two() -> None:
    command = [sys.executable, "-m", "halfseen", "fly"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "fly" in run.stderr
