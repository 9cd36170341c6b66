"""Resources that have a configuration, and the operations on it. Source: ConfigResource.Type, AlterConfigOp.OpType"""

from __future__ import annotations

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
