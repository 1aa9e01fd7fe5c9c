"""What the options of the training loop decide at each step."""

import dataclasses

import pytest

from configs import multi30k
from tasks import setup
from training.loop import Progress


@pytest.mark.parametrize('steps, averaged', [
    ([240, 360, 480, 600, 720], [360, 480, 600, 720]),  # all planned: the newest four, as ever
    ([1200, 1320, 1440, 1560, 1566], [1200, 1320, 1440, 1566]),  # the clock ended the run just after a planned one
    ([1200, 1320, 1440, 1560, 1620], [1320, 1440, 1560, 1620]),  # … and half an interval after it
    ([1200, 1320, 1400, 1440, 1443, 1560], [1200, 1320, 1440, 1560]),  # stopped and resumed twice on the way
    ([90, 120], [90, 120]),  # an early evaluation was planned, too
    ([7], [7])])
def test_checkpoints_a_few_steps_apart_are_not_averaged_twice(steps, averaged):
  loop = setup.records(multi30k.get_config('adam').to_dict()).loop
  loop = dataclasses.replace(loop, average_last=4, checkpoint_every=120, eval_every=240, first_eval=90)
  assert loop.to_average(steps) == averaged


def test_patience_ends_a_run_by_the_present_options():
  loop = setup.records(multi30k.get_config('adam').to_dict()).loop
  waited = Progress.restored({'seconds': 1.0, 'evaluations_since_best': 2, 'stopped_early': True}, [])  # an earlier version's
  over = lambda patience: dataclasses.replace(loop, num_minutes=9, patience=patience).over(100).is_over(5, waited)
  assert [over(patience) for patience in (0, 1, 2, 3)] == [False, True, True, False]
