"""From a corpus to batches: corpus -> token store -> batch plan -> the batch at step n. Read this first.

    store = open_store(corpus.train, source_vocabulary, target_vocabulary, folder)
    plan = make_plan(store, BatchConfig('buckets', batch_tokens=4096, max_length=256), seed=0)
    for batch in batches(plan, start=0, stop=plan.batches_per_epoch):
      ...

Text is tokenised once into a store on disk (ids and offsets, memory-mapped), named by a hash of everything that made
it. From the sentences' lengths alone a plan says which sentences form which batch of which epoch. So the batch at
step n is a pure function of (seed, n): the iterator's whole state is one integer, and neither a restart nor the
number of hosts changes what is trained on. With subword sampling each epoch has a store of its own, made ahead.

The parts are implemented in batching/.
"""

import functools
import sys
from collections.abc import Iterator

from batching import buckets, packed  # noqa: F401  (they register themselves in BATCHINGS)
from batching.plan import BATCHINGS, BatchConfig, Plan
from batching.sampled import SampledStores
from batching.store import Progress, Store, open_store, open_text_store
from corpora.splits import Split, TextSplit
from corpora.subword_sampling import SampledVocabulary, SamplingConfig
from corpora.vocabulary import Vocabulary
from transformer.classification import LabelledBatch
from transformer.tokens import Batch


def plan_pairs(split: Split, source: Vocabulary, target: Vocabulary, config: BatchConfig, seed: int, folder: str,
               shuffle: bool = True, progress: Progress | None = None) -> Plan:
  """Return the batch plan of a parallel split.

  Args:
    split: the sentence pairs.
    source, target: vocabularies; the same one twice when joint.
    config: how sentences become batches.
    seed: decides which sentences share a batch, and the order of batches.
    folder: where token stores lie; the text is tokenised when its store does not exist yet.
    shuffle: for training; text that is only evaluated keeps its order.
    progress: wraps the iterator over pairs while they are tokenised.
  """
  return make_plan(open_store(split, source, target, folder, progress), config, seed, shuffle)


def plan_sampled_pairs(split: Split, source: Vocabulary, target: Vocabulary, config: BatchConfig,
                       sampling: SamplingConfig, seed: int, folder: str, progress: Progress | None = None) -> Plan:
  """Return the batch plan of a parallel split that each epoch tokenises anew, from (seed, epoch, sentence).

  Args:
    sampling: how segmentations are drawn.
    folder: where the epochs' stores lie; they belong to one run, since older ones are removed.
    split, source, target, config, seed, progress: as in plan_pairs.
  """
  vocabularies = lambda epoch: [SampledVocabulary(vocabulary, sampling, seed, epoch, side)
                                for side, vocabulary in enumerate((source, target))]
  return make_plan(SampledStores(split, vocabularies, folder, progress), config, seed)


def plan_documents(split: TextSplit, vocabulary: Vocabulary, config: BatchConfig, seed: int, folder: str,
                   shuffle: bool = True, progress: Progress | None = None) -> Plan:
  """Return the batch plan of running text, whose documents are cut into blocks of config.max_length tokens.

  Args as in plan_pairs; blocks are targets without a source.
  """
  return make_plan(open_text_store(split, vocabulary, config.max_length, folder, progress), config, seed, shuffle)


def make_plan(store: Store | SampledStores, config: BatchConfig, seed: int, shuffle: bool = True) -> Plan:
  """Return the plan that config.batching names. (Labelled examples need no store: see batching.labelled.)"""
  return BATCHINGS[config.batching](store, config, seed, shuffle)


def batches(plan: Plan, start: int, stop: int | None = None, host: int = 0, hosts: int = 1, num_threads: int = 2
            ) -> Iterator[Batch | LabelledBatch]:
  """Iterate over batches start … stop - 1, or over one host's rows of them, prepared ahead by threads.

  Without `stop` they never end. There are no worker processes, and the threads have no state to save.
  """
  stop = sys.maxsize if stop is None else stop
  if start >= stop:
    return iter(())
  import grain.python as grain  # slow to import, and only needed here
  at = functools.partial(plan.batch_at, host=host, hosts=hosts)
  options = grain.ReadOptions(num_threads=num_threads, prefetch_buffer_size=2 * num_threads)
  return iter(grain.MapDataset.range(start, stop).map(at).to_iter_dataset(options))
