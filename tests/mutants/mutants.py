"""Safety rules, each with the change of source that takes it out, and what catches the mutant.

The rules are those of replica/RULES.md and the guards of the TLA+ models of Kafka's
replication (hachikuji/kafka-specification, Vanlightly/kafka-tlaplus).
"""

from __future__ import annotations

from mutant import Mutant
from mutants_of_access import OF_ACCESS
from mutants_of_clients import CLIENTS
from mutants_of_compaction import COMPACTION
from mutants_of_control import CONTROL
from mutants_of_groups import OF_GROUP_COORDINATORS
from mutants_of_logs import LOGS
from mutants_of_quotas import OF_QUOTAS
from mutants_of_replication import REPLICATION
from mutants_of_settings import OF_SETTINGS
from mutants_of_shares import OF_SHARES
from mutants_of_streams import OF_STREAMS
from mutants_of_transactions import TRANSACTIONS

MUTANTS: tuple[Mutant, ...] = (
    *REPLICATION,
    *CONTROL,
    *LOGS,
    *CLIENTS,
    *TRANSACTIONS,
    *OF_GROUP_COORDINATORS,
    *COMPACTION,
    *OF_QUOTAS,
    *OF_SETTINGS,
    *OF_ACCESS,
    *OF_SHARES,
    *OF_STREAMS,
)
