"""What the options of the training loop decide at each step."""

import dataclasses

import pytest

from configs import multi30k
from tasks import setup
from training.loop import Progress


@pytest.mark.parametrize('steps, averaged', [
    ([60, 90, 120, 240], [120, 240]),  # an early evaluation was planned, too, and lies beside a planned checkpoint
    ([240, 360, 480, 600, 720], [360, 480, 600, 720]),  # all planned: the newest four, as ever
    ([1200, 1320, 1440, 1560, 1566], [1200, 1320, 1440, 1566]),  # the clock ended the run just after a planned one
    ([1200, 1320, 1440, 1560, 1620], [1320, 1440, 1560, 1620]),  # … and half an interval after it
    ([1200, 1320, 1400, 1440, 1443, 1560], [1200, 1320, 1440, 1560]),  # stopped and resumed twice on the way
    ([0, 120], [120]),  # stopped while the first step was compiled
    ([7], [7])])
def test_checkpoints_a_few_steps_apart_are_not_averaged_twice(steps, averaged):
  loop = setup.records(multi30k.get_config('adam').to_dict()).loop
  loop = dataclasses.replace(loop, average_last=4, checkpoint_every=120, eval_every=240, first_eval=90)
  assert loop.to_average(steps) == averaged


def test_the_best_checkpoint_of_long_ago_is_not_averaged():
  loop = setup.records(multi30k.get_config('adam').to_dict()).loop
  loop = dataclasses.replace(loop, average_last=5, keep_last=5, checkpoint_every=250, eval_every=400, first_eval=100)
  assert loop.to_average([400, 1200, 1250, 1500, 1600, 1750, 1900]) == [1250, 1600, 1750, 1900]
  longer = dataclasses.replace(loop, average_last=10)  # which was 5 while the run trained
  assert longer.to_average([400, 1200, 1250, 1500, 1600, 1750, 1900]) == [1250, 1600, 1750, 1900]
  assert longer.to_average([750, 1200, 1250, 1600, 1750, 1900])[0] == 750  # 1000 is missing, for damage


@pytest.mark.parametrize('eval_every', [990, 1010, 500, 2000])
def test_evaluations_beside_planned_checkpoints_do_not_make_them_count_twice(eval_every):
  loop = setup.records(multi30k.get_config('adam').to_dict()).loop
  loop = dataclasses.replace(loop, average_last=5, checkpoint_every=1000, eval_every=eval_every, first_eval=eval_every)
  saved = [step for step in range(1, 5001) if loop.is_planned(step)]
  averaged = loop.to_average(saved)
  gaps = [later - earlier for earlier, later in zip(averaged, averaged[1:])]
  assert averaged[-1] == saved[-1] and len(averaged) == 5 and min(gaps) >= min(1000, eval_every) / 2


def test_patience_ends_a_run_by_the_present_options():
  loop = setup.records(multi30k.get_config('adam').to_dict()).loop
  waited = Progress.restored({'seconds': 1.0, 'evaluations_since_best': 2, 'stopped_early': True}, [])  # an earlier version's
  over = lambda patience: dataclasses.replace(loop, num_minutes=9, patience=patience).over(100).is_over(5, waited)
  assert [over(patience) for patience in (0, 1, 2, 3)] == [False, True, True, False]
