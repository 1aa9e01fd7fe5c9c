"""What the documents say of the run that `make train` makes is what that run reached."""

import dataclasses
import json

import pytest

from benchmarks import documents
from checks.errors import ConfigError
from explorer import page
from explorer.first_view import FirstView
from explorer.gates import Head
from explorer.head_ablation import Effect
from tests.explorer_stand_ins import constructed, text_of

HEAD = {'roles': ['positional'], 'alignment_error': 0.5}
LAYER = {'entropy': 1.25, 'near': 0.5, 'last': 0.125}
FOUND = {'head': 'cross-attention, layer 1, head 2', 'pairs_right_test': 0.75, 'test': 0.5}
ANALYSIS = {
    'heads': {'encoder': [[{'roles': [], 'relations': {'object → verb': {'met': 0.25, 'best_fixed_offset': 0.5}}},
                           {'roles': ['rare words'], 'relations': {'object → verb': {'met': 0.75}}}]],
              'cross': [[HEAD, HEAD | {'alignment_error': 0.1}]]},
    'layers': {'encoder': [LAYER, LAYER], 'cross': [LAYER]},
    'layers_of_random_weights': {'encoder': [LAYER, LAYER], 'cross': [LAYER | {'entropy': 3.0}]},
    'pruning': [{'closed': 0, 'bleu': 98.04, 'signature': 'v:1'}, {'closed': 3, 'bleu': 90.0, 'signature': 'v:1'}],
    'it': {'pairs': {'validation': 6, 'test': 9}, 'best_fixed_offset': {'offset': -2, 'pairs_right_test': 0.0},
           **{kind: {'trained': FOUND, 'random weights': FOUND, 'shuffled sentences': FOUND,
                     'deciding adjective': {'trained': FOUND, 'random weights': FOUND}} for kind in ('encoder', 'cross')}}}
LOG = """step 3  validation loss 1
step 6  validation loss 0.5
    He sleeps.
    Er schläft.
saved
Translating phrasebook test …
BLEU 98.0
Sentences that training never saw (3 of 3 right):
  right  I am a student.
         Ich bin Student.
  right  It was too tired.
         Es war zu müde.

Translate a sentence:  echo | /home/x/bin/python decode.py
Train on a file of yours:  python train.py
""".splitlines()


def result(accuracy):
  return {'bleu': 98.04, 'chrf': 99.0, 'name_accuracy': accuracy, 'pronoun_accuracy': accuracy,
          'pronoun_accuracy_unseen_keys': accuracy, 'name_accuracy_by_class': {'city': {'accuracy': accuracy - 0.1}}}


def test_the_documents_say_what_the_run_reached():
  figures = json.loads(documents.RECORD.read_text(encoding='utf-8'))['figures']
  said = [(path.name, *figure) for path in documents.documents()
          for figure in documents.figures_in(path.read_text(encoding='utf-8'))]
  assert [(path, name) for path, name, value in said if value != figures.get(name)] == [], '`make docs` fills them in'
  assert {name for _, name, _ in said} == set(figures), 'figures that no document has'


def test_figures_are_filled_in_and_an_unknown_one_is_refused(tmp_path):
  text = 'BLEU <!--run:bleu-->1<!---->, names\n<!--run:names-->\n| a |\n<!---->.'
  filled = documents.filled(text, {'bleu': '98.0', 'names': '\n| b |\n'}, tmp_path)
  assert documents.figures_in(filled) == [('bleu', '98.0'), ('names', '\n| b |\n')]
  assert filled.startswith('BLEU <!--run:bleu-->98.0<!---->, names')
  with pytest.raises(ConfigError, match='bleu; expected one of names'):
    documents.filled(text, {'names': ''}, tmp_path)


def test_figures_come_from_what_runs_and_their_analysis_wrote():
  found = documents.figures([result(1.0), result(0.9)], ANALYSIS, LOG)
  assert found['bleu'] == '98.0' and found['pronouns_of_seeds'] == '1.000 and 0.900'
  assert found['name_classes_from'] == '0.800'
  assert '| best single head | 0.750 (layer 1, head 2) | 0.750 (layer 1, head 2) |' in found['it_heads']
  assert found['heads'] == '4' and found['heads_with_roles'] == '3'
  assert found['best_aligner'] == 'cross-attention, layer 1, head 2' and found['best_aligner_error'] == '0.10'
  assert found['pruning'] == '\n| closed of 4 | 0 | 3 |\n|---|---|---|\n| BLEU | 98.0 | 90.0 |\n'
  assert (found['object_verb_met'], found['object_verb_fixed'], found['encoder_last']) == ('0.75', '0.50', '0.12, 0.12')
  assert '| cross-attention, layer 1 | 1.25 (3.00) | 0.50 (0.50) | 0.12 (0.12) |' in found['layers']


def test_figures_on_two_sentences_come_from_what_heads_do_and_what_closing_them_does():
  english = [['animal', 'street', adjective] for adjective in ('tired', 'wide')]
  targets = 'ruht, weil es ruht', 'ruht, weil sie ruht'
  sentences = []
  for words, target, noun in zip(english, targets, (0, 1)):
    links = [(1, 0, 1, noun, 0.75), (2, 1, 1, 2, 0.5)]
    capture = constructed(words, cross=links)
    capture = dataclasses.replace(capture, predicts=text_of(['weil', target.split()[2], 'ruht']))
    effects = {Head('cross', layer, head): Effect(-0.5, target) for layer in range(3) for head in range(2)}
    effects[Head('cross', 2, 1)] = Effect(-2.0, targets[1])
    sentences.append(page.Sentence(' '.join(words), target, capture, effects=effects))
  found = documents.of_two_sentences(sentences, FirstView(0, 'cross', 1, 0, 1, 0, 0.75, 1))
  assert (found['sie_street_head'], found['sie_street_weight']) == ('layer 2, head 1', '0.75')
  assert (found['es_tired_head'], found['es_tired_weight']) == ('layer 3, head 2', '0.50')
  assert found['without_es_tired_head'] == 'makes both sentences say *sie*'
  assert found['without_first_head'] == found['without_sie_street_head'] == 'changes no word of either'
  assert found['contrast'] == 'writing *es*, it looks at *animal* (1.00); writing *sie*, it looks at *street* (0.75)'
  assert found['first_head'] == 'cross-attention, layer 2, head 1' and found['first_change'] == '-0.50'


def test_what_a_run_prints_is_shortened():
  assert documents.figures([result(1.0)], ANALYSIS, LOG)['log'].splitlines() == ['', *(f'    {line}'.rstrip() for line in [
      'step 6  validation loss 0.5', '    He sleeps.', '    Er schläft.', '…', 'Translating phrasebook test …', 'BLEU 98.0',
      'Sentences that training never saw (3 of 3 right):', '  …', '  right  It was too tired.', '         Es war zu müde.',
      '  …', '', 'Translate a sentence:  echo | .venv/bin/python decode.py', 'Train on a file of yours:  python train.py'])]
