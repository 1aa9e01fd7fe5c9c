"""What the library takes: records by subject, frozen, checked on creation. A new option gets its field and check here.

The choices of an option stand in its registry (registries.py). The experiment's configuration (configs/default.py) is
wider; scripts turn its sections into these records at the door. Each record says which of its fields have no effect
beside the others: `idle()` maps them to the reason, which begins with the name of the field that decides.
"""

from transformer.config.mesh import MeshConfig
from transformer.config.model import ArchitectureConfig, LanguageModelConfig, ModelConfig
from transformer.config.recurrent import RecurrentConfig
from transformer.config.training import ClassificationConfig, ConsistencyConfig, LossConfig, OptimizerConfig

AnyModelConfig = ModelConfig | RecurrentConfig | LanguageModelConfig

__all__ = ['AnyModelConfig', 'ArchitectureConfig', 'ClassificationConfig', 'ConsistencyConfig', 'LanguageModelConfig',
           'LossConfig', 'MeshConfig', 'ModelConfig', 'OptimizerConfig', 'RecurrentConfig']
