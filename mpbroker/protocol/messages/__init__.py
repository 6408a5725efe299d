"""One module per API, request and response together; field names are Kafka's, in snake case. Constants, any process.

Nothing is imported here: a module is imported by who uses its messages. All of them by key: `protocol.messages_by_key`.
"""
