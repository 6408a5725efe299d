"""Tests that kill: a broker under load loses workers at random, and the clients' view is checked."""
