"""Followers of partitions that other brokers lead: the fetcher processes of a broker of a cluster."""
