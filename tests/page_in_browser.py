"""A report's page in Chromium, driven through playwright, and texts that a careless page would run as code."""

import shutil
import urllib.parse

import pytest

HOSTILE = ['</script><script>window.hurt=1</script>', '<img src=x onerror=hurt()>', '"\'`', 'javascript:hurt()',
           'line\u2028end', '&lt;b&gt;', '/*SCRIPT*/', '${hurt}', 'שלום', '你好']


@pytest.fixture(scope='module', name='browser')
def launched_browser():
  """Chromium without a window."""
  sync_api = pytest.importorskip('playwright.sync_api', reason='the page is tested through playwright')
  path = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome', 'chrome'))), None)
  if path is None:
    pytest.skip('no Chromium on this machine; on Debian: apt-get install chromium')
  with sync_api.sync_playwright() as driver:
    yield (opened := driver.chromium.launch(executable_path=path, args=['--no-sandbox']))
    opened.close()


class Tab:
  """A page in the browser; keeps what it prints, errors included, and the addresses that it requests."""

  def __init__(self, browser, path, fragment='', **options):
    self.printed, self.requested = [], []
    self.page = browser.new_page(**options)
    self.page.on('console', lambda message: self.printed.append(message.text))
    self.page.on('pageerror', lambda error: self.printed.append(str(error)))
    self.page.on('request', lambda request: self.requested.append(request.url))
    self.page.goto(f'file://{path}{fragment}')
    self.ready()

  def ready(self):
    self.page.wait_for_selector('html[data-ready]', state='attached')

  def state(self):
    fragment = self.page.evaluate('location.hash').lstrip('#')  # page.url lags behind the page
    return dict(urllib.parse.parse_qsl(fragment, keep_blank_values=True))

  def arcs(self):
    """Pixels of the classic view that arcs have coloured."""
    return self.page.evaluate('''() => { const c = document.querySelector('.classic canvas');
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      return d.filter((v, i) => i % 4 === 3 && v > 0).length; }''')

  def text(self, selector):
    return self.page.inner_text(selector)

  def close(self):
    """Closes the page, which must have printed nothing and requested nothing but its own file."""
    self.page.close()
    assert self.printed == [] and [url for url in self.requested if not url.startswith(('file://', 'blob:'))] == []
