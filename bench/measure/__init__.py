"""Measures Baton, and the official runtime beside it.

`compare` and `micro` are the programs; the rest serves them.
"""
