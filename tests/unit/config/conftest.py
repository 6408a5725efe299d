"""Builds BrokerConfigs without looking at this machine: no environment, two cores."""

import pytest

from mpbroker.config.load_config import load_broker_config


@pytest.fixture
def configure():
    """configure("key=value", …, environ={…}, path=…, cores=2) → BrokerConfig."""

    def build(*overrides, environ=None, path=None, cores=2):
        return load_broker_config(path, overrides=overrides, environ=environ or {}, cores=cores)

    return build
