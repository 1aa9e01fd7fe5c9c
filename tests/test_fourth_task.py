"""A task of one's own in one file: it trains through train.py, is scored, goes on after a kill, and answers lines."""

import itertools
import json
import os
import signal
import subprocess
import sys

import corpora
import decode
import train
from corpora.kinds import kind
from decoding.answers import PlainAnswers
from options import decode_options, train_options
from tasks import trained
from tasks.task import task
from tasks.translation import Translation
from training.checkpoint import Measure
from training.evaluation import Evaluation, Score, per_token

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORDS = 'one two three four five six'.split()
