"""Policies, families and stopping rules by the names that a command line or a file has for them. Importing it imports no JAX."""
