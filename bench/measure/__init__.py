"""Benchmarks of Baton, and of the official runtime for comparison.

`compare`, `handover`, `micro`, `http`, `stream` and `engines` are programs; the other modules support them.
"""
