"""The library's configuration: frozen records, checked on creation. A new option gets its field and check here.

The choices of an option are listed in its registry (registries.py). The experiment's configuration
(configs/default.py) has more options; scripts turn its sections into these records. A record's `idle()` returns the
fields that other fields make ineffective, each with the reason, which begins with the name of the deciding field.
"""

from transformer.config.mesh import MeshConfig
from transformer.config.model import ArchitectureConfig, LanguageModelConfig, ModelConfig
from transformer.config.recurrent import RecurrentConfig
from transformer.config.training import ClassificationConfig, ConsistencyConfig, LossConfig, OptimizerConfig

AnyModelConfig = ModelConfig | RecurrentConfig | LanguageModelConfig

__all__ = ['AnyModelConfig', 'ArchitectureConfig', 'ClassificationConfig', 'ConsistencyConfig', 'LanguageModelConfig',
           'LossConfig', 'MeshConfig', 'ModelConfig', 'OptimizerConfig', 'RecurrentConfig']
