"""Settings of brokers and levels of features that change while a cluster runs (KIP-226, KIP-584)."""

from __future__ import annotations

from mutant import Mutant, mutant

IMAGE = "controller.image"
FEATURES = "controller.features"
CHANGES = "controller.changes"
CONFIG = "controller.config_control"
GROUP_CONFIGS = "cluster.groups.desk"
GROUP_CONFIG = "cluster.dynamic_settings"

OF_SETTINGS: tuple[Mutant, ...] = (
    mutant(
        "setting-of-all-is-not-heard",
        "A setting of all brokers counts for each of them, without a restart (KIP-226)",
        IMAGE,
        "        if record.broker_id in (EVERY_BROKER, self.node_id):",
        "        if record.broker_id == self.node_id:",
        "min-isr-for-all: records.acked",
    ),
    mutant(
        "setting-of-all-before-a-broker-s-own",
        "What one broker has for itself counts before what all have (KIP-226)",
        IMAGE,
        "        return {**self.broker_config.get(EVERY_BROKER, {}), **self.broker_config.get(broker_id, {})}",
        "        return {**self.broker_config.get(broker_id, {}), **self.broker_config.get(EVERY_BROKER, {})}",
        "min-isr-for-all / broker-of-its-own: records.lost",
    ),
    mutant(
        "setting-of-brokers-before-a-topic-s-own",
        "What a topic has for itself counts before what brokers have",
        IMAGE,
        "                topic.log_config = defaults.with_own(topic.config)",
        "                topic.log_config = defaults",
        "min-isr-for-all / topic-of-its-own: records.lost",
    ),
    mutant(
        "setting-of-a-group-is-not-heard",
        "What a group has for itself counts before what its brokers have (GroupConfigManager)",
        GROUP_CONFIGS,
        "        own = self._cache.image.group_config.get(group.group_id, {}).get(key)",
        "        own = None",
        "group-one-stalls / patient-group: event record_read with record r0, between 38.000 s and 42.000 s",
    ),
    mutant(
        "group-goes-beyond-its-brokers",
        "What a group may have for itself is limited by its brokers (GroupConfig.validateValues)",
        GROUP_CONFIG,
        "        if value > high:",
        "        if False:",
        "test tests/cluster/broker/apis/admin/test_admin_configs.py::test_a_setting_that_a_group_cannot_have",
    ),
    mutant(
        "level-of-elr-is-not-heard",
        "Whether there are eligible leader replicas follows the level of the feature (KIP-966)",
        FEATURES,
        "    return levels.get(ELR_VERSION, int(rules.elr)) > 0",
        "    return rules.elr",
        "elr-switched-on / in-time: records.lost",
    ),
    mutant(
        "elr-outlives-its-level",
        "With level 0 a change of a partition clears what is left of its ELR (KIP-966, S20)",
        CHANGES,
        "        elr, last_known = (), partition.last_known_elr",
        "        last_known = partition.last_known_elr",
        "elr-switched-on / switched-off: S20",
    ),
    mutant(
        "brokers-keep-a-minimum-of-their-own",
        "With ELR all brokers have one min.insync.replicas (ConfigurationControlManager.maybeGenerateElrSafetyRecords)",
        CONFIG,
        "                self._set(broker_id, MIN_ISR, None, by)",
        "                pass",
        "test tests/scenarios/check/test_feature_levels.py::test_with_elr_all_brokers_have_one_min_insync_replicas",
    ),
)
