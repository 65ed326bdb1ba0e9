"""What a case says, what of it was seen to happen, and what of it makes a difference."""

from search.mechanisms.drawn import drawn
from search.mechanisms.exercised import exercised
from search.mechanisms.telling import telling

__all__ = ["drawn", "exercised", "telling"]
