"""What a run's training step needs of devices that are not here, as text for people: train.py --compile_for."""

from collections.abc import Iterator

from batching.shapes import Shape
from checks.errors import config_errors
from options.train_options import TrainOptions
from tasks.records import Setup
from tasks.task import Task
from training import ahead_of_time, failures, hardware, optimized_module
from training.ahead_of_time import Compiled, Step
from transformer import attention_kernels
from transformer.registries import ARCHITECTURES

_ENDLESS = 10 ** 6  # batches of an epoch where no text is read; the length of a run is a constant in its program
_LISTED = 8  # parameters that stay whole


def report(setup: Setup, options: TrainOptions, task: Task | None = None) -> Iterator[str]:
  """Compile the training step for each shape of batch, and yield what it needs of each device, line by line.

  Args:
    setup: the run's options.
    options: those of train.py; compile_for is given.
    task: whose shapes and vocabulary sizes are taken; None: the shapes of --shapes, and the configured size.

  Raises:
    ConfigError: when there are no such devices, or their compiler is not installed, or mesh, rows or attention kernel
      do not fit them.
    OutOfMemoryError: behind the last line, when one needs more memory than the devices have.
  """
  with config_errors():
    attention_kernels.check(setup.model, options.compile_for)
  short = None
  for step in steps(setup, options, task):
    found = ahead_of_time.compile_step(step)
    yield from described(step, found, hardware.peak_tflops(found.kind, setup.loop.peak_tflops))
    short = short or (None if found.fits else (step, found))
  if short:
    step, found = short
    given = setup if task is None else task.setup
    rows = step.shape.rows if task is None else task.batches.fewest_rows
    raise failures.OutOfMemoryError(
        f'a step over {_in_words(step.shape)} needs {hardware.in_units(found.need)} on a device that has '
        f'{hardware.in_units(found.room)}; '
        + failures.remedies(found.need, found.fixed, found.room, rows, given.memory))


def steps(setup: Setup, options: TrainOptions, task: Task | None = None) -> Iterator[Step]:
  """Yield the step to compile for each shape of batch. Args as of report()."""
  shapes = [Shape(*map(int, shape.split('x'))) for shape in options.shapes or ()] or task.batches.shapes
  size = setup.vocabulary.size
  model = setup.sized(task.source.size, task.target.size) if task else setup.sized(size, size)
  architecture = next(name for name, entry in ARCHITECTURES.items() if entry.record is type(model))
  loop = setup.loop.over(task.batches.batches_per_epoch if task else _ENDLESS)
  for shape in shapes:
    yield Step(options.compile_for, shape, architecture, model, setup.loss, setup.consistency, setup.optimizer,
               setup.mesh, loop.total_steps, setup.loop.ema_decay, setup.loop.accumulation_steps,
               setup.loop.dropout_bits, options.compile_for_cycles)


def described(step: Step, found: Compiled, peak: float | None) -> Iterator[str]:
  """Yield what a compiled step needs of each device, line by line; `peak` is a device's, in teraflops."""
  axes = ' × '.join(f'{name} {size}' for name, size in found.mesh.items())
  yield (f'{_in_words(step.shape)} for {step.topology} ({found.kind}), {axes}, {step.model.dtype}: compiled in '
         f'{found.seconds:.0f} s; each device')
  verdict = 'fits' if found.fits else 'does not fit'
  room = '' if found.room is None else f' of {hardware.in_units(found.room)}: {verdict}'
  yield f'  memory      {hardware.in_units(found.need)}{room}'
  traffic = optimized_module.traffic(found.collectives)
  for (kind, dtype), (count, size) in traffic.items():
    yield f'  {kind:<20}{dtype:<6}{count:>4} × a step, {hardware.in_units(size)} together'
  if not traffic:
    yield '  collectives none'
  if found.undivided:
    more = len(found.undivided) - _LISTED
    yield f'  kept whole  {", ".join(found.undivided[:_LISTED])}' + (f' and {more} more' if more > 0 else '')
  yield (f'  products    {found.products / 1e12:.3g} TFLOP a step, {found.products / found.formula:.3f} of those that MFU '
         'counts')
  if found.estimate:
    share = found.utilisation(peak)
    yield (f'  estimate    {1e3 * found.estimate:.1f} ms a step, {found.cycles:,} cycles'
           + (f', MFU {share:.0%}' if share else '') + ': the compiler\'s model, without collectives and sorts')
  elif step.cycles:
    yield '  estimate    none: this compiler states none' if not found.cycles else f'  estimate    {found.cycles:,} cycles'


def _in_words(shape: Shape) -> str:
  return f'{shape.rows} × ({shape.source}, {shape.target})'
