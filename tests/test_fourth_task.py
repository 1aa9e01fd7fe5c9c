"""A task of one's own in one file: it trains through train.py, is scored, goes on after a kill, and answers lines."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORDS = 'one two three four five six'.split()
