"""Logs in and out: CSV, TSV, Parquet, data frames; samples out to ArviZ."""

from jaxbias.io.export import to_arviz as to_arviz
from jaxbias.io.reading import Log as Log
from jaxbias.io.reading import read_log as read_log
from jaxbias.io.writing import SUFFIXES as SUFFIXES
from jaxbias.io.writing import write_log as write_log
