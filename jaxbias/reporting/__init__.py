"""Findings to words, tables, plots and the HTML report: the only place that formats a number or a label."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
