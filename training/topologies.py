"""Devices that a program can be compiled for, although this machine has none of them: TPU slices, H100s, more CPUs.

The compilers are packages: libtpu holds the TPUs', jax-cuda12-plugin CUDA's. Neither needs the hardware. find() runs in
a process of its own, whose environment environment() gives before jax is imported there.
"""

import math
import os
import re
from typing import NamedTuple

import jax
from jax.experimental import topologies

from checks.errors import ConfigError
from options.train_options import TOPOLOGY


class _Kind(NamedTuple):
  """What the compilers do not tell of a device, by its jax.Device.device_kind."""

  memory: int  # bytes that a program may use: what libtpu 0.0.42 names when a program needs more
  clock: float | None  # cycles a second of its compiler's estimates; None: no estimates, or a clock that is not published


_GIB = 2 ** 30
_KINDS = {
    'TPU v2': _Kind(int(7.48 * _GIB), 0.7e9), 'TPU v3': _Kind(int(15.48 * _GIB), 0.94e9),
    'TPU v4': _Kind(int(30.75 * _GIB), 1.05e9), 'TPU v5 lite': _Kind(int(15.75 * _GIB), 1.5e9),
    'TPU v5': _Kind(int(95.74 * _GIB), 1.75e9), 'TPU v6 lite': _Kind(int(31.25 * _GIB), 1.75e9),
    'TPU7x': _Kind(int(94.75 * _GIB), None),
    # Of a GPU's memory jax reserves three quarters unless XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise.
    'NVIDIA H100 80GB HBM3': _Kind(84942979072 * 3 // 4, None),
}
_OPTIONS = {'v4': {'chip_config_name': 'megacore'}}  # as on TPU VMs: the two cores of a chip are one device
_DEVICES_OF_A_CHIP = {'v2': 2, 'v3': 2}
_H100S_OF_A_HOST = 8
_CUDA_PACKAGES = 'jax-cuda12-plugin=={0} jax-cuda12-pjrt=={0} nvidia-cuda-nvcc-cu12'
_TARGETS = os.path.join(os.path.dirname(__file__), 'targets')


class Topology(NamedTuple):
  """Devices to compile for."""

  devices: list[jax.Device]
  memory: int | None  # bytes of each device that a program may use; None where nothing limits them
  clock: float | None  # see _Kind


def environment(name: str) -> dict[str, str]:
  """Return the environment variables that a process which compiles for a topology needs before it imports jax."""
  kind, _, size = name.partition(':')
  flags = re.sub(r'--xla_force_host_platform_device_count=\d+', '', os.environ.get('XLA_FLAGS', ''))
  return {
      'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': size if kind == 'cpu' else '1', 'XLA_FLAGS': flags,
      'JAX_ENABLE_COMPILATION_CACHE': 'false',  # a program from the cache would not be written out on the way
      'TPU_SKIP_MDS_QUERY': '1',  # or libtpu asks the metadata server of a TPU VM which devices there are
      'ALLOW_MULTIPLE_LIBTPU_LOAD': '1'}  # or a second process that compiles for TPUs aborts on a lock file


def size(name: str) -> int:
  """Return the number of devices of a topology, without its compiler."""
  kind, _, shape = name.partition(':')
  return math.prod(map(int, shape.split('x'))) * _DEVICES_OF_A_CHIP.get(kind, 1)


def find(name: str) -> Topology:
  """Return the devices that a name such as v5e:4x4, h100:4 or cpu:8 stands for.

  Raises:
    ConfigError: when there is no such topology, or the compiler for it is not installed.
  """
  kind, _, size = name.partition(':')
  devices = jax.devices() if kind == 'cpu' else _h100s(int(size)) if kind == 'h100' else _tpus(name)
  known = _KINDS.get(devices[0].device_kind, _Kind(None, None))
  return Topology(devices, known.memory, known.clock)


def _tpus(name: str) -> list[jax.Device]:
  try:
    return topologies.get_topology_desc(name, 'tpu', **_OPTIONS.get(name.partition(':')[0], {})).devices
  except RuntimeError as error:
    if 'not installed' in str(error):
      raise ConfigError(f'--compile_for={name} needs the compiler for TPUs, which is not installed here; it works '
                        f'without a TPU: pip install "jax[tpu]=={jax.__version__}"') from None
    raise ConfigError(f'--compile_for={name}: libtpu has no such slice ({str(error).splitlines()[0]}); expected '
                      f'{TOPOLOGY}') from None


def _h100s(count: int) -> list[jax.Device]:
  hosts, rest = divmod(count, _H100S_OF_A_HOST)
  if hosts and rest:
    raise ConfigError(f'--compile_for=h100:{count}: more than {_H100S_OF_A_HOST} are whole hosts of '
                      f'{_H100S_OF_A_HOST}; expected a multiple of it')
  with open(os.path.join(_TARGETS, 'h100.txtpb'), encoding='utf-8') as file:
    description = re.sub(r'#.*', '', file.read())
  # Slices, hosts in each, and GPUs in each host.
  shape = f'1x{max(hosts, 1)}x{_H100S_OF_A_HOST if hosts else count}'
  try:
    return topologies.get_topology_desc('', 'cuda', target_config=description, topology=shape).devices
  except RuntimeError as error:
    raise ConfigError(f'--compile_for=h100:{count} needs the compiler for CUDA, which is not installed here or does not '
                      f'start ({str(error).splitlines()[0]}); it works without a GPU: pip install '
                      + _CUDA_PACKAGES.format(jax.__version__)) from None
