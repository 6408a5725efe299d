"""What a command is answered that no controller can carry out: 41, in the shape its sender expects. Pure."""

from typing import Any

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import AllocateProducerIds, Failed, ProducerIds
from mpbroker.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from mpbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def not_controller(command: Any) -> Any:
    """NOT_CONTROLLER for this command: its sender looks for the controller again."""
    code = ErrorCode.NOT_CONTROLLER
    match command:
        case AlterPartitionRequest():
            return AlterPartitionResponse(error_code=code)
        case ControlledShutdownRequest():
            return ControlledShutdownResponse(error_code=code)
        case ElectLeadersRequest():
            return ElectLeadersResponse(error_code=code)
        case AlterPartitionReassignmentsRequest():
            return AlterPartitionReassignmentsResponse(error_code=code)
        case ListPartitionReassignmentsRequest():
            return ListPartitionReassignmentsResponse(error_code=code)
        case AllocateProducerIds():
            return ProducerIds(error_code=code)
    return Failed(code)
