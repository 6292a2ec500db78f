"""The version of jaxbias."""

__version__ = "0.1.0"
