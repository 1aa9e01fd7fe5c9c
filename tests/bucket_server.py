"""A bucket on this machine: gcp-storage-emulator, and what it lacks of Google's own service.

    with BucketServer() as server:
      server.environment      # what a process needs to find it
      server.objects('run/')  # the names of its objects

Added are generations as conditions of writing and deleting (ifGenerationMatch) and as a header of what is read, without
which TensorStore refuses its answers; several requests at a time; and uploads of which only a part arrives, which leave
no object.
"""

import io
import json
import logging
import re
import threading
from http import server
from urllib.parse import parse_qs, unquote, urlsplit

from gcp_storage_emulator.handlers import buckets
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage

BUCKET = 'bucket'
for name in ('api', 'api.object', 'api.bucket', 'gcp_storage_emulator'):
  logging.getLogger(name).setLevel(logging.CRITICAL)


class BucketServer:
  """A server with one empty bucket, on a free port. A context manager, which stops it."""

  def __init__(self):
    self.storage, self._lock = Storage(use_memory_fs=True), threading.RLock()
    buckets.create_bucket(BUCKET, self.storage)
    self._cut, self.num_cut = None, 0  # which uploads lose their connection, and how many of them did
    self.refusal = None  # the status that every request gets in place of an answer, such as 403
    handler = type('Handler', (_Handler,), {'owner': self})
    self._server = server.ThreadingHTTPServer(('127.0.0.1', 0), lambda *inputs: handler(self.storage, *inputs))
    self._server.daemon_threads = True
    self._server.handle_error = lambda *_: None  # a client that is gone, such as a killed one
    self.url = f'http://127.0.0.1:{self._server.server_address[1]}'
    # The last one keeps Google's libraries from asking for credentials where this machine would have them from.
    self.environment = {'STORAGE_EMULATOR_HOST': self.url, 'TENSORSTORE_GCS_HTTP_URL': self.url, 'NO_GCE_CHECK': 'true'}

  def __enter__(self):
    threading.Thread(target=self._server.serve_forever, daemon=True).start()
    return self

  def __exit__(self, *_):
    self._server.shutdown()
    self._server.server_close()

  def objects(self, prefix=''):
    with self._lock:
      return sorted(name for name in self.storage.objects.get(BUCKET, {}) if name.startswith(prefix))

  def read(self, name):
    with self._lock:
      return self.storage.get_file(BUCKET, name)

  def generation(self, name):
    """The generation of an object, 0 where there is none."""
    with self._lock:
      found = self.storage.objects.get(BUCKET, {}).get(name)
      return int(found['generation']) if found else 0

  def overwrite(self, name, data):
    """Change the content of an object, as nothing but a fault does."""
    with self._lock:
      about = {key: value for key, value in self.storage.get_file_obj(BUCKET, name).items()
               if key not in ('crc32c', 'md5Hash')}
      self.storage.create_file(BUCKET, name, data, about | {'size': str(len(data))})

  def copy(self, folder, target):
    """Copy all objects below a folder."""
    for name in self.objects(f'{folder}/'):
      with self._lock:
        copied = self.storage.get_file_obj(BUCKET, name) | {'name': f'{target}{name.removeprefix(folder)}'}
        self.storage.create_file(BUCKET, copied['name'], self.read(name), copied)

  def remove(self, name):
    with self._lock:
      self.storage.delete_file(BUCKET, name)

  def cut_uploads(self, pattern, times=None):
    """From now on, break the connection in the middle of uploads whose name matches; `times` of each, or always."""
    self._cut, self._times, self._seen = re.compile(pattern) if pattern else None, times, {}

  def is_cut(self, name):
    with self._lock:
      if self._cut is None or not self._cut.search(name):
        return False
      self._seen[name] = self._seen.get(name, 0) + 1
      cut = self._times is None or self._seen[name] <= self._times
      self.num_cut += cut
      return cut


class _Handler(RequestHandler):
  owner: BucketServer

  def _handle(self, method):
    url = urlsplit(self.path)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    size = int(self.headers.get('Content-Length', 0))
    # The name of an upload stands in its address, or at the beginning of its content.
    first = size // 2 if 'name' in query or size > 10_000 else max(size - 1, 0)
    body = self.rfile.read(first)
    if 'upload' in url.path and method == 'POST' and self.owner.is_cut(self._name(url.path, query, body)):
      self.close_connection = True
      self.connection.close()
      return
    body += self.rfile.read(size - first)
    if len(body) < size:  # who sent it is gone
      return
    name = self._name(url.path, query, body)
    if self.owner.refusal:
      return self._answer(self.owner.refusal, b'{"error": {"message": "no access"}}')
    self.rfile = io.BytesIO(body)
    with self.owner._lock:
      wanted = query.get('ifGenerationMatch')
      if wanted is not None and int(wanted) != self.owner.generation(name):
        return self._answer(412)
      self._generation = self.owner.generation(name) if method == 'GET' and query.get('alt') == 'media' else 0
      getattr(super(), f'do_{method}')()

  def _answer(self, status, body=b''):
    self.send_response(status)
    self.send_header('Content-Length', str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def _name(self, path, query, body):
    """The object that a request is about."""
    if found := re.search(r'/b/[^/]+/o/(.+)$', path):
      return unquote(found[1])
    if 'name' in query:
      return query['name']
    found = re.search(rb'\n(\{.*?\})\s', body)
    try:
      return json.loads(found[1])['name'] if found else ''
    except (ValueError, KeyError):
      return ''

  def end_headers(self):
    if getattr(self, '_generation', 0):
      self.send_header('x-goog-generation', str(self._generation))
    super().end_headers()

  def do_GET(self):
    self._handle('GET')

  def do_POST(self):
    self._handle('POST')

  def do_DELETE(self):
    self._handle('DELETE')

  def do_PUT(self):
    self._handle('PUT')

  def do_PATCH(self):
    self._handle('PATCH')
