"""Options that would leave text out silently, have no effect, or end in a traceback, are refused before text is read."""

import pytest

from checks.errors import ConfigError
from options import train_options
from options.configurations import ROOT
from tasks import setup

TOY = 'toy.py', '--config.data.tsv=pairs.tsv'
MODEL = ('language_model.py',)
EXAMPLES = ('fine_tune.py',)
COLUMNS = 'toy.py', '--config.data.tsv=pairs.tsv', '--config.data.batching=buckets'


def refusal(config, *flags):
  """The message about a configuration with flags, or '' where it is accepted."""
  name, *given = config
  asked = train_options.read(['train.py', f'--config={ROOT}/configs/{name}', '--workdir=x', *given,
                              *(flag if flag.startswith('--') else f'--config.{flag}' for flag in flags)])
  try:
    setup.read(asked)
  except ConfigError as error:
    return str(error)
  return ''


def fixed(source, target, *flags):
  return ('data.batching=fixed', 'data.fixed_rows=16', f'data.fixed_source_length={source}',
          f'data.fixed_target_length={target}', *flags)


@pytest.mark.parametrize('config, flags, words', [
    # blocks, or examples, that no batch would hold
    (MODEL, fixed(0, 127), 'fixed_target_length is 127 and data.max_length 128'),
    (MODEL, fixed(1, 128), 'fixed_source_length is 1; running text has no source: expected 0'),
    (MODEL, ['data.batching=packed', 'data.max_length=257'], 'packed_length is 256 and data.max_length 257'),
    (('language_model.py:gpt',), ['data.batching=packed'], 'packed_length is 256 and data.max_length 512'),
    (EXAMPLES, fixed(128, 127), r'fixed_source_length is 128 and fixed_target_length 127; expected data.max_length \(128\)'),
    # values with which nothing can be done
    (TOY, ['data.fixed_rows=0'], 'fixed_rows is 0; expected a positive number'),
    (TOY, ['data.fixed_rows=-64'], 'fixed_rows is -64; expected a positive number'),
    (TOY, ['data.fixed_target_length=0'], 'fixed_target_length is 0; expected a positive number'),
    (TOY, ['data.fixed_source_length=0'], 'fixed_source_length is 0 .* expected 2 or more'),
    (TOY, ['data.fixed_source_length=-1'], 'fixed_source_length is -1; expected the tokens'),
    (TOY, ['seed=-1'], 'config.seed is -1; expected 0 or more'),
    (TOY, [f'seed={2 ** 63}'], f'config.seed is {2 ** 63}; expected 0 or more, and less'),
    (TOY, ['data.num_threads=-1'], 'config.data: num_threads is -1; expected 0'),
    (TOY, ['data.mix=(5,)'], 'config.data: mix has 5; expected a text'),
    (EXAMPLES, ['data.max_length=4'], "data.max_length is 4; expected 5 or more for data.task 'entailment'"),
    (EXAMPLES, ['data.task=classification', 'data.max_length=2'], 'data.max_length is 2; expected 3 or more'),
    # what has no effect
    (TOY, ['train.batch_tokens=4096'], "config.train.batch_tokens has no effect: data.batching is 'fixed'"),
    (TOY, ['data.max_length=99'], "config.data.max_length has no effect: data.batching is 'fixed'"),
    (TOY, ['data.train_split=a'], "config.data.train_split has no effect: data.kind is 'tsv'"),
    (TOY, ["data.test_splits=('a',)"], "config.data.test_splits has no effect: data.kind is 'tsv'"),
    (MODEL, ['data.train_split=a'], "config.data.train_split has no effect: data.kind is 'running_text'"),
    (('phrasebook.py',), ["data.test_splits=('a',)"], 'config.data.test_splits has no effect'),
    (EXAMPLES, ['data.train_split=a'], 'config.data.train_split has no effect'),
    (EXAMPLES, ['data.source_language=fr'], 'config.data.source_language has no effect'),
    (MODEL, ['data.target_language=fr'], "config.data.target_language has no effect: data.kind is 'running_text'"),
    (MODEL, ['train.eval_sentences=9'], 'config.train.eval_sentences has no effect: .*only kinds that hold pairs use it'),
    (EXAMPLES, ['train.eval_sentences=9'], 'config.train.eval_sentences has no effect'),
    (EXAMPLES, ['model.dropout=2.0', 'data.batching=packed'], "(?s)2 mistakes.*dropout is 2.0.*batching is 'packed'"),
    (EXAMPLES, ['--compile_for=cpu:1'], '--compile_for is for translators and language models'),
])
def test_it_is_refused_with_what_was_expected(config, flags, words):
  with pytest.raises(ConfigError, match=words):
    raise ConfigError(refusal(config, *flags))


@pytest.mark.parametrize('config, flags', [
    (MODEL, fixed(0, 128)), (MODEL, ['data.batching=packed']), (EXAMPLES, fixed(128, 128)), (EXAMPLES, ['data.max_length=5']),
    (TOY, ['data.fixed_source_length=2']), (TOY, ['data.num_threads=0']), (TOY, [f'seed={2 ** 63 - 1}']),
    (COLUMNS, ['train.batch_tokens=4096', 'data.max_length=99', 'data.source_language=fr', 'train.eval_sentences=9']),
    (COLUMNS, ["data.mix=('more',)", 'data.train_split=more']),  # it names the files of the folder
    (('phrasebook.py',), ['data.source_language=de', 'data.target_language=en']),
    (('language_model.py:phrasebook',), ['data.source_language=de', 'data.target_language=en']),
    (MODEL, ['--compile_for=cpu:1'])])
def test_what_lies_just_beside_is_accepted(config, flags):
  assert refusal(config, *flags) == ''


def test_a_translator_of_one_shape_was_trained_on_sources_no_longer_than_it():
  asked = train_options.read(['train.py', f'--config={ROOT}/configs/toy.py', '--workdir=x', TOY[1]])
  assert setup.read(asked).batches.limits == (41, 42)
