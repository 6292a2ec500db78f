"""Plumbing with no statistics: random numbers, devices, chunks, compilation, searches, errors and files."""
