"""Settings: one table, its sources, the frozen BrokerConfig, topic settings. Pure; read by every process, written by
none.

The supervisor builds one `BrokerConfig` before it forks; workers inherit it and never change it.
"""
