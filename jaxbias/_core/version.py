"""The version of jaxbias."""

__version__ = "0.2.0"
