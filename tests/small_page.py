"""A page on three small sentences, one of them of texts that a careless page would run as code."""

import pytest

from checks.whole_files import write_whole
from explorer import beam, first_view, page
from explorer.gates import Head
from explorer.head_ablation import Effect
from explorer.texts import Text
from tests.explorer_stand_ins import WIDTH, drawn, text_of
from tests.page_in_browser import HOSTILE, Tab

SOURCE = Text(('The', 'ani', '·mal', 'is', 'tired', '.', '⟨eos⟩'), ('The', 'animal', 'is', 'tired', '.', '⟨eos⟩'),
              (0, 1, 1, 2, 3, 4, 5), (False,) * 6 + (True,))
OTHER = Text(('The', 'ani', '·mal', 'is', 'wide', '.', '⟨eos⟩'), ('The', 'animal', 'is', 'wide', '.', '⟨eos⟩'),
             (0, 1, 1, 2, 3, 4, 5), (False,) * 6 + (True,))
TARGET = Text(('Das', 'Ti', '·er', 'ist', 'müde', '⟨eos⟩'), ('Das', 'Tier', 'ist', 'müde', '⟨eos⟩'),
              (0, 1, 1, 2, 3, 4), (False,) * 5 + (True,))


def sentence(capture):
  heads = [Head(kind, layer, head) for kind in capture.weights for layer in range(2) for head in range(3)]
  effects = {head: Effect(-0.25 * n, 'Das Tier ist breit') for n, head in enumerate(heads)}
  nodes = [beam.Node(-1, 0, 0, -0.5, beam.KEPT, None), beam.Node(-1, 0, 1, -1.5, beam.PRUNED, None),
           beam.Node(0, 1, 2, -0.9, beam.FINISHED, -0.8)]
  tree = page.beam_record(beam.Tree(nodes, [0, 2]), lambda ids: [HOSTILE[i] for i in ids],
                          'length, alpha 0.17', beam.Departure(1, 3, -4.0, -0.9), compared=True)
  lens = [[(piece, 0.5) for piece in capture.written]] * 2
  return page.Sentence(' '.join(capture.source.words), 'Das Tier ist müde', capture, lens, -3.5, effects, tree)


@pytest.fixture(scope='module', name='captures')
def drawn_captures():
  hostile = text_of(HOSTILE)
  return [drawn(SOURCE, TARGET, seed=1), drawn(OTHER, TARGET, seed=2), drawn(hostile, hostile, seed=3)]


@pytest.fixture(scope='module', name='written')
def written_page(captures, tmp_path_factory):
  """A page on three sentences that opens on the first: query "animal", key "tired"."""
  first = first_view.FirstView(0, 'encoder', 1, 2, 1, 3, float(captures[0].by_word('encoder')[1, 2, 1, 3]))
  content = page.report([sentence(capture) for capture in captures], first, [('run', HOSTILE[0])], projected={
      'd_model': WIDTH, 'rotary': False, 'biased': False, 'matrices': page.matrices(captures[0])})
  path = tmp_path_factory.mktemp('page') / 'report.html'
  write_whole(str(path), page.page(content))
  return path


@pytest.fixture(name='tab')
def opened_tab(browser, written):
  opened = Tab(browser, written, viewport={'width': 1280, 'height': 900})
  yield opened
  opened.close()
