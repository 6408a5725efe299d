"""The loop of the agent: commands of handlers, the store's watch, the connection to the cluster's controller, and the
session,
in one process (slot of the controller) of a broker of a cluster."""

import select
from typing import Final

from mpbroker.channel.command_channel import CommandChannel
from mpbroker.controller.agent import Agent
from mpbroker.controller.command_inbox import CommandInbox
from mpbroker.controller.machine_crash import unclean_start
from mpbroker.controller.open_logs import build_logs
from mpbroker.controller.own_record import machine
from mpbroker.log.log_manager import open_log
from mpbroker.log.removed_files import RemovedFiles
from mpbroker.metadata.meta_store import StoreError
from mpbroker.metadata.open_store import open_cluster_store
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessState

TURN_MS: Final = 100
"""So often the loop looks for proposals of in-sync replicas and beats, also when nobody rings."""
DEAD_SESSIONS_MS: Final = 1000
"""Cluster controllers end dead brokers' sessions. An agent that did so, too, would wait for their writes when it is to
carry out what they decide."""


def main(ctx: ProcessContext) -> None:
    """Process main: recover and register, then carry out what comes until asked to stop."""
    ctx.process_row.set_state(ProcessState.RECOVERING)
    place = ctx.config.cluster_store
    assert place is not None, "a broker by itself has no agent"
    unclean = unclean_start(list(ctx.data_dirs), machine(), f"{ctx.boot_id:016x}")  # before the markers are taken away
    if unclean:
        ctx.log.warning("unclean_start", reason="the machine went down under this broker")
    log = open_log(ctx)
    agent = Agent(ctx, open_cluster_store(place, DEAD_SESSIONS_MS), log, build_logs(ctx, log), unclean)
    removed_files = RemovedFiles(log, SystemClock())
    agent.recover()
    channel = CommandChannel(ctx.core)
    inbox = CommandInbox(channel, ctx.stop_requested)
    inbox.start()
    ctx.running()
    while not ctx.stop_requested():
        poll = select.poll()
        for fd in (inbox.fileno(), agent.watch_fd(), ctx.wakeup_fd):
            poll.register(fd, select.POLLIN)
        for connection in agent.channels():
            if connection.fileno() >= 0:
                poll.register(connection.fileno(), connection.events())
        poll.poll(TURN_MS)
        ctx.drain_wakeups()
        _turn(ctx, agent, inbox, channel)
        removed_files.give_back()
    agent.close()


def _turn(ctx: ProcessContext, agent: Agent, inbox: CommandInbox, channel: CommandChannel) -> None:
    config = ctx.take_reload()
    if config is not None:
        agent.use_config(config)
    try:
        agent.keep_alive()
        agent.follow_store()
        agent.tell_changes()
        for taken in inbox.take():
            channel.complete(taken.number, agent.execute(taken), ctx.core.metadata_generation)
            agent.keep_alive()
        agent.propose()
        agent.tell_roles()
        agent.hand_over()
    except StoreError as error:
        ctx.log.warning("store_unavailable", problem=str(error))
    ctx.process_row.beat()
