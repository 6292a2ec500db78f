"""The list of methods: every entry names a real function with real arguments, and reading it imports no JAX."""

import inspect
import subprocess
import sys

import pytest

import jaxbias as jb
from jaxbias.estimators.registry import METHODS, PREFERRED, Cost, Need


@pytest.mark.parametrize("name", METHODS)
def test_the_function_exists_and_takes_what_the_entry_says(name):
    method = METHODS[name]
    assert method.name == name
    if name != "conditional_posterior":  # which is conditional_mle with a prior, and has no name at the top
        assert method.function is getattr(jb, name)
    assert method.function.__module__.startswith(method.module)
    assert set(method.takes) <= set(inspect.signature(method.function).parameters)
    assert method.needs_policy == (Need.POLICY in method.needs)
    assert not method.needs_policy or "policy" in method.takes
    assert Need.FAMILY not in method.needs or "family" in method.takes
    assert ("key" in method.takes) == (method.cost >= Cost.SIMULATION)  # what simulates needs random numbers
    assert ("stop" in method.takes) <= method.knows_stopping


def test_preferences_are_distinct_and_of_the_guarded_method_and_those_that_correct():
    preferred = [method for method in METHODS.values() if method.preference is not None]
    assert len({method.preference for method in preferred}) == len(preferred) == len(PREFERRED)
    assert [method.preference for method in PREFERRED] == sorted(method.preference for method in preferred)
    assert (PREFERRED[0].name, PREFERRED[0].guarded) == ("guarded_shrinkage", True)
    assert {method.name for method in PREFERRED[1:]} == {method.name for method in METHODS.values() if method.corrects}


def test_reading_the_list_imports_no_jax():
    code = "import sys, jaxbias.estimators.registry; print(sorted({'jax', 'numpy', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
