"""Delayed operations: requests that wait for data, acknowledgement or the controller. Knows no API."""
