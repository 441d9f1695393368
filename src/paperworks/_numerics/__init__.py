"""Numerics that methods of more than one family need; one topic per module."""
