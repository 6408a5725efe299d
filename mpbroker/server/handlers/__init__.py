"""One file per API, named as its messages in protocol/messages. Each ends in an `API` row; apis.py collects them."""
