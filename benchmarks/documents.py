"""Fill in what the documents say of the run that `make train` makes: `make docs`.

    make docs LOG=train.log SEEDS=runs/seed1,runs/seed2      # LOG: all that `make train` printed

In README.md, docs/ and benchmarks/RESULTS.md a figure of that run stands between `<!--run:NAME-->` and `<!---->`. This
command takes all of them from the run's results.json, from what it printed, from what analyze.py --pruning found, and
from runs with other seeds; writes them into the documents, and to docs/run.json together with where they are from.
tests/test_documents.py holds that the documents say what docs/run.json has, so that no figure is changed by hand.
"""

import argparse
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import tasks
from checks.errors import ConfigError
from checks.whole_files import write_whole
from explorer import logit_lens, page, reports
from explorer.first_view import FirstView
from explorer.gates import KINDS, Head
from options import programs
from training.json_files import read_json, write_json
from training.run_folder import RunFolder
from transformer import tokens

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / 'docs' / 'run.json'
BOB = 'Bob kicked the ball.', 'Bob hat den Ball getreten.'
LINES = tuple(f"The animal didn't cross the street because it was too {adjective}." for adjective in ('tired', 'wide'))
# Of the shown sentences and what follows, the README has these; … stands for the others.
_SHOWN = ('too tired.', 'too wide.')
_SHOWN_RELATIONS = ('object → verb', 'verb → subject')


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--workdir', default='runs/phrasebook', help='folder of the run (default runs/phrasebook)')
  parser.add_argument('--log', required=True, help='file of all that `make train` printed')
  parser.add_argument('--analysis', required=True, help='file that analyze.py --pruning wrote of the run')
  parser.add_argument('--seeds', required=True, help='folders of runs with seeds 1 and 2, separated by commas')
  options = parser.parse_args()
  folders = [RunFolder.open(folder) for folder in (options.workdir, *options.seeds.split(','))]
  origins = [origin(folder) for folder in folders]
  if any(each != origins[0] for each in origins):
    raise ConfigError(f'the runs differ in commit or versions: {origins}; expected runs of one commit, with nothing '
                      'changed, in one environment')
  log = pathlib.Path(options.log).read_text(encoding='utf-8').splitlines()
  report = reports.explain(tasks.load(options.workdir), LINES)
  found = figures([read_json(folder.results) for folder in folders], read_json(options.analysis), log)
  found |= of_two_sentences(report.sentences, report.first_view) | of_bob(tasks.load(options.workdir, n_best=4))
  found['commit'] = origins[0]['commit'][:7]
  texts = {path: filled(path.read_text(encoding='utf-8'), found, path) for path in documents()}
  write_json(str(RECORD), {'from': origins[0], 'figures': dict(sorted(
      figure for text in texts.values() for figure in figures_in(text)))})
  for path, text in texts.items():
    write_whole(str(path), text)


def origin(folder: RunFolder) -> dict[str, Any]:
  """Return the commit and the versions that a run is of."""
  environment = read_json(folder.environment)
  if environment['uncommitted_changes']:
    raise ConfigError(f'{folder.path} was trained with changes that are not committed; expected a run of a commit')
  return {name: environment[name] for name in ('commit', 'python', 'packages', 'cores')}


def documents() -> list[pathlib.Path]:
  """Return the documents that may have figures."""
  return [ROOT / 'README.md', ROOT / 'benchmarks' / 'RESULTS.md', *sorted((ROOT / 'docs').rglob('*.md'))]


def filled(text: str, figures: Mapping[str, str], path: pathlib.Path, source: str = 'run') -> str:
  """Return a document with its figures filled in: what stands between `<!--SOURCE:NAME-->` and `<!---->`.

  Raises:
    ConfigError: for a name that is no figure.
  """
  def figure(match: re.Match) -> str:
    before, name, _, after = match.groups()
    if name not in figures:
      raise ConfigError(f'{path} asks for the figure {name}; expected one of {", ".join(sorted(figures))}')
    return before + figures[name] + after

  return _places_of(source).sub(figure, text)


def figures_in(text: str, source: str = 'run') -> list[tuple[str, str]]:
  """Return the figures that a document has of a source: (name, what stands there)."""
  return [(name, value) for _, name, value, _ in _places_of(source).findall(text)]


def _places_of(source: str) -> re.Pattern:
  return re.compile(rf'(<!--{source}:([a-z_0-9]+)-->)(.*?)(<!---->)', re.DOTALL)


def figures(results: Sequence[Mapping[str, Any]], analysis: Mapping[str, Any], log: Sequence[str]) -> dict[str, str]:
  """Return every figure by name, as the documents have it.

  Args:
    results: results.json of the run, and of those with other seeds.
    analysis: what analyze.py --pruning wrote of the run.
    log: the lines that the run printed.
  """
  first = results[0]
  return {
      **{name: f'{first[key]:.{digits}f}' for name, (key, digits) in _SCORES.items()},
      **{f'{name}_of_seeds': _listed(f'{each[key]:.{digits}f}' for each in results)
         for name, (key, digits) in _SCORES.items()},
      'name_classes_from': f'{min(of["accuracy"] for each in results for of in each["name_accuracy_by_class"].values()):.3f}',
      'log': _what_comes_out(log),
      **_about_it(analysis['it']), **_of_heads(analysis), **_of_layers(analysis),
      'pruning': markdown_table(
          ['closed of ' + str(_count(analysis)), *(str(step['closed']) for step in analysis['pruning'])],
          [['BLEU', *(f'{step["bleu"]:.1f}' for step in analysis['pruning'])]]),
      'pruning_signature': analysis['pruning'][0]['signature'],
  }


_SCORES = {'bleu': ('bleu', 1), 'chrf': ('chrf', 1), 'names': ('name_accuracy', 3), 'pronouns': ('pronoun_accuracy', 3),
           'pronouns_unseen': ('pronoun_accuracy_unseen_keys', 3)}


def _listed(values: Iterable[str]) -> str:
  *others, last = values
  return f'{", ".join(others)} and {last}'


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  line = lambda cells: f'| {" | ".join(cells)} |'
  return '\n'.join(['', line(head), '|' + '---|' * len(head), *map(line, rows), ''])


def _what_comes_out(log: Sequence[str]) -> str:
  """Return the end of what a run prints, from its last evaluation on, shortened."""
  last = max(number for number, line in enumerate(log) if re.match(r'step [\d,]+  validation', line))
  scored = next(number for number in range(last, len(log)) if log[number].startswith('Translating'))
  shown = next(number for number in range(scored, len(log)) if log[number].startswith('Sentences that training'))
  end = next(number for number in range(shown, len(log)) if log[number].startswith('Train on a file'))
  pairs = [log[number:number + 2] for number in range(shown + 1, end) if log[number].endswith(_SHOWN)]
  kept = [*log[last:last + 3], '…', *log[scored:shown + 1], '  …', *(line for pair in pairs for line in pair), '  …', '',
          *(line for line in log[shown:end + 1] if re.match(r'(Translate|Go on|Train on)', line))]
  plain = lambda line: re.sub(r'\S*/bin/python', '.venv/bin/python', line)
  return '\n' + '\n'.join(f'    {plain(line)}'.rstrip() for line in kept) + '\n'


def _place(name: str) -> str:
  """Return a head's name without its kind, as prose has it: layer 3, head 2."""
  return name.split(', ', 1)[1]


def _about_it(it: Mapping[str, Any]) -> dict[str, str]:
  """Return the two tables on "it", and the numbers of pairs."""
  share = lambda kind, weights: it[kind][weights]['pairs_right_test']
  best = [f'{share(kind, "trained"):.3f} ({_place(it[kind]["trained"]["head"])})' for kind in ('encoder', 'cross')]
  rows = [['best single head', *best],
          *([name, *(f'{share(kind, weights):.3f}' for kind in ('encoder', 'cross'))] for name, weights in (
              ('the same, random weights', 'random weights'),
              ('the same, words of the source shuffled', 'shuffled sentences'))),
          [f'the noun nearest to the best fixed offset ({it["best_fixed_offset"]["offset"]:+d} words)',
           f'{it["best_fixed_offset"]["pairs_right_test"]:.3f}', '']]
  adjective = lambda kind, weights: it[kind]['deciding adjective'][weights]
  looks = [['best single head', *(f'{adjective(kind, "trained")["test"]:.3f} ({_place(adjective(kind, "trained")["head"])})'
                                  for kind in ('encoder', 'cross'))],
           ['the same, random weights', *(f'{adjective(kind, "random weights")["test"]:.3f}'
                                          for kind in ('encoder', 'cross'))]]
  head = ['', f'{KINDS["encoder"]}, from "it"', f'{KINDS["cross"]}, at er / sie / es']
  return {'it_cross_share': f'{share("cross", "trained"):.2f}',
          'it_random_share': f'{share("cross", "random weights"):.2f}', 'it_heads': markdown_table(head, rows),
          'it_adjective': markdown_table(head, looks),
          'it_validation_pairs': str(it['pairs']['validation']), 'it_test_pairs': str(it['pairs']['test'])}


def _count(analysis: Mapping[str, Any]) -> int:
  return sum(len(layer) for layers in analysis['heads'].values() for layer in layers)


def _of_heads(analysis: Mapping[str, Any]) -> dict[str, str]:
  """Return how many heads there are, which have a role, and which aligns words best."""
  heads = {(kind, f'layer {layer + 1}, head {head + 1}'): of for kind, layers in analysis['heads'].items()
           for layer, row in enumerate(layers) for head, of in enumerate(row)}
  roles = [[KINDS[kind], place, ', '.join(of['roles'])] for (kind, place), of in heads.items() if of['roles']]
  kind, place = min((key for key in heads if 'alignment_error' in heads[key]),
                    key=lambda key: heads[key]['alignment_error'])
  relations = {name: (max(of['relations'][name]['met'] for (kind, _), of in heads.items() if kind == 'encoder'), known)
               for name, known in analysis['heads']['encoder'][0][0].get('relations', {}).items()}
  return {**{f'{name.replace(" → ", "_")}_{part}': f'{value:.2f}' for name, (met, known) in relations.items()
             if name in _SHOWN_RELATIONS for part, value in (('met', met), ('fixed', known['best_fixed_offset']))},
          'heads': str(len(heads)), 'heads_with_roles': str(len(roles)),
          'roles': markdown_table(['heads with a role', '', 'role'], roles), 'best_aligner': f'{KINDS[kind]}, {place}',
          'best_aligner_error': f'{heads[kind, place]["alignment_error"]:.2f}'}


def _of_layers(analysis: Mapping[str, Any]) -> dict[str, str]:
  """Return a table of each layer's figures, beside those of random weights."""
  names = {'entropy': 'entropy, bits', 'near': 'within ±1', 'last': 'on the last token'}
  rows = [[f'{KINDS[kind]}, layer {number + 1}', *(f'{of[name]:.2f} ({random[name]:.2f})' for name in names)]
          for kind, layers in analysis['layers'].items()
          for number, (of, random) in enumerate(zip(layers, analysis['layers_of_random_weights'][kind]))]
  encoder = {f'encoder_{name}{suffix}': ', '.join(f'{layer[name]:.2f}' for layer in analysis[key]['encoder'])
             for name in ('entropy', 'last') for suffix, key in (('', 'layers'), ('_random', 'layers_of_random_weights'))}
  return {'layers': markdown_table(['mean of heads (random weights)', *names.values()], rows), **encoder}


# ------------------------------------------------------------------------------------- the two sentences of `make explore`


def of_two_sentences(sentences: Sequence[page.Sentence], first: FirstView) -> dict[str, str]:
  """Return where heads look when the pronoun is written, and what closing some of them does."""
  found = {}
  for sentence, pronoun, words in zip(sentences, ('es', 'sie'), (('animal', 'tired'), ('street', 'wide'))):
    weights = sentence.capture.by_word('cross')[:, :, sentence.capture.predicts.words.index(pronoun)]
    for word in words:
      to_word = weights[:, :, sentence.capture.source.words.index(word)]
      head = Head('cross', *map(int, np.unravel_index(to_word.argmax(), to_word.shape)))
      found |= {f'{pronoun}_{word}_head': _place(head.name), f'{pronoun}_{word}_weight': f'{to_word.max():.2f}',
                f'without_{pronoun}_{word}_head': _without(head, sentences)}
  head = Head(*first[1:4])
  effects = sentences[0].effects
  needed = min(effects, key=lambda each: effects[each].change)
  found |= {'needed_head': needed.name, 'needed_change': f'{effects[needed].change:.2f}',
            'without_needed_head': _without(needed, sentences)}
  looks = [_looks(head, sentence, pronoun) for sentence, pronoun in zip(sentences, ('es', 'sie'))]
  return found | {'contrast': '; '.join(looks), 'first_head': head.name, 'first_change': f'{effects[head].change:.2f}',
                  'without_first_head': _without(head, sentences)}


def _looks(head: Head, sentence: page.Sentence, pronoun: str) -> str:
  """Say where a head looks most when the pronoun is written, or "it" is read."""
  rows, columns = sentence.capture.axes(head.kind)
  word = 'it' if head.kind == 'encoder' else pronoun
  weights = sentence.capture.by_word(head.kind)[head.layer, head.head, rows.words.index(word)]
  return (f'{"reading" if head.kind == "encoder" else "writing"} *{word}*, it looks at *{columns.words[weights.argmax()]}* '
          f'({weights.max():.2f})')


def _without(head: Head, sentences: Sequence[page.Sentence]) -> str:
  """Say what the search writes when a head is closed."""
  texts = [sentence.effects[head].text for sentence in sentences]
  if all(text == sentence.target for text, sentence in zip(texts, sentences)):
    return 'changes no word of either'
  pronouns = {text.split('weil ')[-1].split(' ')[0] for text in texts}
  return (f'makes both sentences say *{pronouns.pop()}*' if len(pronouns) == 1 else
          f'makes them "{texts[0]}" and "{texts[1]}"')


# ----------------------------------------------------------------------------------------------- the course's sentence


def of_bob(translator: Any) -> dict[str, str]:
  """Return tables of what the decoder would say if it ended early, and of the four best translations of a sentence."""
  network, source, target = translator.parts
  sides = translator.encode([BOB[0]])[0], [*target.encode(BOB[1]), target.eos_id]
  read, written = (tokens.pad([side], 1, len(side), vocabulary.pad_id)
                   for side, vocabulary in zip(sides, (source, target)))
  ids, _ = logit_lens.predictions(network, translator.params[0], read, written, target.bos_id)
  lens = [[f'layer {layer}', f'`{" ".join(target.pieces(step.tolist()))}`'] for layer, step in enumerate(ids[0], 1)]
  best = translator.translate([BOB[0]])[0]
  return {'lens': markdown_table(['decoder cut after', 'the likeliest token at each step'], lens),
          'beams': markdown_table(['', 'log_prob', 'score'], [[each.text, f'{each.log_prob:.3g}', f'{each.score:.3g}']
                                                      for each in (best, *best.others)])}


if __name__ == '__main__':
  programs.run(main)
