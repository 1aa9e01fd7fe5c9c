"""Options of the training objective (loss, consistency, a classifier's objective) and of the update rule."""

import dataclasses
from collections.abc import Iterator

from checks.refusals import positive, rates, refuse
from transformer import registries


@dataclasses.dataclass(frozen=True)
class LossConfig:
  """Label smoothing (§5.4; Szegedy et al., 2016) and how the loss is computed. See loss."""

  label_smoothing: float = 0.1
  smoothing_over: str = 'vocabulary'  # vocabulary: spread over V entries; others: over the V - 1 wrong ones
  loss_chunks: int = 1  # parts of the target's places whose logits are computed one after the other
  logits_dtype: str = 'float32'  # in which training keeps logits in memory; the loss is computed in float32

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from registries.SMOOTHINGS.mistakes(self.smoothing_over)
    yield from registries.LOGITS_DTYPES.mistakes(self.logits_dtype)
    if not 0.0 <= self.label_smoothing < 1.0:
      yield f'label_smoothing is {self.label_smoothing}; expected a share of at least 0 and below 1'
    yield from positive(loss_chunks=self.loss_chunks)

  def idle(self) -> dict[str, str]:
    """Return the fields that other fields make ineffective, each with the reason."""
    if self.label_smoothing:
      return {}
    return {'smoothing_over': f'label_smoothing is {self.label_smoothing}; nothing is spread over any entries'}


@dataclasses.dataclass(frozen=True)
class ConsistencyConfig:
  """Agreement of two passes over the same batch as part of the loss. See training.build_objective."""

  consistency: str = 'none'  # r_drop: Liang et al., 2021; simcut: Gao et al., 2022
  consistency_weight: float | None = None  # alpha, the factor of the divergence; None: the papers' values, 5 and 3
  cut_rate: float = 0.05  # simcut: probability that a token's embedding is zeroed in the second pass
  dropout: float = 0.1  # the model's largest rate: R-Drop's passes differ by their dropout alone

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from registries.CONSISTENCIES.mistakes(self.consistency)
    if self.consistency_weight is not None and self.consistency_weight <= 0:
      yield (f'consistency_weight is {self.consistency_weight}; expected a positive number, '
             "or none for the paper's (consistency=none switches the term off)")
    if not 0.0 < self.cut_rate < 1.0:
      yield f'cut_rate is {self.cut_rate}; expected a probability between 0 and 1'
    method = registries.CONSISTENCIES.get(self.consistency)
    if method and method.by_dropout and not self.dropout:
      yield (f'consistency is {self.consistency}, but the model has no dropout: its two passes would be the same; '
             'set model.dropout or another consistency')

  def idle(self) -> dict[str, str]:
    """Return the fields that other fields make ineffective, each with the reason."""
    return registries.CONSISTENCIES.idle(self.consistency)

  @property
  def weight(self) -> float:
    """The divergence's weight: the configured one, or else the method's default."""
    return self.consistency_weight or registries.CONSISTENCIES[self.consistency].weight


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
  """The update rule and its learning rate; by default Adam with the warm-up of Eq. 3 (§5.3). See optimizer.build."""

  d_model: int = 512  # enters Eq. 3
  kind: str = 'adam'  # the update rule, see optimizer
  schedule: str = 'noam'  # of the learning rate; noam: Eq. 3; see optimizer
  learning_rate_scale: float = 1.0  # noam: times Eq. 3
  peak: float | None = None  # every other schedule: the learning rate at the end of the warm-up
  warmup_steps: int = 4000
  decay_steps: int | None = None  # cosine, linear: the update at which they end; None: the run's last
  final_share: float = 0.0  # cosine, linear: learning rate at their end, as a share of the peak
  beta1: float = 0.9  # adam, adamw, muon
  beta2: float = 0.98
  epsilon: float = 1e-9
  momentum: float = 0.9  # sgd, muon
  muon_rms: float = 0.2  # muon: root mean square of a matrix's direction, before the learning rate
  weight_decay: float | None = None  # times the learning rate; None: 0.01 for adamw, 0 for the others
  clip_norm: float = 0.0  # largest global norm of the mean gradient; 0 is off, as in the paper
  length_known: bool = True  # whether the run's length in updates is known; a run by minutes has none

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from registries.OPTIMIZERS.mistakes(self.kind)
    yield from registries.SCHEDULES.mistakes(self.schedule)
    yield from positive(d_model=self.d_model)
    if min(self.learning_rate_scale, self.epsilon, self.muon_rms) <= 0:
      yield (f'learning_rate_scale {self.learning_rate_scale}, epsilon {self.epsilon} and muon_rms {self.muon_rms} '
             'must be positive')
    for name in ('beta1', 'beta2', 'momentum'):
      if not 0.0 <= getattr(self, name) < 1.0:
        yield f'{name} is {getattr(self, name)}; expected a number of at least 0 and below 1'
    if self.clip_norm < 0:
      yield f'clip_norm is {self.clip_norm}; expected 0 (off) or a positive norm'
    if self.weight_decay is not None and self.weight_decay < 0:
      yield f'weight_decay is {self.weight_decay}; expected 0 (off) or a positive number'
    rule = registries.OPTIMIZERS.get(self.kind)
    if self.weight_decay and rule and not rule.decays:
      yield (f'weight_decay is {self.weight_decay}, but kind {self.kind} has none; '
             "choose kind adamw, which is Adam with decoupled weight decay")
    if self.schedule in registries.SCHEDULES:
      yield from self._mistakes_of_schedule()
    if not 0.0 <= self.final_share <= 1.0:
      yield f'final_share is {self.final_share}; expected a share from 0 to 1'
    if self.decay_steps is not None and self.decay_steps <= self.warmup_steps:
      yield f'decay_steps is {self.decay_steps}; expected more than warmup_steps, {self.warmup_steps}'

  def _mistakes_of_schedule(self) -> Iterator[str]:
    schedule = registries.SCHEDULES[self.schedule]
    if self.warmup_steps < schedule.least_warmup:
      yield (f'warmup_steps is {self.warmup_steps}; expected {schedule.least_warmup} or more for schedule '
             f'{self.schedule}')
    if not schedule.by_peak and self.peak is not None:
      yield (f'peak is {self.peak}, but the peak of schedule {self.schedule} is learning_rate_scale / '
             '√(d_model · warmup_steps); set optimizer.peak=None and learning_rate_scale, or choose another schedule')
    if schedule.by_peak and (self.peak is None or self.peak <= 0):
      yield (f'peak is {self.peak}; schedule {self.schedule} needs a positive one, the learning rate at '
             'the end of the warm-up')
    if schedule.by_peak and self.learning_rate_scale != 1.0:
      yield (f'learning_rate_scale is {self.learning_rate_scale}, but it scales Eq. 3 and the schedule is '
             f'{self.schedule}; set it to 1.0 and give peak, or choose schedule noam')
    if self.ends_with_run and not self.length_known:
      yield (f'schedule {self.schedule} ends with the run, whose length in updates is not known when it is '
             'given in minutes; set train.num_steps or num_epochs instead of num_minutes, or decay_steps')

  def idle(self) -> dict[str, str]:
    """Return the fields that other fields make ineffective, each with the reason."""
    return registries.OPTIMIZERS.idle(self.kind) | registries.SCHEDULES.idle(self.schedule)

  @property
  def decay(self) -> float:
    """The configured weight decay, or else the update rule's default."""
    return registries.OPTIMIZERS[self.kind].weight_decay if self.weight_decay is None else self.weight_decay

  @property
  def ends_with_run(self) -> bool:
    """Whether the learning rate depends on the run's length, so that the length may not change half-way."""
    return registries.SCHEDULES[self.schedule].ends and self.decay_steps is None


@dataclasses.dataclass(frozen=True)
class ClassificationConfig:
  """Fine-tuning on labelled text (Radford et al., 2018, §3.2, §4.1)."""

  outputs: int  # number of labels; for multiple choice, of answers
  answers: bool = False  # multiple choice: each sequence of an example is an answer and has a score of its own
  auxiliary_weight: float = 0.5  # λ of L3 = L2 + λ L1, where L1 is the language model's loss on the same sequences
  classifier_dropout: float = 0.1  # dropout rate on the classifier's input

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    if self.outputs < 2:
      yield f'outputs is {self.outputs}; expected two labels or answers at least'
    if self.auxiliary_weight < 0:
      yield f'auxiliary_weight is {self.auxiliary_weight}; expected 0 (off) or more'
    yield from rates(classifier_dropout=self.classifier_dropout)
