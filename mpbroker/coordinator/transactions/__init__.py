"""Transactions: the coordinator's state of each transactional id, its log, markers. Runs in the coordinator process."""
