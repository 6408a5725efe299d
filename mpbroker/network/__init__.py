"""The socket side of the broker: acceptors take connections, processors frame requests and send answers."""
