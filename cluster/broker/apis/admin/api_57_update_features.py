"""UpdateFeatures (57): the levels of features of the whole cluster (KIP-584), decided by the controller.

0  a level may be lowered
1  how: a safe or an unsafe downgrade; or only a check (KIP-778)
2  all features or none: one error for the whole answer (KIP-1022)

source: FeatureControlManager.updateFeatures, QuorumController.updateFeatures
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import UPDATE_FEATURES

API = answered_by_controller(UPDATE_FEATURES, otherwise=Refused(always(NOT_HERE)))
