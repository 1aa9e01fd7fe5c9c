"""What a recipe consists of."""

from collections.abc import Sequence
from typing import NamedTuple

from recipes.stages import Stage, Training


class Plan(NamedTuple):
  """The stages of a recipe, and what of the user's it depends on."""

  stages: Sequence[Stage]
  files: Sequence[str]  # the user's, by path
  runs: Sequence[str] = ()  # folders of the user's trained runs
  taught: str = ''  # path of the translations of all test sets, one behind the other, by `runs`

  @property
  def trainings(self) -> list[Training]:
    """The stages that train; the last one makes the model that the recipe is for."""
    return [stage for stage in self.stages if isinstance(stage, Training)]
