"""Requests to hold this broker against Apache Kafka 3.9, one module per group of APIs. Importing gathers all of them."""

from tests.conformance.corpus import (  # noqa: F401
    admin_cases,
    alter_configs_cases,
    broker_settings_cases,
    configs_cases,
    delete_records_cases,
    features_cases,
    fetch_cases,
    fetch_limit_cases,
    fetch_session_cases,
    frame_cases,
    idempotent_cases,
    list_offsets_cases,
    metadata_cases,
    produce_batch_cases,
    produce_cases,
    security_cases,
    small_cases,
    topic_change_cases,
    topic_cases,
)
from tests.conformance.corpus.case import CASES, Case  # noqa: F401
