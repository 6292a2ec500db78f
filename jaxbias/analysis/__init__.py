"""From a log to findings and a recommendation: typed values, no sentences.

`debiasing` runs the analysis, `findings` has its result. The package itself imports neither, so that the constants in it can be
read without JAX.
"""
