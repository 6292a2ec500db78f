"""Estimators: one file for each small one, one folder for each large one; `registry.py` lists them all.

The functions are imported from their own modules (or from `jaxbias`), so that reading the registry imports no JAX.
"""
